"""Verify a trace on disk, of any size.

The verdict is that of :func:`antecede.verify.verify_events`, the reference oracle, with two
differences: a copy that was delivered too early is one violation, however many messages
should have been delivered before it; and a property that the trace neither proves nor
disproves is unknown. The trace need not fit in memory. It is read twice, a batch at a time:
a backward pass finds the deliveries of each message
(:mod:`antecede.verify.kernels.matching`), a forward pass checks their order
(:mod:`antecede.verify.kernels.delivery_order`).

This module needs the extra ``antecede[trace]``.
"""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.trace.reader import RecordedRun, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.store import StorePath
from antecede.verify.breakdown import Buckets
from antecede.verify.breakdown_counter import (
    BreakdownCounter,
    buckets_of_run,
    find_time_range,
)
from antecede.verify.delivery_errors import (
    DeliveryErrorCollector,
    EarlyDeliveryCollector,
    order_violations,
)
from antecede.verify.kernels.delivery_order import check_delivery_order
from antecede.verify.kernels.matching import (
    LIVENESS,
    NO_CREATION,
    NO_DUPLICATION,
    Copies,
    DeliveryErrors,
    DeliveryMatcher,
)
from antecede.verify.kernels.slot_map import Ints, SlotMap
from antecede.verify.kernels.state import EarlyDeliveries, InitialLimits, new_state
from antecede.verify.kernels.stream import (
    MissingDeliveries,
    NotLinearExtensionError,
    Rows,
    RowStream,
    Stream,
)
from antecede.verify.linear_extension import ordered_stream
from antecede.verify.oracle import MessageId, Property
from antecede.verify.process_names import with_names
from antecede.verify.verdict import Status, TraceVerdict

__all__ = [
    "DeliveryOrderChecker",
    "count_unverified",
    "delivery_error_collectors",
    "determine_statuses",
    "early_delivery_collectors",
    "verify_trace",
]


def verify_trace(
    trace: RecordedRun | str | Path | StorePath,
    *,
    violations_max: int = 10,
    with_breakdown: bool = False,
) -> TraceVerdict:
    """Verify the trace of a run.

    The rows are read in their order on disk if that is a linear extension of
    happened-before; otherwise they are sorted first, in memory.

    Args:
        trace: The trace, or the run's directory or URI.
        violations_max: The maximum number of violations to return for each property.
        with_breakdown: Also count all violations by pair of processes and by time
            (:attr:`TraceVerdict.breakdown`); this reads the times of all events.

    Raises:
        TraceError: There is no trace, it is damaged, or its events are not a run: a message
            is sent twice, or by a process other than its source, or is delivered before it
            can have been sent.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    if isinstance(trace, str | Path | StorePath):
        trace = read_trace(trace)
    buckets = buckets_of_run([find_time_range(trace)]) if with_breakdown else None
    try:
        return _verify(trace, violations_max, buckets)
    except TraceError as error:
        if not trace.info.names:
            raise
        raise with_names(error, trace) from error


def _verify(
    trace: RecordedRun, violations_max: int, buckets: Buckets | None
) -> TraceVerdict:
    """Verify the rows in their order, or sort them first."""
    try:
        stream = RowStream(trace, with_times=buckets is not None)
        return _verify_stream(stream, trace, violations_max, buckets)
    except NotLinearExtensionError:
        pass
    try:
        return _verify_stream(ordered_stream(trace), trace, violations_max, buckets)
    except NotLinearExtensionError as error:
        with suppress(NotLinearExtensionError):
            _check_sent_once(RowStream(trace), trace)  # A possible cause.
        raise TraceError(
            f"{trace.location}: no order of its events is a linear extension of"
            " happened-before"
        ) from error


def _verify_stream(
    stream: Stream, trace: RecordedRun, violations_max: int, buckets: Buckets | None
) -> TraceVerdict:
    delivery_errors = delivery_error_collectors(violations_max)
    early_deliveries = early_delivery_collectors(violations_max)
    counter = None if buckets is None else BreakdownCounter(buckets)
    with tempfile.TemporaryFile() as file:
        batches_file = _BatchesFile(file, with_errors=counter is not None)
        matcher = _match_deliveries(stream, batches_file, delivery_errors)
        if not matcher.numbers_increase:
            _check_sent_once(stream, trace)
        if counter is not None:
            counter.add_errors(matcher.unmatched_deliveries())
        limits_max = _check_order(
            stream, batches_file, matcher.unmatched, early_deliveries, counter
        )
    counts = {early.property: early.count for early in early_deliveries}
    counts.update({errors.property: errors.count for errors in delivery_errors})
    statuses, reasons = determine_statuses(
        counts,
        trace.info,
        missing=stream.missing,
        gaps=stream.gaps,
        late_starts=stream.late_starts,
        members=stream.members,
        broadcast_reach_min=matcher.broadcast_reach_min,
    )
    violations = order_violations(stream, early_deliveries)
    for errors in delivery_errors:
        if statuses[errors.property] is Status.VIOLATED:
            violations += errors.violations()
    return TraceVerdict(
        run=trace.info.run,
        messages=matcher.messages,
        deliveries=matcher.deliveries,
        statuses=statuses,
        counts=counts,
        violations=tuple(violations),
        reasons=reasons,
        names=trace.info.names,
        unverified=count_unverified(trace.info, stream.missing, stream.gaps),
        limits_max=limits_max,
        breakdown=None if counter is None else counter.breakdown(stream.processes),
    )


def _match_deliveries(
    stream: Stream,
    batches_file: "_BatchesFile",
    collectors: list[DeliveryErrorCollector],
) -> DeliveryMatcher:
    """Run the backward pass: store the results of each batch, and collect errors."""
    matcher = DeliveryMatcher()
    for rows in stream.backward():
        copies, errors = matcher.match(rows, len(stream.processes))
        batches_file.push(copies, errors)
        for collector in collectors:
            collector.add(errors, stream.processes)
    for collector in collectors:
        collector.add(matcher.unmatched_deliveries(), stream.processes)
    return matcher


def _check_order(
    stream: Stream,
    batches_file: "_BatchesFile",
    unmatched: SlotMap,
    collectors: list[EarlyDeliveryCollector],
    counter: BreakdownCounter | None,
) -> int:
    """Run the forward pass; return the maximum number of limits held at any time."""
    checker = DeliveryOrderChecker()
    for rows in stream.forward():
        copies, errors = batches_file.pop()
        sent = np.flatnonzero(rows.is_send)
        source = rows.source[sent].astype(np.int64)
        if unmatched.held and np.any(unmatched.find(source, rows.number[sent]) >= 0):
            raise NotLinearExtensionError  # A delivery precedes its send.
        early = checker.check(rows, copies, len(stream.processes))
        for collector in collectors:
            collector.add(rows, early)
        if counter is not None:
            counter.add_errors(errors)
            counter.add_early_deliveries(rows, early)
            counter.advance(rows)
    return checker.limits_max


class DeliveryOrderChecker:
    """Checks the delivery order of consecutive batches in a forward pass."""

    def __init__(self) -> None:
        """Start at the first row of a run, or of a part of it."""
        self._state = new_state()
        self._in_flight = SlotMap()

    def check(
        self,
        rows: Rows,
        copies: Copies,
        processes: int,
        initial: InitialLimits | None = None,
    ) -> EarlyDeliveries:
        """Check the next batch with :func:`check_delivery_order`."""
        source = rows.source.astype(np.int64)
        slot: Ints = np.full(len(source), -1, np.int32)
        sent = np.flatnonzero(rows.is_send)[copies.deliveries > 0]
        slot[sent] = self._in_flight.add(source[sent], rows.number[sent])
        delivered = np.flatnonzero(~rows.is_send)
        slot[delivered] = self._in_flight.find(source[delivered], rows.number[delivered])
        self._state, early, ended = check_delivery_order(
            self._state,
            rows,
            slot,
            copies,
            processes=processes,
            messages=len(self._in_flight),
            initial=initial,
        )
        self._in_flight.remove(ended)
        return early

    @property
    def limits_max(self) -> int:
        """The maximum number of limits held at any time."""
        return self._state.limits_max


def _check_sent_once(stream: Stream, trace: RecordedRun) -> None:
    """Raise TraceError if a message is sent twice, for numbers in any order."""
    sent = SlotMap()
    for rows in stream.forward():
        before = len(sent)
        source = rows.source[rows.is_send].astype(np.int64)
        number = rows.number[rows.is_send]
        slot = sent.add(source, number)
        # Slots are assigned in increasing order, so a new message has the highest one.
        new = np.diff(np.maximum.accumulate(slot), prepend=before - 1) > 0
        if not np.all(new):
            i = int(np.flatnonzero(~new)[0])
            message = MessageId(int(stream.processes.first[source[i]]), int(number[i]))
            raise TraceError(f"{trace.location}: message {message} is sent twice")


def delivery_error_collectors(violations_max: int) -> list[DeliveryErrorCollector]:
    """Return a collector for each property of single messages."""
    kinds = (
        (Property.NO_DUPLICATION, NO_DUPLICATION),
        (Property.NO_CREATION, NO_CREATION),
        (Property.LIVENESS, LIVENESS),
    )
    return [DeliveryErrorCollector(which, kind, violations_max) for which, kind in kinds]


def early_delivery_collectors(violations_max: int) -> list[EarlyDeliveryCollector]:
    """Return a collector for each property of the delivery order."""
    return [
        EarlyDeliveryCollector(which, violations_max)
        for which in (Property.CAUSAL, Property.FIFO)
    ]


def determine_statuses(
    counts: dict[Property, int],
    info: RunInfo,
    *,
    missing: MissingDeliveries,
    gaps: int,
    late_starts: int,
    members: int,
    broadcast_reach_min: int | None,
) -> tuple[dict[Property, Status], tuple[str, ...]]:
    """Return the status of each property, and the reasons why some are unknown.

    Args:
        counts: The number of violations of each property.
        info: The contents of ``run.json``.
        missing: The deliveries that the events mark as missing.
        gaps: The number of gaps in the histories.
        late_starts: The number of histories that begin after seq 0.
        members: The number of processes that have events.
        broadcast_reach_min: The smallest number of other processes that delivered a
            broadcast, None without broadcasts.
    """
    reasons = []
    statuses = {
        which: Status.VIOLATED if count else Status.HELD for which, count in counts.items()
    }
    if gaps:
        reason = f"the histories of the processes have {gaps} gap{'s' if gaps > 1 else ''}"
        if late_starts == members:
            reason += (
                ": no process has an event with seq 0; if the events are numbered from 1,"
                " subtract 1 from seq"
            )
        reasons.append(reason)
        for which, status in statuses.items():
            if status is Status.HELD:
                statuses[which] = Status.UNKNOWN
        if not info.complete and counts[Property.NO_CREATION]:
            statuses[Property.NO_CREATION] = Status.UNKNOWN  # A gap may hide the send.
    if info.missing or any(missing):
        reasons += info.missing or [_describe_missing(missing)]
        for which, status in statuses.items():
            # The missing part may contain the send or the delivery that was not found.
            if status is Status.HELD or which in (
                Property.NO_CREATION,
                Property.LIVENESS,
            ):
                statuses[which] = Status.UNKNOWN
    if counts[Property.LIVENESS] and not info.complete:
        statuses[Property.LIVENESS] = Status.UNKNOWN
        reasons.append(
            "the run is not marked complete, so undelivered messages may be in flight"
        )
    members = info.processes if info.processes is not None else members
    if broadcast_reach_min is not None and broadcast_reach_min < members - 1:
        if statuses[Property.LIVENESS] is Status.HELD:
            statuses[Property.LIVENESS] = Status.UNKNOWN
        reasons.append(
            "some process did not deliver a broadcast, and may not have been a member"
        )
    return statuses, tuple(reasons)


def count_unverified(info: RunInfo, missing: MissingDeliveries, gaps: int) -> int | None:
    """Return the number of deliveries that are not verified, or None if it is not known.

    The arguments are those of :func:`determine_statuses`.
    """
    if gaps or missing.uncounted or (info.missing and not missing.counted):
        return None
    return missing.counted


def _describe_missing(missing: MissingDeliveries) -> str:
    """Describe missing deliveries of a run that does not list the reasons."""
    if missing.uncounted:
        return "the events mark an unknown number of deliveries as missing"
    return f"the events mark {missing.counted:,} deliveries as missing"


class _BatchesFile:
    """Passes copies and errors from the backward to the forward pass, as a stack on disk.

    Errors are passed only ``with_errors``.
    """

    def __init__(self, file: BinaryIO, *, with_errors: bool) -> None:
        self._file = file
        self._with_errors = with_errors
        self._offsets: list[int] = []

    def push(self, copies: Copies, errors: DeliveryErrors) -> None:
        try:
            self._offsets.append(self._file.seek(0, 2))
            for column in (*copies, *(errors if self._with_errors else ())):
                np.save(self._file, column)
        except OSError as error:
            directory = tempfile.gettempdir()
            raise StorageError(f"cannot write to {directory}: {error.strerror}") from error

    def pop(self) -> tuple[Copies, DeliveryErrors]:
        self._file.seek(self._offsets.pop())
        copies = Copies(*(np.load(self._file) for _ in Copies._fields))
        fields = DeliveryErrors._fields
        if not self._with_errors:
            return copies, DeliveryErrors(*(np.empty(0, np.int64) for _ in fields))
        return copies, DeliveryErrors(*(np.load(self._file) for _ in fields))
