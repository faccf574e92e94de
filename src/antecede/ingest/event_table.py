"""A foreign run as rows of our trace, before it is written.

Whatever the format, its reader's records end here: events of processes, each process's in
the order of its own history, some of which send or deliver a message. :func:`write_draft`
puts them in a linear extension of happened-before, numbers the messages of each process,
and writes the trace.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import ConfigError
from antecede.ingest.diagnostics import Place, Skew, find_skew
from antecede.trace.event import Kind
from antecede.trace.reader import BATCH_ROWS_MAX, RunInfo
from antecede.trace.recorders import KINDS
from antecede.trace.schema import SCHEMA
from antecede.trace.writer import TraceWriter
from antecede.verify.kernels.slots import Ints, Longs
from antecede.verify.linear_extension import extend
from antecede.verify.oracle import MessageId

__all__ = ["DELIVER", "LOCAL", "NONE", "SEND", "Draft", "Written", "skew_of", "write_draft"]

NONE = -1
SEND, DELIVER, LOCAL = (KINDS.index(kind) for kind in (Kind.SEND, Kind.DELIVER, Kind.LOCAL))
KIND_NAMES = pa.array([kind.value for kind in KINDS])
NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A run; its rows stand process by process, each in the order of its history."""

    names: list[str]
    """By process, its name."""
    files: list[str]
    process: Ints
    """By row, where it happened; never falls."""
    kind: Ints
    """By row: SEND, DELIVER or LOCAL."""
    message: Longs
    """By row: which message, as a dense number, or NONE."""
    time_ns: Longs | None
    """By row: when, by the process's own clock; None if it is not told."""
    hint: Longs
    """By row: what to put first of events that are not ordered, for speed alone."""
    file: Ints
    line: Longs
    """By row: where it comes from."""
    is_known: np.ndarray
    """By message: whether its targets are known. If not, nobody delivers it."""
    undelivered: tuple[Longs, Ints] = (np.empty(0, np.int64), np.empty(0, np.int32))
    """Messages, and a target of each that did not deliver it; others are those that did."""

    def place(self, row: int) -> Place:
        """Return where a row comes from."""
        name = self.names[self.process[row]]
        return Place(self.files[self.file[row]], int(self.line[row]), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a draft: the trace's directory, and where its messages come from."""

    directory: Path
    draft: Draft
    number: Longs
    """By message of the draft, its number among those of its source; 0 if never sent."""
    source: Ints
    """By message of the draft, who sent it; NONE if never sent."""

    def place_of(self, message: MessageId) -> Place | None:
        """Return where the send of a message stands, or None if there is none."""
        found = np.flatnonzero(
            (self.source == message.source) & (self.number == message.number)
        )
        if not len(found):
            return None
        is_send = (self.draft.kind == SEND) & (self.draft.message == found[0])
        return self.draft.place(int(np.flatnonzero(is_send)[0]))


def skew_of(draft: Draft) -> Skew | None:
    """Find where timestamps contradict the messages; None without timestamps."""
    if draft.time_ns is None:
        return None
    send = np.full(len(draft.is_known), NONE, np.int64)
    sends = np.flatnonzero(draft.kind == SEND)
    send[draft.message[sends]] = sends
    got = np.flatnonzero(draft.kind == DELIVER)
    got = got[send[draft.message[got]] != NONE]
    sent = send[draft.message[got]]
    lead = draft.time_ns[sent] - draft.time_ns[got]
    return find_skew(draft.process[sent], draft.process[got], lead, draft.names)


def write_draft(draft: Draft, directory: Path, info: RunInfo) -> Written:
    """Write a draft as a trace, in a linear extension of happened-before.

    Raises:
        ConfigError: There is none, since events wait for each other in a circle; or the
            directory cannot be written to.
    """
    order = _order(draft)
    sends = np.flatnonzero(draft.kind == SEND)  # By process, in the order of histories.
    count = len(draft.is_known)
    # One more, which stands for no message: what NONE is the index of.
    number, source = np.zeros(count + 1, np.int64), np.full(count + 1, NONE, np.int32)
    source[draft.message[sends]] = draft.process[sends]
    first = np.searchsorted(draft.process[sends], draft.process[sends])
    number[draft.message[sends]] = np.arange(len(sends)) - first + 1
    written = Written(directory=directory, draft=draft, number=number, source=source)
    start, targets = _targets(draft)
    with TraceWriter(directory, info.run) as writer:
        for begin in range(0, len(order), BATCH_ROWS_MAX):
            rows = order[begin : begin + BATCH_ROWS_MAX]
            writer.write_batch(_batch(written, rows, begin, (start, targets), info.run))
        writer.close(info)
    return written


def _order(draft: Draft) -> Longs:
    rows = len(draft.process)
    bounds = np.searchsorted(draft.process, np.arange(len(draft.names) + 1))
    # Events without a message wait for one that is never sent: for nothing.
    slot = np.where(draft.message == NONE, len(draft.is_known), draft.message)
    is_sent = np.zeros(len(draft.is_known) + 1, np.bool_)
    is_send = draft.kind == SEND
    is_sent[draft.message[is_send]] = True
    order, place = extend(
        bounds,
        np.arange(rows),
        is_send,
        slot.astype(np.int32),
        is_sent,
        draft.hint.astype(np.float64),
    )
    if len(order) < rows:
        stuck = np.flatnonzero(place < bounds[1:])
        places = ", ".join(str(draft.place(int(place[each]))) for each in stuck[:3])
        raise ConfigError(
            f"{places}: messages go round in a circle here: what they were caused by is"
            " only caused by them, by each process's own order of events"
        )
    return order


def _targets(draft: Draft) -> tuple[Longs, Ints]:
    """Return for each message and one more where its targets begin, and the targets."""
    got = np.flatnonzero(draft.kind == DELIVER)
    width = len(draft.names)
    message = np.concatenate((draft.message[got], draft.undelivered[0]))
    pair = np.unique(
        message * width + np.concatenate((draft.process[got], draft.undelivered[1]))
    )
    start = np.searchsorted(pair // width, np.arange(len(draft.is_known) + 1))
    return start, (pair % width).astype(np.int32)


def _batch(
    written: Written, rows: Longs, first: int, targets: tuple[Longs, Ints], run: str
) -> pa.RecordBatch:
    draft = written.draft
    message, kind, process = draft.message[rows], draft.kind[rows], draft.process[rows]
    history = np.searchsorted(draft.process, process)
    has = message != NONE
    zero = 0 if draft.time_ns is None else int(draft.time_ns.min())
    time = np.zeros(len(rows)) if draft.time_ns is None else draft.time_ns[rows] - zero
    columns = {
        "run": pa.repeat(pa.scalar(run), len(rows)),
        "process": pa.array(process),
        "seq": pa.array(rows - history),
        "step": pa.array(np.arange(first, first + len(rows))),
        "time": pa.array(time / NS),
        "kind": KIND_NAMES.take(pa.array(kind)),
        "source": pa.array(written.source[message], mask=~has),
        "number": pa.array(written.number[message], mask=~has),
        "target": pa.array(process, mask=kind != DELIVER),
        "targets": _lists(draft, message, kind == SEND, *targets),
        "payload_bytes": pa.nulls(len(rows), pa.int32()),
        "metadata_bytes": pa.nulls(len(rows), pa.int32()),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _lists(
    draft: Draft, message: Longs, is_send: np.ndarray, start: Longs, targets: Ints
) -> pa.Array:
    """Make the column of targets: a list for each send whose targets are known."""
    known = is_send & np.append(draft.is_known, False)[message]
    chosen = message[known]
    lengths = np.zeros(len(message), np.int64)
    lengths[known] = start[chosen + 1] - start[chosen]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    flat = np.repeat(start[chosen] - offsets[:-1][known], lengths[known])
    flat = targets[flat + np.arange(offsets[-1])]
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(flat),
        type=SCHEMA.field("targets").type,
        mask=pa.array(~known),
    )
