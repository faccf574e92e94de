"""The schema of a trace, and the layout of its directory.

A run's trace is a directory with ``events.parquet`` (a file, or a folder of parts) and
``run.json``, and ``samples.parquet`` if the run was sampled. One row is one event;
:class:`antecede.trace.event.Event` is the same row as a Python value. The traces of the
simulator and merged traces are sorted by ``step``.

This module needs the extra ``antecede[trace]``.
"""

import pyarrow as pa

__all__ = ["EVENTS_NAME", "INFO_NAME", "SAMPLES_NAME", "SAMPLES_SCHEMA", "SCHEMA"]

EVENTS_NAME = "events.parquet"
"""The rows: a Parquet file, or a folder of Parquet files that sort by name."""
INFO_NAME = "run.json"
"""Everything about the run that is not an event, as JSON."""
SAMPLES_NAME = "samples.parquet"
"""Measures of the processes of a simulated run at some times, if it was sampled."""

SCHEMA: pa.Schema = pa.schema(
    [
        # The name of the run.
        pa.field("run", pa.string(), nullable=False),
        # The process at which the event happened.
        pa.field("process", pa.int32(), nullable=False),
        # Its position in the history of that process, from 0, without gaps.
        pa.field("seq", pa.int64(), nullable=False),
        # Its position in a linear extension of happened-before of the whole run, if known.
        pa.field("step", pa.int64()),
        # Seconds, virtual or wall clock; it does not order events of different processes.
        pa.field("time", pa.float64(), nullable=False),
        # A value of antecede.trace.event.Kind.
        pa.field("kind", pa.string(), nullable=False),
        # The message: its source, and its number among those of the source, from 1.
        pa.field("source", pa.int32()),
        pa.field("number", pa.int64()),
        # The target of a release, arrive, deliver, transmit, control or drop.
        pa.field("target", pa.int32()),
        # The targets of a send; null for a broadcast to the current members.
        pa.field("targets", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        # The bytes of the frame of a release, transmit or control.
        pa.field("payload_bytes", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
    ]
)

SAMPLES_SCHEMA: pa.Schema = pa.schema(
    [
        # The name of the run.
        pa.field("run", pa.string(), nullable=False),
        # The time, and the name of a measure of antecede.sim.probe.
        pa.field("time", pa.float64(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
