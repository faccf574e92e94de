"""Resolve the parent of every span.

A span is incomplete if its parent is missing, if it or its parent has the id of another
span, or if it ends before it starts. Of a shared span (Zipkin), the receiving half becomes
the child of the sending half.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import LOCATIONS_MAX, Diagnostics, SourceLocation
from antecede.ingest.event_table import NONE
from antecede.verify.kernels.slot_map import Ints, Longs
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


def resolve_parents(
    table: pa.Table,
    file: Ints,
    files: list[str],
    missing: Diagnostics,
    notes: Diagnostics,
) -> tuple[Spans, Bools]:
    """Return the spans with their parents, and which of them are incomplete.

    Of identical spans, only the first is kept.
    """
    (trace,), _ = _codes(table["trace"])
    (span, above), texts = _codes(table["span"], table["parent"])
    (process,), names = _codes(table["process"])
    (kind,), kinds = _codes(table["kind"])
    shared = table["shared"].fill_null(False).to_numpy()
    spans = Spans(
        names=names,
        process=process.astype(np.int32),
        parent=np.full(len(span), NONE, np.int64),
        is_orphan=np.zeros(len(span), np.bool_),
        kind=np.array([*(KINDS.get(each, 0) for each in kinds), 0], np.int32)[kind],
        start=table["start_ns"].to_numpy(),
        end=table["end_ns"].to_numpy(),
        file=file,
        line=table["line"].to_numpy(),
    )
    # The two halves of a shared span have the same id, but adjacent keys.
    width = 2 * (len(texts) + 1)
    key = trace * width + 2 * span + shared
    order = np.argsort(key, kind="stable")
    is_repeated = np.zeros(len(key), np.bool_)
    is_repeated[order[1:]] = key[order[1:]] == key[order[:-1]]
    if np.any(is_repeated):
        copies = _copies(order, is_repeated, (above, process, spans.start, spans.end))
        if np.any(copies):
            add_span_diagnostic(notes, "repeated spans", copies, spans, files)
            kept = table.filter(pa.array(~copies)).combine_chunks()
            return resolve_parents(kept, file[~copies], files, missing, notes)
    wanted = trace * width + 2 * np.where(shared, span, above)
    whole, half = _find(key, order, wanted), _find(key, order, wanted + 1)
    # The parent of a child of a shared span is the half in the child's process, if any.
    takes_half = (half != NONE) & ~shared & (
        (whole == NONE)
        | (process[half] == process)
        | ((process[whole] != process) & (process[half] != process))
    )  # fmt: skip
    has = (above != NONE) | shared
    spans.parent[:] = np.where(has, np.where(takes_half, half, whole), NONE)
    # If only the receiving half was recorded, it has the parent of the shared span.
    lost = has & (spans.parent == NONE)
    lone = lost & shared & (above != NONE)
    if np.any(lone):
        spans.parent[lone] = _find(key, order, trace * width + 2 * above)[lone]
        lost = has & (spans.parent == NONE)
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


def _copies(order: Longs, is_repeated: Bools, columns: tuple[Longs, ...]) -> Bools:
    """Return the repeated spans that equal the previous one in all these columns."""
    is_equal = is_repeated[order[1:]]
    for column in columns:
        is_equal &= column[order[1:]] == column[order[:-1]]
    copies = np.zeros(len(order), np.bool_)
    copies[order[1:]] = is_equal
    return copies


def _find(key: Longs, order: Longs, wanted: Longs) -> Longs:
    """Return the first index of each wanted key, or NONE."""
    if not len(key):
        return np.full(len(wanted), NONE, np.int64)
    position = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
    found = order[position]
    return np.where(key[found] == wanted, found, NONE)


def _codes(*columns: pa.ChunkedArray) -> tuple[list[Longs], list[str]]:
    """Encode several columns of texts as numbers with one dictionary; null is NONE."""
    texts = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(codes, ends)), encoded.dictionary.to_pylist()


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
