"""Infer a run from spans.

The start and the end of a span are two events of its process. A span whose parent is in
another process was called by it: the call is a *request*, delivered at the start of the
child, and a *reply*, sent at the end of the child. The parent is a *call span* if its kind
is client; or if it has no kind, the call is its only child, and it was not itself called by
another process. The request is sent at the start of the call span, and its reply is
delivered at the end of the call span. The message of a producer has no reply, and can have
several consumers.

If a parent is not a call span, for example because it makes several calls or repeats one,
the times of the calls are not recorded. These calls are not verified and count as unknown.

**Timeouts.** A call can end before its reply. This is certain if the called span lasts
longer than the call span, or if other calls of the same tree of spans show that the clocks
differ by less (:mod:`antecede.ingest.inference.late_replies`). Whether and when the reply
was delivered is not recorded, so it is dropped; the request is kept. If messages still form
a cycle of happened-before, the replies in it are dropped, and if that is not enough, all
messages in it (:mod:`antecede.ingest.inference.cycles`).

**Order.** The timestamps of a process are assumed to order its events. A span that was
caused by another span of its process starts after it, for any timestamps. If timestamps do
not determine the order of two sends or deliveries, because they are equal or because one
has only whole milliseconds, the message of one of them is dropped
(:mod:`antecede.ingest.inference.ordering`). So are the messages of a span that ends before
it starts. Timestamps of different processes are only compared to find clock skew.

Each copy of a dropped or unresolved message is one event of the kind *missing*.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import Diagnostics, IngestSummary
from antecede.ingest.event_table import (
    DELIVER,
    LOCAL,
    MISSING,
    NONE,
    SEND,
    EventTable,
)
from antecede.ingest.inference.cycles import messages_in_cycles
from antecede.ingest.inference.late_replies import find_late_replies
from antecede.ingest.inference.ordering import (
    AMBIGUOUS_ORDER,
    ambiguous_events,
    sort_histories,
)
from antecede.ingest.inference.record_log import RecordLog
from antecede.ingest.inference.span_parents import (
    CLIENT,
    CONSUMER,
    PRODUCER,
    Spans,
    add_span_diagnostic,
    resolve_parents,
)
from antecede.ingest.inference.span_tree import find_cycles_of_parents, find_trees
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["infer_from_spans", "span_columns_used"]

ASSUMPTIONS = (
    "each process's own timestamps order its events",
    "a request is sent at the start of its call span, and its reply delivered at that"
    " span's end, unless durations or other calls show that the call ended before it",
    "spans with the same process name belong to one process; if services have several"
    " instances, map the column process to the name of the instance",
)
NS_PER_MS = 1_000_000
COARSE_BY_CHANCE_MAX = 0.01
"""The largest share of whole milliseconds that can be by chance; of timestamps in
microseconds, one in a thousand is a whole millisecond."""
NOT_USED = ("problem", "run", "name")


def span_columns_used(schema: pa.Schema) -> pa.Schema:
    """Return the columns of spans that the inference uses."""
    return pa.schema([field for field in schema if field.name not in NOT_USED])


class _Calls(NamedTuple):
    """The calls, by span."""

    is_caller: Bools
    """Whether it is a call span, which sends a request at its start."""
    is_called: Bools
    """Whether it delivers a request of its parent at its start."""
    is_two_way: Bools
    """Whether it delivers (call span) or sends (called span) a reply at its end."""
    is_late: Bools
    """Whether it was called, and its call ended before its reply."""
    is_unresolved: Bools
    """Whether it was called by a span that is not a call span."""
    is_one_way: Bools
    """Whether it was called, and sends no reply."""


class _Events(NamedTuple):
    """The events of all spans, and which spans are incomplete or irregular."""

    table: EventTable
    is_moved: Bools
    """By span: whether it starts before its cause, by its timestamp."""
    is_ambiguous: Bools
    """By span: whether the order of its start or end is not known."""
    is_in_cycle: Bools
    """By span: whether a message of it was in a cycle of happened-before."""


def infer_from_spans(log: RecordLog) -> tuple[EventTable, IngestSummary]:
    """Resolve the parents of the spans, find the calls, and order the events."""
    records, file = log.table()
    missing, notes = Diagnostics(), Diagnostics()
    spans, unknown = resolve_parents(records, file, log.files, missing, notes)
    in_cycle = find_cycles_of_parents(spans.parent)
    spans.parent[in_cycle] = NONE
    spans.is_orphan[in_cycle] = True
    calls = _find_calls(spans)
    is_unanswered = np.zeros(len(in_cycle), np.bool_)
    is_unanswered[spans.parent[calls.is_late]] = True
    coarse = _is_coarse(spans)
    events = _infer_events(spans, calls, coarse, log.files)
    for description, mask in (
        ("spans in a cycle of parents, or below one", in_cycle),
        ("calls by a span of another process that is not a call span", calls.is_unresolved),
        ("calls that ended before their reply", is_unanswered),
        (AMBIGUOUS_ORDER, events.is_ambiguous),
        ("spans with a message in a cycle of happened-before", events.is_in_cycle),
    ):
        add_span_diagnostic(missing, description, mask, spans, log.files)
        unknown |= mask
    for description, mask in (
        ("spans that start before their cause, by their own clock", events.is_moved),
        ("spans in whole milliseconds, in processes with finer timestamps",
         np.logical_or(*coarse)),
    ):  # fmt: skip
        add_span_diagnostic(notes, description, mask, spans, log.files)
    summary = IngestSummary(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="spans",
        records=log.records,
        unknown=log.records - log.read + int(np.count_nonzero(unknown)),
        processes=len(spans.names),
        missing=(*log.missing.collected(), *missing.collected()),
        notes=notes.collected(),
        assumptions=ASSUMPTIONS,
    )
    return events.table, summary


def _is_coarse(spans: Spans) -> tuple[Bools, Bools]:
    """Return which starts and which ends are coarse, in processes with finer ones."""
    coarse = [each % NS_PER_MS == 0 for each in (spans.start, spans.end)]
    count = len(spans.names)
    total = 2 * np.bincount(spans.process, minlength=count)
    share = sum(np.bincount(spans.process, each, count) for each in coarse) / total
    mixed = ((share > COARSE_BY_CHANCE_MAX) & (share < 1))[spans.process]
    return mixed & coarse[0], mixed & coarse[1]


def _find_calls(spans: Spans) -> _Calls:
    parent, process, kind = spans.parent, spans.process, spans.kind
    has = parent != NONE
    is_remote = has & (process[parent] != process)
    count = len(parent)
    remote = np.bincount(parent[is_remote], minlength=count)
    local = np.bincount(parent[has & ~is_remote], minlength=count)
    # The unknown parent of an orphan may have called it.
    is_implicit = (kind == 0) & (local == 0) & (remote == 1) & ~spans.is_orphan
    is_caller = ~is_remote & (
        is_implicit
        | ((kind == CLIENT) & (remote == 1))
        | ((kind == PRODUCER) & (remote > 0))
    )
    is_called = is_remote & is_caller[parent]
    is_one_way = is_remote & ((kind == CONSUMER) | (kind[parent] == PRODUCER))
    is_late = find_late_replies(spans, is_called, is_called & ~is_one_way)
    is_two_way = is_called & ~is_one_way & ~is_late
    is_two_way[parent[is_two_way]] = True
    is_unresolved = is_remote & ~is_called
    return _Calls(is_caller, is_called, is_two_way, is_late, is_unresolved, is_one_way)


def _infer_events(
    spans: Spans, calls: _Calls, coarse: tuple[Bools, Bools], files: list[str]
) -> _Events:
    """Return two events per span, without the messages that are not certain."""
    count = len(spans.parent)
    depth, start = find_trees(spans.parent, spans.process, spans.start)
    time = np.concatenate((start, np.maximum(spans.end, start)))
    message = np.concatenate(_number_messages(calls, spans))
    first = np.where(calls.is_called, DELIVER, np.where(calls.is_caller, SEND, LOCAL))
    last = np.where(calls.is_called, SEND, DELIVER)
    kind = np.concatenate((first, np.where(calls.is_two_way, last, LOCAL)))
    messages = 1 + int(message.max())
    _mark_missing(spans, calls, kind)
    is_message = message != NONE

    def tie_keys(events: Longs) -> tuple[np.ndarray, ...]:
        """Order starts before ends, and a parent's start before those of its children."""
        is_end, span = events >= count, events % count
        depths = np.where(is_end, -depth[span], depth[span])
        return is_end, depths, spans.content_keys(span), spans.line[span]

    order = sort_histories(np.concatenate((spans.process, spans.process)), time, tie_keys)
    ambiguous = _ambiguous(spans, order[is_message[order]], time, coarse)
    backwards = np.tile(spans.end < spans.start, 2)
    _drop(message[(ambiguous | backwards) & is_message], kind, message)
    own = order % count
    is_reply = np.arange(messages) >= np.count_nonzero(calls.is_caller)
    cyclic = messages_in_cycles(spans.process[own], kind[order], message[order], is_reply)
    in_cycle = np.isin(message, cyclic)
    _drop(cyclic, kind, message)
    table = EventTable(
        names=spans.names,
        files=files,
        process=spans.process[own],
        kind=kind[order].astype(np.int32),
        message=message[order],
        time_ns=np.concatenate((spans.start, spans.end))[order],
        hint=time[order],
        file=spans.file[own],
        line=spans.line[own],
        is_known=np.ones(messages, np.bool_),
    )
    return _Events(
        table=table,
        is_moved=start > spans.start,
        is_ambiguous=ambiguous[:count] | ambiguous[count:],
        is_in_cycle=in_cycle[:count] | in_cycle[count:],
    )


def _mark_missing(spans: Spans, calls: _Calls, kind: Longs) -> None:
    """Mark an event for each copy whose delivery is not known, as the kind MISSING.

    These are the request that an orphan may have delivered, the messages of unresolved
    calls, and the replies that came late.
    """
    count = len(spans.parent)
    starts = calls.is_unresolved | (spans.is_orphan & ~calls.is_caller)
    kind[:count][starts] = MISSING
    kind[count:][(calls.is_unresolved & ~calls.is_one_way) | calls.is_late] = MISSING


def _drop(dropped: Longs, kind: Longs, message: Longs) -> None:
    """Remove messages from the events; each of their deliveries is missing then."""
    is_dropped = np.isin(message, dropped) & (message != NONE)
    kind[is_dropped] = np.where(kind[is_dropped] == DELIVER, MISSING, LOCAL)
    message[is_dropped] = NONE


def _ambiguous(
    spans: Spans, order: Longs, time: Longs, coarse: tuple[Bools, Bools]
) -> Bools:
    """Return which starts, then which ends, have an ambiguous order in their process.

    Args:
        spans: The spans.
        order: The starts and the ends that send or deliver, by process and time.
        time: The times of all starts, and then of all ends.
        coarse: Which starts and which ends are coarse.
    """
    count = len(spans.parent)

    def is_ordered(one: int, other: int) -> bool:
        """Return whether one is the start of the other's span or of an ancestor of it."""
        ancestor = other % count
        while ancestor not in (one, NONE):  # An end is never equal to an ancestor.
            ancestor = int(spans.parent[ancestor])
        return ancestor == one

    return ambiguous_events(
        np.concatenate((spans.process, spans.process)),
        time,
        np.where(np.concatenate(coarse), NS_PER_MS, 0),
        is_ordered,
        order=order,
    )


def _number_messages(calls: _Calls, spans: Spans) -> tuple[Longs, Longs]:
    """Return by span the message at its start and the message at its end, or NONE."""
    request = np.full(len(spans.parent), NONE, np.int64)
    callers = np.flatnonzero(calls.is_caller)
    request[callers] = np.arange(len(callers))
    called = np.flatnonzero(calls.is_called)
    request[called] = request[spans.parent[called]]
    reply = np.full(len(spans.parent), NONE, np.int64)
    repliers = np.flatnonzero(calls.is_called & calls.is_two_way)
    reply[repliers] = len(callers) + np.arange(len(repliers))
    reply[spans.parent[repliers]] = reply[repliers]
    return request, reply
