"""The measures of one run, from its events.

This is the only definition of the measures. The tasks that simulate the cells of a study
use it, the step that measures existing traces, and :func:`antecede.spark.measure`. It does
not need Spark. :mod:`antecede.pipeline.study.comparison` adds the measures that compare
runs.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.pipeline.study.peaks import peaks
from antecede.pipeline.study.run_copies import (
    DURATIONS,
    RunCopies,
    count_relays,
    find_copies,
)
from antecede.pipeline.study.run_events import (
    MessageRange,
    RunEvents,
    message_ranges,
    read_events,
)
from antecede.pipeline.study.statistics import ValueSummary
from antecede.trace.event import Kind
from antecede.trace.reader import RecordedRun

__all__ = ["SAMPLED", "measure_run", "measure_samples"]

SAMPLED = (
    "links",
    "unsafe_links",
    "mean_path",
    "unreached",
    "view_links",
    "view_mean_path",
    "state_numbers_mean",
    "state_numbers_max",
    "sender_work_us",
    "receiver_work_us",
)
"""Measures of a probe; over its samples, the mean, or for ``_max`` the maximum."""
QUANTITIES = (*DURATIONS, "metadata_bytes")
"""Columns of a copy of which a run has the mean, percentiles and maximum."""

OnCopies = Callable[[RunCopies], None]


def measure_run(
    run: RecordedRun, rows: int, *, relays: bool, on_copies: OnCopies | None = None
) -> dict[str, float | None]:
    """Return the measures of a run of this many rows, except comparisons and samples.

    Args:
        run: The events.
        rows: The number of events.
        relays: The protocol of the run relays messages.
        on_copies: Receives the copies, in the order of their messages, in one or more
            parts.
    """
    measured = _RunMeasures()
    for messages in message_ranges(run, rows):
        _measure_range(run, messages, measured, relays=relays, on_copies=on_copies)
    return measured.result()


def _measure_range(
    run: RecordedRun,
    messages: MessageRange,
    measured: "_RunMeasures",
    *,
    relays: bool,
    on_copies: OnCopies | None,
) -> None:
    events = read_events(run, messages)
    measured.add_events(events)
    copies = find_copies(events, relays=relays)
    measured.add_copies(copies)
    if on_copies is not None:
        on_copies(copies)


def measure_samples(samples: pa.Table) -> dict[str, float | None]:
    """Return the measures of a probe, from the samples of one run."""
    names = np.array(samples.column("measure").to_pylist(), object)
    values = samples.column("value").to_numpy()
    found: dict[str, float | None] = {}
    for name in SAMPLED:
        chosen = values[names == name]
        over = np.max if name.endswith("_max") else np.mean
        found[name] = float(over(chosen)) if len(chosen) else None
    return found


class _CopyTimes(NamedTuple):
    """The columns of copies that remain in memory until the end of the run."""

    source: np.ndarray
    target: np.ndarray
    sent: np.ndarray
    released: np.ndarray
    arrived: np.ndarray
    delivered: np.ndarray


class _RunMeasures:
    """Adds up the events and copies of a run."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = dict.fromkeys(
            (
                "control_frames",
                "control_bytes",
                "payload_bytes_total",
                "metadata_bytes_total",
                "retransmissions",
                "relays",
                "drops",
                "copies",
            ),
            0,
        )
        self.values = {name: ValueSummary() for name in QUANTITIES}
        self.jobs = 0
        self.job_starts = 0.0
        self.ended = -np.inf
        self.crashed: dict[int, float] = {}
        self.living = self.living_delivered = 0
        self.times: list[_CopyTimes] = []

    def add_events(self, events: RunEvents) -> None:
        """Add the events of a range; the first range has those without a message."""
        totals = self.totals
        is_control = events.where(Kind.CONTROL)
        totals["control_frames"] += int(np.count_nonzero(is_control))
        for name in ("payload_bytes", "metadata_bytes"):
            sizes = np.maximum(getattr(events, name), 0)
            totals[f"{name}_total"] += int(sizes.sum())
            totals["control_bytes"] += int(sizes[is_control].sum())
        retransmissions, relays = count_relays(events)
        totals["retransmissions"] += retransmissions
        totals["relays"] += relays
        totals["drops"] += int(np.count_nonzero(events.where(Kind.DROP)))
        starts = events.time[events.where(Kind.JOB_START)]
        self.jobs += len(starts)
        self.job_starts += float(starts.sum())
        ends = events.time[events.where(Kind.DELIVER, Kind.JOB_END)]
        self.ended = float(ends.max(initial=self.ended))
        for row in np.flatnonzero(events.where(Kind.CRASH)).tolist():
            process, time = int(events.process[row]), float(events.time[row])
            self.crashed[process] = min(time, self.crashed.get(process, time))

    def add_copies(self, copies: RunCopies) -> None:
        """Add copies whose events were added."""
        self.totals["copies"] += len(copies.source)
        for name in DURATIONS:
            durations = copies.duration(name)
            self.values[name].add(durations[~np.isnan(durations)])
        sizes = copies.metadata_bytes
        self.values["metadata_bytes"].add(sizes[sizes >= 0].astype(np.float64))
        if self.crashed:
            silent = list(self.crashed)
            living = copies.sent > min(self.crashed.values())
            living &= ~np.isin(copies.source, silent) & ~np.isin(copies.target, silent)
            self.living += int(np.count_nonzero(living))
            delivered = ~np.isnan(copies.delivered[living])
            self.living_delivered += int(np.count_nonzero(delivered))
        self.times.append(
            _CopyTimes(*(getattr(copies, name) for name in _CopyTimes._fields))
        )

    def result(self) -> dict[str, float | None]:
        """Return the measures, by name."""
        found: dict[str, float | None] = dict(self.totals)
        for name, values in self.values.items():
            found |= values.result(name)
        delivered = self.values["latency"].count
        ended = None if self.ended == -np.inf else self.ended
        found |= {
            "delivered": delivered,
            "living_delivered_share": (
                self.living_delivered / self.living if self.living else None
            ),
            "execution_time": ended,
            "job_start_mean": self.job_starts / self.jobs if self.jobs else None,
            "throughput": delivered / ended if ended else None,
            **self._peaks(),
        }
        return found

    def _peaks(self) -> dict[str, int]:
        """Return the most copies that were in transit or buffered at the same time."""

        def column(name: str) -> np.ndarray:
            parts = [getattr(part, name) for part in self.times]
            found: np.ndarray = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return found

        source, target = column("source"), column("target")
        released, arrived = column("released"), column("arrived")
        pair = source * (int(target.max(initial=0)) + 1) + target
        transit, by_source, by_pair = peaks(released, arrived, (None, source, pair))
        (sender,) = peaks(column("sent"), released, (source,))
        (receiver,) = peaks(arrived, column("delivered"), (target,))
        return {
            "in_transit_max": transit,
            "in_transit_source_max": by_source,
            "in_transit_pair_max": by_pair,
            "sender_buffer_max": sender,
            "receiver_buffer_max": receiver,
        }
