"""The schemas of the tables that a study measures, and the meaning of every measure.

Times are in seconds.

``copies``
    One row per copy of a message to a process other than its source: when it was sent, and
    first released, first arrived and first delivered, and the durations between. If
    messages are relayed, a copy is released when its source transmits the first frame of
    the message, and its bytes are those of that frame. A broadcast has a copy for each
    process that delivered it. Each task that simulates cells writes those of its cells.

``measures``
    One row per cell and measure; :data:`MEASURES` describes each. A measured cell has a row
    for every measure, null where it is undefined: a mean of no values, a comparison without
    a reference. A cell without events has no rows. Percentiles are exact up to 16,777,216
    values of a cell, and have a relative error of at most 0.1 % above that
    (:mod:`antecede.pipeline.study.statistics`).

``summary``
    The measures over the seeds of each group of cells: count, mean, standard deviation, and
    the bounds of the confidence interval of the mean (Student's t, 95 %).

*Non-causal latency* is the latency of a copy minus that of the same copy in the reference
cell: the cell with the same workload and network whose protocol delivers at the earliest
moment that causal order allows, ``optimal`` or else ``matrix``. Two copies are the same if
source, number and target are equal. That is exact where every process sends the same
messages in the same order under every protocol. Where messages are replies, the order may
depend on the protocol. A copy that the reference cell lacks, or whose message has other
targets there, is not compared, but counted in ``non_causal_unmatched``; two replies to the
same target that swapped their numbers are not detected, so for workloads of replies only
the mean is meaningful. The difference can be negative: under a protocol that delays
messages, fewer messages depend on others.
"""

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["COPIES_SCHEMA", "MEASURES", "MEASURES_SCHEMA", "SUMMARY_SCHEMA", "Measure"]

COPIES_SCHEMA = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("source", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("target", pa.int32()),
        pa.field("sent", pa.float64()),
        pa.field("released", pa.float64()),
        pa.field("arrived", pa.float64()),
        pa.field("delivered", pa.float64()),
        # Between successive ones of these times, and from the first to the last.
        pa.field("sender_wait", pa.float64()),
        pa.field("wire", pa.float64()),
        pa.field("receiver_wait", pa.float64()),
        pa.field("latency", pa.float64()),
        # Of the first transmission.
        pa.field("payload_bytes", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
        # Whether the message is a broadcast.
        pa.field("broadcast", pa.bool_()),
    ]
)
MEASURES_SCHEMA = pa.schema(
    [
        pa.field("cell", pa.string()),
        pa.field("measure", pa.string()),
        pa.field("value", pa.float64()),
    ]
)
SUMMARY_SCHEMA = pa.schema(
    [
        pa.field("group", pa.string()),
        # Common to all cells of the group.
        pa.field("grid", pa.string()),
        pa.field("protocol", pa.string()),
        pa.field("workload", pa.string()),
        pa.field("network", pa.string()),
        pa.field("processes", pa.int32()),
        pa.field("messages", pa.int32()),
        pa.field("measure", pa.string()),
        # The number of cells that have a value, and statistics of these values.
        pa.field("seeds", pa.int64()),
        pa.field("mean", pa.float64()),
        pa.field("deviation", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of a run."""

    unit: str
    meaning: str


def _statistics(name: str, unit: str, meaning: str) -> dict[str, Measure]:
    words = {"mean": "mean", "p50": "median", "p99": "99th percentile", "max": "largest"}
    return {
        f"{name}_{key}": Measure(unit=unit, meaning=f"{meaning}, {word}")
        for key, word in words.items()
    }


MEASURES: dict[str, Measure] = {
    **_statistics("sender_wait", "s", "from send to release"),
    **_statistics("wire", "s", "from release to the first arrival"),
    **_statistics("receiver_wait", "s", "from the first arrival to delivery"),
    **_statistics("latency", "s", "from send to delivery"),
    **_statistics("non_causal_latency", "s", "latency beyond the minimum for causal order"),
    "non_causal_unmatched": Measure(
        unit="copies", meaning="delivered, but not compared for non-causal latency"
    ),
    "copies": Measure(unit="copies", meaning="sent to other processes"),
    "delivered": Measure(unit="copies", meaning="delivered at other processes"),
    "living_delivered_share": Measure(
        unit="share",
        meaning="of the copies among processes that never crash, sent after the first"
        " crash, that were delivered",
    ),
    "execution_time": Measure(
        unit="s", meaning="from 0 to the last delivery or end of a job"
    ),
    "job_start_mean": Measure(unit="s", meaning="from 0 to the start of a job, mean"),
    "throughput": Measure(unit="copies/s", meaning="copies delivered by execution time"),
    "execution_speedup": Measure(
        unit="times",
        meaning="execution time of buffer on the same workload / that of this run",
    ),
    "job_start_speedup": Measure(
        unit="times",
        meaning="mean job start of buffer on the same workload / that of this run",
    ),
    "in_transit_max": Measure(
        unit="copies", meaning="most released and not arrived at once"
    ),
    "in_transit_source_max": Measure(
        unit="copies", meaning="most released and not arrived at once, of one source"
    ),
    "in_transit_pair_max": Measure(
        unit="copies",
        meaning="most released and not arrived at once, of one source and target",
    ),
    "sender_buffer_max": Measure(
        unit="copies", meaning="most queued at once at one source"
    ),
    "receiver_buffer_max": Measure(
        unit="copies", meaning="most held at once at one target"
    ),
    "control_frames": Measure(unit="frames", meaning="without a message"),
    "control_bytes": Measure(unit="bytes", meaning="in frames without a message"),
    **_statistics(
        "metadata_bytes", "bytes", "in addition to the payload, first transmission"
    ),
    "metadata_bytes_total": Measure(
        unit="bytes", meaning="in addition to the payload, all frames"
    ),
    "payload_bytes_total": Measure(unit="bytes", meaning="payload in all frames"),
    "retransmissions": Measure(unit="frames", meaning="retransmitted, per hop"),
    "relays": Measure(unit="frames", meaning="forwarded for another process"),
    "drops": Measure(unit="frames", meaning="lost by the network"),
    # Only of runs with a probe.
    "links": Measure(unit="links", meaning="of a process on the overlay, safe or not"),
    "unsafe_links": Measure(
        unit="links", meaning="of a process that are not yet safe to use"
    ),
    "mean_path": Measure(unit="hops", meaning="mean shortest path along safe links"),
    "unreached": Measure(
        unit="share", meaning="of processes that no path of safe links reaches"
    ),
    "view_links": Measure(unit="links", meaning="of a process, of partial views only"),
    "view_mean_path": Measure(
        unit="hops", meaning="mean shortest path along links of views"
    ),
    "state_numbers_mean": Measure(unit="numbers", meaning="kept by a process, mean"),
    "state_numbers_max": Measure(unit="numbers", meaning="kept by a process, maximum"),
    "sender_work_us": Measure(
        unit="µs", meaning="of processor time per message sent, at its source"
    ),
    "receiver_work_us": Measure(
        unit="µs", meaning="of processor time per message that arrived, at its target"
    ),
}
"""Every measure, in the order of display."""
