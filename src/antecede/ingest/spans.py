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
assumption; where a span's parent is of the same process, it starts after its parent
whatever they say. Where they do not tell the order of two events that send or deliver,
because both happened in the same moment or one is given in whole milliseconds only, the
message of one of them is given up (:mod:`antecede.ingest.ordering`). Timestamps of
different processes are never compared, but to find skew.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.draft import DELIVER, LOCAL, NONE, SEND, Draft, skew_of
from antecede.ingest.findings import PLACES_KEPT, Collector, Findings, Place
from antecede.ingest.ordering import UNSURE, unsure_events
from antecede.ingest.records import SPANS
from antecede.trace.slots import Ints, Longs
from antecede.trace.stream import Bools

__all__ = ["SpanLog", "draft_spans"]

ASSUMED = (
    "each process's own timestamps order its events",
    "a request is sent at the start of its call span, and its reply delivered at that"
    " span's end",
    "who has one name is one process; if services have instances, tell what names them with"
    " --columns process=NAME",
)
KINDS = {"client": 1, "producer": 2, "server": 3, "consumer": 4, "internal": 5}
CLIENT, PRODUCER, CONSUMER = KINDS["client"], KINDS["producer"], KINDS["consumer"]
NS_PER_MS = 1_000_000
BY_CHANCE = 0.01
"""The share of timestamps that may be whole milliseconds without meaning anything; of
those in microseconds, one in a thousand is."""


class SpanLog:
    """The spans of one run; add the records of all its files, then draft it."""

    records: int
    """How many records there were."""

    def __init__(self, format_name: str) -> None:
        """Start with no spans."""
        self.format_name = format_name
        self.records = 0
        self.files: list[str] = []
        self.holes = Collector()
        self._unread = 0
        self._batches: list[pa.RecordBatch] = []
        self._file_of: list[int] = []

    def add(self, file: str, batch: pa.RecordBatch) -> None:
        """Take in records of :data:`antecede.ingest.records.SPANS` of a file."""
        if not self.files or self.files[-1] != file:
            self.files.append(file)
        self.records += batch.num_rows
        problem = batch.column("problem")
        if problem.null_count < len(problem):
            bad = batch.filter(pc.is_valid(problem))
            self._unread += bad.num_rows
            for line, why, process in zip(
                *(bad.column(name).to_pylist() for name in ("line", "problem", "process")),
                strict=True,
            ):
                self.holes.add(f"unread: {why}", Place(file, line, process))
            batch = batch.filter(pc.is_null(problem))
        self._batches.append(batch.drop_columns(["problem", "run", "name"]))
        self._file_of.append(len(self.files) - 1)

    @property
    def read(self) -> int:
        """How many records could be read."""
        return self.records - self._unread

    def table(self) -> tuple[pa.Table, Ints]:
        """Return all spans that were read, and of each its file."""
        names = [n for n in SPANS.names if n not in ("problem", "run", "name")]
        schema = pa.schema([SPANS.field(name) for name in names])
        table = pa.Table.from_batches(self._batches, schema).combine_chunks()
        sizes = [batch.num_rows for batch in self._batches]
        return table, np.repeat(np.array(self._file_of, np.int32), sizes)


class _Spans(NamedTuple):
    """Spans as arrays; ``parent`` is an index of another, or NONE."""

    names: list[str]
    process: Ints
    parent: Longs
    kind: Ints
    start: Longs
    end: Longs
    file: Ints
    line: Longs


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
    spans, unknown = _resolve(table, file, log.files, holes, notes)
    levels = _levels(spans)
    in_circle = np.ones(len(spans.parent), np.bool_)
    for level in levels:
        in_circle[level] = False
    _note(holes, "spans in a circle of parents, or below one", in_circle, spans, log.files)
    spans.parent[in_circle] = NONE
    unknown |= in_circle
    levels.append(np.flatnonzero(in_circle))
    calls = _calls(spans)
    _note(holes, "calls by a span of another process that is no call span",
          calls.is_unplaced, spans, log.files)  # fmt: skip
    unknown |= calls.is_unplaced
    draft, moved, unsure = _draft(spans, calls, levels, log.files)
    _note(holes, UNSURE, unsure, spans, log.files)
    unknown |= unsure
    _note(notes, "spans that start before their parent, by their process's own clock",
          moved, spans, log.files)  # fmt: skip
    rough = np.logical_or(*_is_coarse(spans))
    _note(notes, "spans with whole milliseconds where others of their process are finer",
          rough, spans, log.files)  # fmt: skip
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


def _note(
    collector: Collector, what: str, mask: Bools, spans: _Spans, files: list[str]
) -> None:
    found = np.flatnonzero(mask)
    first = found[np.lexsort((spans.line[found], spans.file[found]))[:PLACES_KEPT]]
    places = [
        Place(files[spans.file[i]], int(spans.line[i]), spans.names[spans.process[i]])
        for i in first
    ]
    collector.add_all(what, len(found), places)


def _codes(*columns: pa.ChunkedArray) -> tuple[list[Longs], list[str]]:
    """Number the texts of several columns alike; null is NONE."""
    texts = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(codes, ends)), encoded.dictionary.to_pylist()


def _resolve(
    table: pa.Table, file: Ints, files: list[str], holes: Collector, notes: Collector
) -> tuple[_Spans, Bools]:
    """Find the parent of every span; return also which spans something is missing of.

    A span that is there several times, alike, is taken once.
    """
    (trace,), _ = _codes(table["trace"])
    (span, above), texts = _codes(table["span"], table["parent"])
    (process,), names = _codes(table["process"])
    (kind,), kinds = _codes(table["kind"])
    shared = table["shared"].fill_null(False).to_numpy()
    spans = _Spans(
        names=names,
        process=process.astype(np.int32),
        parent=np.full(len(span), NONE, np.int64),
        kind=np.array([*(KINDS.get(each, 0) for each in kinds), 0], np.int32)[kind],
        start=table["start_ns"].to_numpy(),
        end=table["end_ns"].to_numpy(),
        file=file,
        line=table["line"].to_numpy(),
    )
    # The two halves of a shared span have one id, and an index apart.
    width = 2 * (len(texts) + 1)
    key = trace * width + 2 * span + shared
    order = np.argsort(key, kind="stable")
    is_repeated = np.zeros(len(key), np.bool_)
    is_repeated[order[1:]] = key[order[1:]] == key[order[:-1]]
    if np.any(is_repeated):
        copies = _copies(order, is_repeated, (above, process, spans.start, spans.end))
        if np.any(copies):
            _note(notes, "spans that are there already, alike", copies, spans, files)
            kept = table.filter(pa.array(~copies)).combine_chunks()
            return _resolve(kept, file[~copies], files, holes, notes)
    wanted = trace * width + 2 * np.where(shared, span, above)
    whole, half = _find(key, order, wanted), _find(key, order, wanted + 1)
    # A child of a shared span is of the half that is where the child is, if one is.
    takes_half = (half != NONE) & ~shared & (
        (whole == NONE)
        | (process[half] == process)
        | ((process[whole] != process) & (process[half] != process))
    )  # fmt: skip
    has = (above != NONE) | shared
    spans.parent[:] = np.where(has, np.where(takes_half, half, whole), NONE)
    # The receiving half may be all that was recorded; then it has the parent itself.
    lost = has & (spans.parent == NONE)
    again = lost & shared & (above != NONE)
    if np.any(again):
        spans.parent[again] = _find(key, order, trace * width + 2 * above)[again]
        lost = has & (spans.parent == NONE)
    backwards = spans.end < spans.start
    for what, mask in (
        ("spans with the id of another span", is_repeated),
        ("spans whose parent is not in the files", lost),
        ("spans that end before they start", backwards),
    ):
        _note(holes, what, mask, spans, files)
    return spans, is_repeated | lost | backwards


def _copies(order: Longs, is_repeated: Bools, columns: tuple[Longs, ...]) -> Bools:
    """Return which spans with the id of another are like it in all these columns."""
    alike = is_repeated[order[1:]]
    for column in columns:
        alike &= column[order[1:]] == column[order[:-1]]
    copies = np.zeros(len(order), np.bool_)
    copies[order[1:]] = alike
    return copies


def _is_coarse(spans: _Spans) -> tuple[Bools, Bools]:
    """Return which starts, and which ends, are coarse in a process that has finer ones."""
    rough = [each % NS_PER_MS == 0 for each in (spans.start, spans.end)]
    count = len(spans.names)
    total = 2 * np.bincount(spans.process, minlength=count)
    share = sum(np.bincount(spans.process, each, count) for each in rough) / total
    mixed = ((share > BY_CHANCE) & (share < 1))[spans.process]
    return mixed & rough[0], mixed & rough[1]


def _find(key: Longs, order: Longs, wanted: Longs) -> Longs:
    """Return the index of each wanted key, the first if there are several, or NONE."""
    if not len(key):
        return np.full(len(wanted), NONE, np.int64)
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
    found = order[place]
    return np.where(key[found] == wanted, found, NONE)


def _calls(spans: _Spans) -> _Calls:
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


def _levels(spans: _Spans) -> list[Longs]:
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
    spans: _Spans, calls: _Calls, levels: list[Longs], files: list[str]
) -> tuple[Draft, Bools, Bools]:
    """Make two events of every span.

    Return also which spans were moved to keep order, and of which it is not certain.
    """
    count = len(spans.parent)
    start, depth = spans.start.copy(), np.zeros(count, np.int64)
    for number, level in enumerate(levels):
        depth[level] = number
        above = spans.parent[level]
        here = (above != NONE) & (spans.process[above] == spans.process[level])
        start[level[here]] = np.maximum(start[level[here]], start[above[here]])
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


def _unsure(spans: _Spans, is_message: Bools, moment: Longs) -> Bools:
    """Return which starts, then which ends, have no certain place in their process."""
    count = len(spans.parent)
    events = np.flatnonzero(is_message)

    def is_ordered(one: Longs, other: Longs) -> Bools:
        """A span starts before it ends, and before all that it causes."""
        wanted, ancestor = events[one], events[other] % count
        found = np.zeros(len(one), np.bool_)
        while np.any(ancestor != NONE):
            found |= ancestor == wanted  # No end is: these come after all starts.
            ancestor = np.where(ancestor == NONE, NONE, spans.parent[ancestor])
        return found

    coarse = np.concatenate(_is_coarse(spans))
    unsure = np.zeros(2 * count, np.bool_)
    unsure[events] = unsure_events(
        spans.process[events % count],
        moment[events],
        np.where(coarse[events], NS_PER_MS, 0),
        is_ordered,
    )
    return unsure


def _number(calls: _Calls, spans: _Spans) -> tuple[Longs, Longs]:
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
