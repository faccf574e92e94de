"""The schema of a trace, in one place, and the layout of its directory.

A run's trace is a directory with ``events.parquet`` (a file, or a folder of parts) and
``run.json``, and ``samples.parquet`` if the run was sampled. One row is one event;
:class:`antecede.trace.event.Event` is the same row as a Python value. Rows of our own
traces stand in the order of ``step``.

This module needs the extra ``antecede[trace]``.
"""

import pyarrow as pa

__all__ = ["EVENTS_NAME", "INFO_NAME", "SAMPLES_NAME", "SAMPLES_SCHEMA", "SCHEMA"]

EVENTS_NAME = "events.parquet"
"""The rows: a Parquet file, or a folder of Parquet files that sort by name."""
INFO_NAME = "run.json"
"""Everything about the run that is not an event."""
SAMPLES_NAME = "samples.parquet"
"""What a simulated run noted of its processes at some moments, if it was asked to."""

SCHEMA: pa.Schema = pa.schema(
    [
        # Which run.
        pa.field("run", pa.string(), nullable=False),
        # Where it happened.
        pa.field("process", pa.int32(), nullable=False),
        # Its position in that process's own history, from 0, without gaps.
        pa.field("seq", pa.int64(), nullable=False),
        # Its position in a linear extension of happened-before of the whole run, if known.
        pa.field("step", pa.int64()),
        # Seconds, virtual or wall; never evidence of order across processes.
        pa.field("time", pa.float64(), nullable=False),
        # What happened: a value of antecede.trace.event.Kind.
        pa.field("kind", pa.string(), nullable=False),
        # Which message: its sender, and its number there from 1.
        pa.field("source", pa.int32()),
        pa.field("number", pa.int64()),
        # The one target of a release, arrive, deliver, transmit, control or drop.
        pa.field("target", pa.int32()),
        # On a send: all its targets; null for a broadcast to the members of the moment.
        pa.field("targets", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        # On a release, transmit or control: what the wire carried.
        pa.field("payload_bytes", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
    ]
)

SAMPLES_SCHEMA: pa.Schema = pa.schema(
    [
        # Which run.
        pa.field("run", pa.string(), nullable=False),
        # When it was noted, and what: a measure of antecede.sim.probe.
        pa.field("time", pa.float64(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
