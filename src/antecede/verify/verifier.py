"""Judge a trace on disk, of any size, by the walk of :mod:`antecede.verify.kernels.walk`.

The verdict is that of :func:`antecede.trace.judge`, the oracle, with two differences: a
copy that was delivered too early is one violation, however many messages should have come
first; and what the trace cannot tell is unknown. The trace need not fit in memory: it is
read twice, once backward (:mod:`antecede.verify.kernels.matching`) and once forward, a batch at a
time.

This module needs the extra ``antecede[trace]``.
"""

import tempfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from antecede.errors import ConfigError
from antecede.trace.reader import RunInfo, Trace, read_trace
from antecede.verify.delivery_errors import FaultFindings, OrderFindings, order_violations
from antecede.verify.kernels.matching import GENUINE, LIVE, ONCE, Copies, Matching
from antecede.verify.kernels.slots import Ints, Slots
from antecede.verify.kernels.state import new_state
from antecede.verify.kernels.stream import Disordered, Rows, RowStream, Stream
from antecede.verify.kernels.walk import Known, Overtaken, walk
from antecede.verify.linear_extension import ordered_stream
from antecede.verify.oracle import MessageId, Property
from antecede.verify.verdict import Report, Status

__all__ = ["Walking", "fault_findings", "order_findings", "statuses_of", "verify"]

_ORDERS = (Property.CAUSAL, Property.FIFO)
_FAULTS = ((ONCE, Property.ONCE), (GENUINE, Property.GENUINE), (LIVE, Property.LIVE))


def verify(trace: Trace | str | Path, *, violations_max: int = 10) -> Report:
    """Judge the trace of a run.

    Its rows are taken as they stand if that proves to be a linear extension of
    happened-before; else they are put in one first, in memory.

    Args:
        trace: The trace, or the run's directory.
        violations_max: The most violations of each property to name, with their chains.

    Raises:
        ConfigError: There is no trace, it is damaged, or its events are no run: a message
            is sent twice, or by another, or delivered before it can have been sent.
    """
    if violations_max < 0:
        raise ConfigError(f"violations_max must be at least 0, got {violations_max}")
    trace = trace if isinstance(trace, Trace) else read_trace(trace)
    try:
        return _verify_stream(RowStream(trace), trace, violations_max)
    except Disordered:
        pass
    try:
        return _verify_stream(ordered_stream(trace), trace, violations_max)
    except Disordered as error:
        raise ConfigError(f"{trace.path}: its events are in no possible order") from error


def _verify_stream(stream: Stream, trace: Trace, violations_max: int) -> Report:
    faults, orders = fault_findings(violations_max), order_findings(violations_max)
    with tempfile.TemporaryFile() as file:
        copies_file = _CopiesFile(file)
        matching = _match(stream, copies_file, faults)
        if not matching.numbers_rise:
            _check_sent_once(stream, trace)
        kept_max = _walk(stream, copies_file, matching.open, orders)
    counts = {order.which: order.count for order in orders}
    counts.update({fault.which: fault.count for fault in faults})
    statuses, reasons = statuses_of(
        counts,
        trace.info,
        gaps=stream.gaps,
        members=stream.members,
        reach_min=matching.reach_min,
    )
    violations = order_violations(stream, orders)
    for fault in faults:
        if statuses[fault.which] is Status.VIOLATED:
            violations += fault.violations()
    return Report(
        run=trace.info.run,
        messages=matching.messages,
        deliveries=matching.deliveries,
        statuses=statuses,
        counts=counts,
        violations=tuple(violations),
        reasons=reasons,
        names=trace.info.names,
        kept_max=kept_max,
    )


def _match(
    stream: Stream, copies_file: "_CopiesFile", faults: list[FaultFindings]
) -> Matching:
    """Go backward, collecting faults."""
    matching = Matching()
    for rows in stream.backward():
        copies, found = matching.match(rows, len(stream.processes))
        copies_file.push(copies)
        for fault in faults:
            fault.take(found, stream.processes)
    for fault in faults:
        fault.take(matching.invented(), stream.processes)
    return matching


def _walk(
    stream: Stream, copies_file: "_CopiesFile", unsent: Slots, orders: list[OrderFindings]
) -> int:
    """Go forward, collecting breaches of order; return the most limits that were kept."""
    walking = Walking()
    for rows in stream.forward():
        copies = copies_file.pop()
        sent = np.flatnonzero(rows.is_send)
        source = rows.source[sent].astype(np.int64)
        if unsent.held and np.any(unsent.find(source, rows.number[sent]) >= 0):
            raise Disordered  # A delivery of it stands before its send.
        overtaken = walking.walk(rows, copies, len(stream.processes))
        for order in orders:
            order.take(rows, overtaken)
    return walking.kept_max


class Walking:
    """A walk forward through batches that follow each other, and what is in flight."""

    def __init__(self) -> None:
        """Start at the start of a run, or of a part of it."""
        self._state = new_state()
        self._in_flight = Slots()

    def walk(
        self, rows: Rows, copies: Copies, processes: int, known: Known | None = None
    ) -> Overtaken:
        """Walk the next batch; see :func:`antecede.verify.kernels.walk.walk`."""
        source = rows.source.astype(np.int64)
        slot: Ints = np.full(len(source), -1, np.int32)
        sent = np.flatnonzero(rows.is_send)[copies.deliveries > 0]
        slot[sent] = self._in_flight.add(source[sent], rows.number[sent])
        got = np.flatnonzero(~rows.is_send)
        slot[got] = self._in_flight.find(source[got], rows.number[got])
        self._state, overtaken, ended = walk(
            self._state,
            rows,
            slot,
            copies,
            processes=processes,
            messages=len(self._in_flight),
            known=known,
        )
        self._in_flight.remove(ended)
        return overtaken

    @property
    def kept_max(self) -> int:
        """The most limits that were kept at any time."""
        return self._state.kept_max


def _check_sent_once(stream: Stream, trace: Trace) -> None:
    """Refuse a trace in which a message is sent twice, whatever the order of numbers."""
    sent = Slots()
    for rows in stream.forward():
        before = len(sent)
        source = rows.source[rows.is_send].astype(np.int64)
        number = rows.number[rows.is_send]
        slot = sent.add(source, number)
        # Slots are given in turn, so that of a new message is above all before it.
        new = np.diff(np.maximum.accumulate(slot), prepend=before - 1) > 0
        if not np.all(new):
            i = int(np.flatnonzero(~new)[0])
            message = MessageId(int(stream.processes.first[source[i]]), int(number[i]))
            raise ConfigError(f"{trace.path}: message {message} is sent twice")


def fault_findings(violations_max: int) -> list[FaultFindings]:
    """Return what collects the breaches that show in a message by itself."""
    return [FaultFindings(which, kind, violations_max) for kind, which in _FAULTS]


def order_findings(violations_max: int) -> list[OrderFindings]:
    """Return what collects the breaches of order."""
    return [OrderFindings(which, violations_max) for which in _ORDERS]


def statuses_of(
    counts: dict[Property, int],
    info: RunInfo,
    *,
    gaps: int,
    members: int,
    reach_min: int | None,
) -> tuple[dict[Property, Status], tuple[str, ...]]:
    """Weigh what was found against what the trace cannot tell.

    Args:
        counts: Of each property, how often it is broken.
        info: What is known of the run.
        gaps: How many holes the histories have.
        members: How many processes have events.
        reach_min: The fewest others that some broadcast reached, None without broadcasts.
    """
    reasons = []
    statuses = {
        which: Status.VIOLATED if count else Status.HELD for which, count in counts.items()
    }
    if gaps:
        holes = "a gap" if gaps == 1 else f"{gaps} gaps"
        reasons.append(f"{holes} in what the processes recorded")
        for which, status in statuses.items():
            if status is Status.HELD:
                statuses[which] = Status.UNKNOWN
        if not info.complete and counts[Property.GENUINE]:
            statuses[Property.GENUINE] = Status.UNKNOWN  # Its send may be in a gap.
    if info.holes:
        reasons += info.holes
        for which, status in statuses.items():
            # What is missing may be the very send, or delivery, that was not found.
            if status is Status.HELD or which in (Property.GENUINE, Property.LIVE):
                statuses[which] = Status.UNKNOWN
    if counts[Property.LIVE] and not info.complete:
        statuses[Property.LIVE] = Status.UNKNOWN
        reasons.append("the run did not come to rest, so what is undelivered may be late")
    members = info.processes if info.processes is not None else members
    if reach_min is not None and reach_min < members - 1:
        if statuses[Property.LIVE] is Status.HELD:
            statuses[Property.LIVE] = Status.UNKNOWN
        reasons.append("a broadcast did not reach every process, and may not have had to")
    return statuses, tuple(reasons)


class _CopiesFile:
    """What the pass backward tells the pass forward, on disk: last in, first out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places: list[int] = []

    def push(self, copies: Copies) -> None:
        try:
            self._places.append(self._file.seek(0, 2))
            for column in copies:
                np.save(self._file, column)
        except OSError as error:
            where = tempfile.gettempdir()
            raise ConfigError(f"cannot write to {where}: {error.strerror}") from error

    def pop(self) -> Copies:
        self._file.seek(self._places.pop())
        return Copies(*(np.load(self._file) for _ in Copies._fields))
