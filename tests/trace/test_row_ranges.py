"""Ranges of the rows of a node's trace are the same whenever they are read."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from antecede.errors import TraceError
from antecede.trace.live.reader import read_node_trace
from antecede.trace.live.row_ranges import count_rows, read_rows
from antecede.trace.live.writer import NodeTraceWriter


def rows_of(path: Path, first: int, end: int) -> list[dict[str, Any]]:
    batches = list(read_rows(path, "live", first, end))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_read_once_while_the_node_writes(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    path = tmp_path / "ann"
    writer = NodeTraceWriter(path, "ann", flush_rows=7, part_rows=20)
    writer.set_name(1, "bob")
    known: dict[int, int] = {}
    counts = [0]
    found: list[dict[str, Any]] = []
    for number in range(1, random.randint(30, 200)):
        writer.observer.sent(0, number, [1], float(number))
        if random.random() < 0.1:
            writer.flush()
            counts.append(count_rows(path, known))
            assert counts[-1] == number
            found += rows_of(path, counts[-2], counts[-1])
    writer.close()
    counts.append(count_rows(path, known))
    found += rows_of(path, counts[-2], counts[-1])
    recorded = pa.Table.from_batches(list(read_node_trace(path).batches())).to_pylist()
    assert found == recorded
    for first, end in pairwise(counts):
        assert rows_of(path, first, end) == recorded[first:end]


def test_rows_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path / "ann", "ann") as writer:
        writer.observer.sent(0, 1, [1], 1.0)
    with pytest.raises(TraceError, match="row 1 is missing, although it was flushed"):
        rows_of(tmp_path / "ann", 0, 2)
