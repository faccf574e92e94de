"""The files of a search: one directory per level.

::

    config.json              the search's configuration; any other is refused
    level-0007/states/       its states: fingerprint, state, a predecessor's fingerprint
    level-0007/found/        rows of its tasks: states, entries, counts, violations
    level-0007/catalogue.parquet   the entries that were new
    level-0007/done.json     its counts; a level without this file is expanded again
"""

import json
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.check.portable import Entry
from antecede.pipeline.study.directory import write_atomically

__all__ = [
    "COUNTS",
    "FOUND",
    "FOUND_SCHEMA",
    "LOCAL",
    "PACKET",
    "STATE",
    "STATES",
    "VIOLATION",
    "LevelFiles",
    "LevelResult",
    "entry_rows",
    "fingerprint",
    "found_row",
]

FINGERPRINT_BYTES = 16
"""Among ten thousand million states a collision has a probability of 1 in 10^18."""

STATE, LOCAL, PACKET, COUNTS, VIOLATION = range(5)
"""The kinds of rows that tasks write."""
STATES = "fingerprint binary, state binary, before binary"
FOUND = f"{STATES}, kind int"
FOUND_SCHEMA = pa.schema(
    [
        pa.field("fingerprint", pa.binary()),
        pa.field("state", pa.binary()),
        pa.field("before", pa.binary()),
        pa.field("kind", pa.int32()),
    ]
)
CATALOGUE_SCHEMA = pa.schema(
    [
        pa.field("is_packet", pa.bool_()),
        pa.field("fingerprint", pa.int64()),
        pa.field("before", pa.int64()),
        pa.field("input", pa.int64()),
        pa.field("weight", pa.int64()),
    ]
)


def fingerprint(state: bytes) -> bytes:
    """Return the hash that identifies a portable state."""
    return blake2b(state, digest_size=FINGERPRINT_BYTES).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """The counts of one level, and a violation if it has one."""

    transitions: int
    ends: int
    next_states: int
    """The number of states of the next level."""
    violated: str | None
    """The property that a state of this level, or a step from it, violates."""
    violating_state: str | None
    """The fingerprint of that state."""


class LevelFiles:
    """The files of one level."""

    def __init__(self, directory: Path, depth: int) -> None:
        self.path = directory / f"level-{depth:04}"
        self.states = self.path / "states"
        self.found = self.path / "found"
        self._catalogue = self.path / "catalogue.parquet"
        self._done = self.path / "done.json"

    def read_result(self) -> LevelResult | None:
        """Return the level's result; None if the level is not finished."""
        if not self._done.exists():
            return None
        return LevelResult(**json.loads(self._done.read_text(encoding="utf-8")))

    def write_result(self, result: LevelResult) -> None:
        """Mark the level as finished."""
        write_atomically(self._done, json.dumps(asdict(result)))

    def write_first_state(self, state: bytes) -> None:
        """Write the one state of the first level."""
        self.states.mkdir(parents=True)
        row = {"fingerprint": fingerprint(state), "state": state, "before": b""}
        table = pa.Table.from_pylist([row], schema=FOUND_SCHEMA)
        pq.write_table(table.drop_columns(["kind"]), self.states / "part-0.parquet")

    def count_states(self) -> int:
        """Return the number of states."""
        return sum(pq.read_metadata(part).num_rows for part in self.states.glob("part-*"))

    def found_of_kind(self, kind: int) -> Path:
        """Return the directory of the tasks' rows of a kind."""
        return self.found / f"kind={kind}"

    def read_found(self, kind: int) -> list[dict[str, Any]]:
        """Return the tasks' rows of a kind; for kinds other than STATE, which are few."""
        path = self.found_of_kind(kind)
        columns = ["fingerprint", "state", "before"]
        return pq.read_table(path, columns=columns).to_pylist() if path.exists() else []

    def write_catalogue(self) -> None:
        """Write the lightest new entry for every local state and packet."""
        best: dict[tuple[bool, int], list[int]] = {}
        for is_packet, rows in (
            (False, self.read_found(LOCAL)),
            (True, self.read_found(PACKET)),
        ):
            for row in rows:
                entry = array("q", bytes(row["state"])).tolist()
                key = (is_packet, entry[0])
                if key not in best or (entry[3], entry) < (best[key][3], best[key]):
                    best[key] = entry
        table = pa.Table.from_pylist(
            [
                dict(zip(CATALOGUE_SCHEMA.names, (is_packet, *entry), strict=True))
                for (is_packet, _), entry in sorted(best.items())
            ],
            schema=CATALOGUE_SCHEMA,
        )
        partial = self.path / "catalogue.partial"
        pq.write_table(table, partial)
        partial.rename(self._catalogue)

    def read_catalogue(self) -> list[Entry]:
        """Return the level's new entries."""
        return [Entry(**row) for row in pq.read_table(self._catalogue).to_pylist()]


def entry_rows(entries: Iterable[Entry]) -> list[dict[str, object]]:
    """Return entries as rows of FOUND_SCHEMA."""
    rows = []
    for entry in entries:
        packed = array("q", [entry.fingerprint, entry.before, entry.input, entry.weight])
        kind = PACKET if entry.is_packet else LOCAL
        rows.append(found_row(kind, state=packed.tobytes()))
    return rows


def found_row(
    kind: int, *, fingerprint: bytes = b"", state: bytes, before: bytes = b""
) -> dict[str, object]:
    """Return a row of FOUND_SCHEMA."""
    return {"kind": kind, "fingerprint": fingerprint, "state": state, "before": before}
