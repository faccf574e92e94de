"""The Spark task that expands states of a level."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from antecede.check.checker import CheckConfig, make_space
from antecede.check.portable import Portable
from antecede.pipeline.check.level_files import (
    COUNTS,
    FOUND_SCHEMA,
    STATE,
    VIOLATION,
    LevelFiles,
    entry_rows,
    fingerprint,
    found_row,
)

__all__ = ["expansion_task"]

STATES_AT_ONCE = 10_000


class _Worker:
    """The state space of a worker process, which it keeps from task to task."""

    def __init__(self, config: CheckConfig, directory: Path) -> None:
        self._directory = directory
        self._depth = 0
        self.portable = Portable(*make_space(config, fingerprinted=True))

    def learn(self, depth: int) -> None:
        """Learn the entries of all levels before this one."""
        while self._depth < depth:
            level = LevelFiles(self._directory, self._depth)
            self.portable.learn(level.read_catalogue())
            self._depth += 1


_workers: dict[tuple[str, CheckConfig], _Worker] = {}


def expansion_task(
    config: CheckConfig, directory: str, depth: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: it gets states, and yields rows of FOUND_SCHEMA."""

    def expand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key = (directory, config)
        worker = _workers.get(key)
        if worker is None:
            _workers.clear()  # Only the current search is kept.
            worker = _workers[key] = _Worker(config, Path(directory))
        worker.learn(depth)
        for batch in batches:
            states = batch.column("state").to_pylist()
            for start in range(0, len(states), STATES_AT_ONCE):
                rows = _expand(worker.portable, states[start : start + STATES_AT_ONCE])
                yield pa.RecordBatch.from_pylist(rows, schema=FOUND_SCHEMA)
        entries = entry_rows(worker.portable.new_entries())
        yield pa.RecordBatch.from_pylist(entries, schema=FOUND_SCHEMA)

    return expand


def _expand(portable: Portable, states: list[bytes]) -> list[dict[str, object]]:
    level = portable.expand(states)
    fingerprints: dict[bytes, bytes] = {}
    rows: list[dict[str, object]] = []
    for state, before in level.found.items():
        known = fingerprints.get(before)
        if known is None:
            known = fingerprints[before] = fingerprint(before)
        row = found_row(STATE, fingerprint=fingerprint(state), state=state, before=known)
        rows.append(row)
    counts = array("q", [level.transitions, level.ends])
    rows.append(found_row(COUNTS, state=counts.tobytes()))
    if level.violation is not None:
        violated, state = level.violation
        row = found_row(
            VIOLATION, fingerprint=fingerprint(state), state=state, before=violated.encode()
        )
        rows.append(row)
    return rows
