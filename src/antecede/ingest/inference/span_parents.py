"""The spans of a run as arrays, each with the index of its parent.

Whose parent is not there, who has the id of another, or ends before it starts, is a hole.
The two halves of a shared span (Zipkin) are told apart, and the receiving one becomes the
child of the other.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.ingest.diagnostics import PLACES_KEPT, Collector, Place
from antecede.ingest.event_table import NONE
from antecede.verify.kernels.slots import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["CLIENT", "CONSUMER", "PRODUCER", "Spans", "note_spans", "resolve"]

KINDS = {"client": 1, "producer": 2, "server": 3, "consumer": 4, "internal": 5}
CLIENT, PRODUCER, CONSUMER = KINDS["client"], KINDS["producer"], KINDS["consumer"]


class Spans(NamedTuple):
    """Spans as arrays; ``parent`` is an index of another, or NONE."""

    names: list[str]
    process: Ints
    parent: Longs
    kind: Ints
    start: Longs
    end: Longs
    file: Ints
    line: Longs


def resolve(
    table: pa.Table, file: Ints, files: list[str], holes: Collector, notes: Collector
) -> tuple[Spans, Bools]:
    """Find the parent of every span; return also which spans something is missing of.

    A span that is there several times, alike, is taken once.
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
            note_spans(notes, "spans that are there already, alike", copies, spans, files)
            kept = table.filter(pa.array(~copies)).combine_chunks()
            return resolve(kept, file[~copies], files, holes, notes)
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
        note_spans(holes, what, mask, spans, files)
    return spans, is_repeated | lost | backwards


def _copies(order: Longs, is_repeated: Bools, columns: tuple[Longs, ...]) -> Bools:
    """Return which spans with the id of another are like it in all these columns."""
    alike = is_repeated[order[1:]]
    for column in columns:
        alike &= column[order[1:]] == column[order[:-1]]
    copies = np.zeros(len(order), np.bool_)
    copies[order[1:]] = alike
    return copies


def _find(key: Longs, order: Longs, wanted: Longs) -> Longs:
    """Return the index of each wanted key, the first if there are several, or NONE."""
    if not len(key):
        return np.full(len(wanted), NONE, np.int64)
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
    found = order[place]
    return np.where(key[found] == wanted, found, NONE)


def _codes(*columns: pa.ChunkedArray) -> tuple[list[Longs], list[str]]:
    """Number the texts of several columns alike; null is NONE."""
    texts = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(codes, ends)), encoded.dictionary.to_pylist()


def note_spans(
    collector: Collector, what: str, mask: Bools, spans: Spans, files: list[str]
) -> None:
    """Note something of all these spans, with the places of the first of them."""
    found = np.flatnonzero(mask)
    first = found[np.lexsort((spans.line[found], spans.file[found]))[:PLACES_KEPT]]
    places = [
        Place(files[spans.file[i]], int(spans.line[i]), spans.names[spans.process[i]])
        for i in first
    ]
    collector.add_all(what, len(found), places)
