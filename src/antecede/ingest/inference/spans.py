"""Spans: who called whom, and what happened before what.

A span has a start and an end, two events of its process. A span whose parent is of another
process was called by it: that is a *request*, delivered at the child's start, and a
*reply*, sent at the child's end. When the caller sent the one and got the other is known
from its *call span*: the parent, if its kind says that it is a call (client), or if nothing
says otherwise: no kind is told, the call is its only child, and it was not called from
elsewhere itself. The request is sent at the call span's start, and its reply delivered at
the call span's end. A producer's message has no reply, and may have several consumers.

Where a parent is no call span (several calls in one span, say), it is not recorded when in
it the calls were made; they are not judged, and are counted as unknown.

**Order.** The events of a process are in the order of its own timestamps, which is an
assumption; a span that was caused by another of its process starts after it, whatever
they say. Where they do not tell the order of two events that send or deliver,
because both happened in the same moment or one is given in whole milliseconds only, the
message of one of them is given up (:mod:`antecede.ingest.inference.ordering`). Timestamps of
different processes are never compared, but to find skew.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import Collector, Findings
from antecede.ingest.event_table import DELIVER, LOCAL, NONE, SEND, Draft, skew_of
from antecede.ingest.formats.records import SPANS
from antecede.ingest.inference.ordering import UNSURE, unsure_events
from antecede.ingest.inference.record_log import RecordLog
from antecede.ingest.inference.span_parents import (
    CLIENT,
    CONSUMER,
    PRODUCER,
    Spans,
    note_spans,
    resolve,
)
from antecede.verify.kernels.slots import Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["SpanLog", "draft_spans"]

ASSUMED = (
    "each process's own timestamps order its events",
    "a request is sent at the start of its call span, and its reply delivered at that"
    " span's end",
    "who has one name is one process; if services have instances, tell what names them with"
    " --columns process=NAME",
)
NS_PER_MS = 1_000_000
BY_CHANCE = 0.01
"""The share of timestamps that may be whole milliseconds without meaning anything; of
those in microseconds, one in a thousand is."""


UNUSED = ("problem", "run", "name")
"""What a span says that no message needs."""


class SpanLog(RecordLog):
    """The spans of one run; add the records of all its files, then draft it."""

    schema = pa.schema([field for field in SPANS if field.name not in UNUSED])


class _Calls(NamedTuple):
    """What the spans say of messages; by span."""

    is_caller: Bools
    """It sends a request at its start."""
    is_called: Bools
    """It delivers a request of its parent at its start."""
    is_two_way: Bools
    """It has a reply: of a caller, to it; of who was called, from it."""
    is_unplaced: Bools
    """It was called by a span that is no call span."""


def draft_spans(log: SpanLog) -> tuple[Draft, Findings]:
    """Find the parents, tell calls from the rest, and order the events."""
    table, file = log.table()
    holes, notes = Collector(), Collector()
    spans, unknown = resolve(table, file, log.files, holes, notes)
    levels = _levels(spans)
    in_circle = np.ones(len(spans.parent), np.bool_)
    for level in levels:
        in_circle[level] = False
    spans.parent[in_circle] = NONE
    levels.append(np.flatnonzero(in_circle))
    calls = _calls(spans)
    draft, moved, unsure = _draft(spans, calls, levels, log.files)
    for what, mask in (
        ("spans in a circle of parents, or below one", in_circle),
        ("calls by a span of another process that is no call span", calls.is_unplaced),
        (UNSURE, unsure),
    ):
        note_spans(holes, what, mask, spans, log.files)
        unknown |= mask
    rough = np.logical_or(*_is_coarse(spans))
    for what, mask in (
        ("spans that start before one that caused them, by their own clock", moved),
        ("spans in whole milliseconds, of processes that have finer times, too", rough),
    ):
        note_spans(notes, what, mask, spans, log.files)
    findings = Findings(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="spans",
        records=log.records,
        unknown=log.records - log.read + int(np.count_nonzero(unknown)),
        processes=len(spans.names),
        holes=(*log.holes.findings(), *holes.findings()),
        notes=notes.findings(),
        skew=skew_of(draft),
        assumed=ASSUMED,
    )
    return draft, findings


def _is_coarse(spans: Spans) -> tuple[Bools, Bools]:
    """Return which starts, and which ends, are coarse in a process that has finer ones."""
    rough = [each % NS_PER_MS == 0 for each in (spans.start, spans.end)]
    count = len(spans.names)
    total = 2 * np.bincount(spans.process, minlength=count)
    share = sum(np.bincount(spans.process, each, count) for each in rough) / total
    mixed = ((share > BY_CHANCE) & (share < 1))[spans.process]
    return mixed & rough[0], mixed & rough[1]


def _calls(spans: Spans) -> _Calls:
    parent, process, kind = spans.parent, spans.process, spans.kind
    has = parent != NONE
    is_remote = has & (process[parent] != process)
    count = len(parent)
    remote = np.bincount(parent[is_remote], minlength=count)
    local = np.bincount(parent[has & ~is_remote], minlength=count)
    looks_so = (kind == 0) & (local == 0) & (remote == 1)
    is_caller = ~is_remote & (
        looks_so | ((kind == CLIENT) & (remote == 1)) | ((kind == PRODUCER) & (remote > 0))
    )
    is_called = is_remote & is_caller[parent]
    one_way = is_called & ((kind == CONSUMER) | (kind[parent] == PRODUCER))
    is_two_way = is_called & ~one_way
    is_two_way[parent[is_called & ~one_way]] = True
    return _Calls(is_caller, is_called, is_two_way, is_remote & ~is_called)


def _levels(spans: Spans) -> list[Longs]:
    """Return the spans level by level, parents first, without those in circles."""
    children = np.argsort(spans.parent, kind="stable")
    parents = spans.parent[children]
    level = np.flatnonzero(spans.parent == NONE)
    levels = []
    while len(level):
        levels.append(level)
        first = np.searchsorted(parents, level, "left")
        lengths = np.searchsorted(parents, level, "right") - first
        total = np.concatenate(([0], np.cumsum(lengths)))
        level = children[np.repeat(first - total[:-1], lengths) + np.arange(total[-1])]
    return levels


def _draft(
    spans: Spans, calls: _Calls, levels: list[Longs], files: list[str]
) -> tuple[Draft, Bools, Bools]:
    """Make two events of every span.

    Return also which spans were moved to keep order, and of which it is not certain.
    """
    count = len(spans.parent)
    start, depth = spans.start.copy(), np.zeros(count, np.int64)
    cause = _nearest(spans)
    for number, level in enumerate(levels):
        depth[level] = number
        late = level[cause[level] != NONE]
        start[late] = np.maximum(start[late], start[cause[late]])
    moment = np.concatenate((start, np.maximum(spans.end, start)))
    message = np.concatenate(_number(calls, spans))
    first = np.where(calls.is_called, DELIVER, np.where(calls.is_caller, SEND, LOCAL))
    ends = np.where(calls.is_called, SEND, DELIVER)
    kind = np.concatenate((first, np.where(calls.is_two_way, ends, LOCAL)))
    messages = 1 + int(message.max())
    unsure = _unsure(spans, kind != LOCAL, moment)
    given_up = np.isin(message, message[unsure]) & (kind != LOCAL)
    kind[given_up], message[given_up] = LOCAL, NONE
    order = np.lexsort(
        (
            np.concatenate((spans.line, spans.line)),
            np.concatenate((depth, -depth)),
            np.repeat([0, 1], count),
            moment,
            np.concatenate((spans.process, spans.process)),
        )
    )
    own = order % count
    draft = Draft(
        names=spans.names,
        files=files,
        process=spans.process[own],
        kind=kind[order].astype(np.int32),
        message=message[order],
        time_ns=np.concatenate((spans.start, spans.end))[order],
        hint=moment[order] - moment.min(),
        file=spans.file[own],
        line=spans.line[own],
        is_known=np.ones(messages, np.bool_),
    )
    return draft, start > spans.start, unsure[:count] | unsure[count:]


def _nearest(spans: Spans) -> Longs:
    """Return the nearest ancestor of every span that is of its own process, or NONE."""
    nearest = spans.parent.copy()
    far = np.flatnonzero((nearest != NONE) & (spans.process[nearest] != spans.process))
    while len(far):
        nearest[far] = spans.parent[nearest[far]]
        far = far[nearest[far] != NONE]
        far = far[spans.process[nearest[far]] != spans.process[far]]
    return nearest


def _unsure(spans: Spans, is_message: Bools, moment: Longs) -> Bools:
    """Return which starts, then which ends, have no certain place in their process."""
    count = len(spans.parent)
    events = np.flatnonzero(is_message)

    def is_ordered(one: int, other: int) -> bool:
        """A span starts before it ends, and before all that it causes."""
        wanted, ancestor = events[one], events[other] % count
        while ancestor not in (wanted, NONE):  # No end is: they come after all starts.
            ancestor = spans.parent[ancestor]
        return bool(ancestor == wanted)

    coarse = np.concatenate(_is_coarse(spans))
    unsure = np.zeros(2 * count, np.bool_)
    unsure[events] = unsure_events(
        spans.process[events % count],
        moment[events],
        np.where(coarse[events], NS_PER_MS, 0),
        is_ordered,
    )
    return unsure


def _number(calls: _Calls, spans: Spans) -> tuple[Longs, Longs]:
    """Number the messages; return by span the one at its start and that at its end."""
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
