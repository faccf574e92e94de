"""Resolve the parent of every span.

A span is incomplete if its parent is missing, if it or its parent has the id of another
span, or if it ends before it starts. Of a shared span (Zipkin), the receiving half becomes
the child of the sending half.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import LOCATIONS_MAX, Diagnostics, SourceLocation
from antecede.ingest.event_table import NONE
from antecede.ingest.text_hash import hash_texts
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import Bools

__all__ = [
    "CLIENT",
    "CONSUMER",
    "PRODUCER",
    "Spans",
    "add_span_diagnostic",
    "resolve_parents",
]

KINDS = {"client": 1, "producer": 2, "server": 3, "consumer": 4, "internal": 5}
CLIENT, PRODUCER, CONSUMER = KINDS["client"], KINDS["producer"], KINDS["consumer"]


class Spans(NamedTuple):
    """Spans as arrays; ``parent`` is the index of another span, or NONE."""

    names: list[str]
    process: Ints
    parent: Longs
    is_orphan: Bools
    """Whether it has a parent that is not known."""
    kind: Ints
    start: Longs
    end: Longs
    file: Ints
    line: Longs
    ids: pa.Table
    """The columns ``trace`` and ``span``."""

    def content_keys(self, chosen: Longs) -> Longs:
        """Return a hash of each span that does not depend on the other spans."""
        ids = self.ids.take(pa.array(chosen)).combine_chunks()
        if pa.types.is_integer(ids.schema.field("span").type):
            found: Longs = ids["span"].to_numpy()
            return found
        trace, span = (ids[name].combine_chunks() for name in ("trace", "span"))
        return hash_texts(span, hash_texts(trace))


def resolve_parents(
    table: pa.Table,
    file: Ints,
    files: list[str],
    missing: Diagnostics,
    notes: Diagnostics,
) -> tuple[Spans, Bools]:
    """Return the spans with their parents, and which of them are incomplete.

    Of identical spans, only the first is kept. The ids are texts; or 64-bit hashes, each of
    the trace and the id.
    """
    ids = _span_ids(table)
    (process,), names = _codes(table["process"])
    (kind,), kinds = _codes(table["kind"])
    shared = table["shared"].fill_null(False).to_numpy()
    count = len(process)
    spans = Spans(
        names=names,
        process=process.astype(np.int32),
        parent=np.full(count, NONE, np.int64),
        is_orphan=np.zeros(count, np.bool_),
        kind=np.array([*(KINDS.get(each, 0) for each in kinds), 0], np.int32)[kind],
        start=table["start_ns"].to_numpy(),
        end=table["end_ns"].to_numpy(),
        file=file,
        line=table["line"].to_numpy(),
        ids=table.select(["trace", "span"]),
    )
    # The two halves of a shared span have the same id, but adjacent keys.
    key = ids.own + shared
    index = _KeyIndex(key)
    is_repeated = index.is_repeated
    if np.any(is_repeated):
        columns = (ids.above, process, spans.start, spans.end)
        copies = _copies(key, is_repeated, columns)
        if np.any(copies):
            add_span_diagnostic(notes, "repeated spans", copies, spans, files)
            kept = table.filter(pa.array(~copies)).combine_chunks()
            return resolve_parents(kept, file[~copies], files, missing, notes)
    has = ids.has_parent | shared
    wanted = np.where(shared, ids.own, ids.above)
    spans.parent[:] = np.where(has, index.find(wanted), NONE)
    if np.any(shared):
        _take_halves(spans, index.find(wanted + 1), has, shared)
        # If only the receiving half was recorded, it has the parent of the shared span.
        lone = shared & (spans.parent == NONE) & ids.has_parent
        spans.parent[lone] = index.find(ids.above[lone])
    lost = has & (spans.parent == NONE)
    several = np.zeros(count, np.bool_)
    if np.any(is_repeated):
        several = (spans.parent != NONE) & np.isin(key[spans.parent], key[is_repeated])
        spans.parent[several] = NONE
    spans.is_orphan[:] = lost | several
    backwards = spans.end < spans.start
    for description, mask in (
        ("spans with the id of another span", is_repeated),
        ("spans whose parent is not in the files", lost),
        ("spans with several possible parents", several),
        ("spans that end before they start", backwards),
    ):
        add_span_diagnostic(missing, description, mask, spans, files)
    return spans, is_repeated | lost | several | backwards


def _take_halves(spans: Spans, half: Longs, has: Bools, shared: Bools) -> None:
    """Let the receiving half of a shared span, if it fits better, become the parent.

    Args:
        spans: The spans; the parent of a child of a shared span is the sending half.
        half: By span, the receiving half of its parent, or NONE.
        has: By span, whether it has a parent.
        shared: By span, whether it is the receiving half of a shared span.
    """
    process, whole = spans.process, spans.parent
    # The parent of a child of a shared span is the half in the child's process, if any.
    takes_half = has & (half != NONE) & ~shared & (
        (whole == NONE)
        | (process[half] == process)
        | ((process[whole] != process) & (process[half] != process))
    )  # fmt: skip
    spans.parent[takes_half] = half[takes_half]


def _copies(key: Longs, is_repeated: Bools, columns: tuple[Longs, ...]) -> Bools:
    """Return the repeated spans that equal the previous one in all these columns."""
    order = np.argsort(key, kind="stable")
    is_equal = is_repeated[order[1:]]
    for column in columns:
        is_equal &= column[order[1:]] == column[order[:-1]]
    copies = np.zeros(len(order), np.bool_)
    copies[order[1:]] = is_equal
    return copies


class _SpanIds(NamedTuple):
    """The ids of spans as even numbers, different for each id of each trace."""

    own: Longs
    above: Longs
    """The number of the parent's id; meaningless without a parent."""
    has_parent: Bools


def _span_ids(table: pa.Table) -> _SpanIds:
    has_parent = np.asarray(pc.is_valid(table["parent"]))
    if pa.types.is_integer(table.schema.field("span").type):
        own, above = (table[name].fill_null(0).to_numpy() for name in ("span", "parent"))
        return _SpanIds(own & ~1, above & ~1, has_parent)
    (trace,), _ = _codes(table["trace"])
    (span, parent), texts = _codes(table["span"], table["parent"])
    width = len(texts) + 1
    return _SpanIds(2 * (trace * width + span), 2 * (trace * width + parent), has_parent)


class _KeyIndex:
    """Finds spans by key."""

    is_repeated: Bools
    """By span, whether an earlier span has its key."""

    def __init__(self, key: Longs) -> None:
        self._slots = SlotMap()
        slot = self._slots.add(key, np.zeros(len(key), np.int64))
        # The first span of each key is written last. The last element is for no slot.
        self._first = np.full(len(self._slots) + 1, NONE, np.int64)
        self._first[slot[::-1]] = np.arange(len(key))[::-1]
        self.is_repeated = self._first[slot] != np.arange(len(key))

    def find(self, wanted: Longs) -> Longs:
        """Return the first span with each key, or NONE."""
        slot = self._slots.find(wanted, np.zeros(len(wanted), np.int64))
        found: Longs = self._first[slot]
        return found


def _codes(*columns: pa.ChunkedArray) -> tuple[list[Longs], list[str]]:
    """Encode several columns of texts as numbers with one dictionary; null is NONE."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    # Arrow concatenates dictionaries only if they are equal.
    texts = chunks[0] if len(chunks) == 1 else pa.concat_arrays(map(_decoded, chunks))
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(codes, ends)), encoded.dictionary.to_pylist()


def _decoded(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def add_span_diagnostic(
    diagnostics: Diagnostics, description: str, mask: Bools, spans: Spans, files: list[str]
) -> None:
    """Add a diagnostic of all masked spans, with the locations of the first ones."""
    found = np.flatnonzero(mask)
    first = found[np.lexsort((spans.line[found], spans.file[found]))[:LOCATIONS_MAX]]
    locations = [
        SourceLocation(
            files[spans.file[i]], int(spans.line[i]), spans.names[spans.process[i]]
        )
        for i in first
    ]
    diagnostics.add_many(description, len(found), locations)
