"""The model checker's search on Spark, level by level.

A level is a table of portable states (:mod:`antecede.check.portable`). Tasks make every
step from their share of it; what they find is put together by fingerprint, and what no
level has yet is the next level. So neither a level nor the set of all states need fit into
one machine's memory; what every worker holds are the local states.

In the directory of a search::

    bound.json               what is checked; another bound is refused
    level-0007/states/       its states: fingerprint, state, fingerprint of one before it
    level-0007/found/        what its tasks found: states, explanations, counts, violations
    level-0007/catalogue.parquet   the explanations that were new
    level-0007/done.json     its counts; a level without it is expanded again

Every table is written by Spark's own commit, so a task that is run twice counts once. Kill
the search anywhere, and the same command goes on with the level that was not done.
"""

import json
import shutil
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.check.checker import Bound, Checked, make_space
from antecede.check.portable import Entry, Portable
from antecede.check.search import Result, find_violation
from antecede.check.state_space import Space
from antecede.check.transitions import Model
from antecede.errors import ConfigError
from antecede.pipeline.spark.session import open_session
from antecede.pipeline.study.directory import write_whole
from antecede.pipeline.verify.runs import TASKS_PER_CORE, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_at", "check_on_spark"]

FINGERPRINT_BYTES = 16
"""Of ten thousand million states two are alike with a probability of 1 in 10^18."""
STATES_PER_TASK = 2_000
"""Fewer would cost more to hand out than to expand."""
STATES_AT_ONCE = 10_000

STATE, LOCAL, PACKET, COUNTS, BROKEN = range(5)
STATES = "fingerprint binary, state binary, before binary"
FOUND = f"{STATES}, kind int"
CATALOGUE = pa.schema(
    [
        pa.field("is_packet", pa.bool_()),
        pa.field("rank", pa.int64()),
        pa.field("before", pa.int64()),
        pa.field("given", pa.int64()),
        pa.field("weight", pa.int64()),
    ]
)
FOUND_ARROW = pa.schema(
    [
        pa.field("fingerprint", pa.binary()),
        pa.field("state", pa.binary()),
        pa.field("before", pa.binary()),
        pa.field("kind", pa.int32()),
    ]
)


def check_at(
    master: str,
    bound: Bound,
    directory: Path | None = None,
    *,
    report: Callable[[Result, Model], None] | None = None,
) -> Checked:
    """Start Spark at a master, and search there; see :func:`check_on_spark`.

    Without a directory, the levels are kept in a temporary one while it lasts.
    """
    make_space(bound)  # Raises what is wrong with it before Spark starts.
    with open_session(master) as spark:
        if directory is not None:
            return check_on_spark(spark, bound, directory, report=report)
        with TemporaryDirectory(prefix="antecede-check-") as scratch:
            return check_on_spark(spark, bound, Path(scratch), report=report)


def check_on_spark(
    spark: "SparkSession",
    bound: Bound,
    directory: Path,
    *,
    report: Callable[[Result, Model], None] | None = None,
) -> Checked:
    """Look at every schedule within a bound, as :func:`antecede.check.check` does.

    The counts are the same, save those of a protocol whose states are not quite symmetric,
    and of local states.

    Args:
        spark: Where to run; the workers need antecede, too.
        bound: What, and how far; a bound on memory does not apply.
        directory: Where the levels are kept, on storage that all workers reach. If it
            holds levels of the same bound, the search goes on from there.
        report: Is called after every level.

    Raises:
        ConfigError: The protocol cannot do what is asked for, or the directory belongs to
            another search.
    """
    start = monotonic()
    search = _Search(spark, bound, directory)
    broken = search.run(report)
    result = search.result
    if broken is not None:
        what, way = broken
        result.violation = find_violation(search.space, what, way)
    return Checked.of(
        bound, result, search.model, start=start, local_states=search.local_states
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What one level came to."""

    transitions: int
    ends: int
    following: int
    """How many states the next level has."""
    broken: str | None
    """The property that a state of this level breaks, or a step from it."""
    culprit: str | None
    """The fingerprint of that state."""


class _Search:
    """The levels of a search, and the space of the driver."""

    def __init__(self, spark: "SparkSession", bound: Bound, directory: Path) -> None:
        self._spark = spark
        self._bound = bound
        self._directory = directory.absolute()
        self._tasks_max = TASKS_PER_CORE * parallelism(spark)
        self.model: Model
        self.space: Space
        self.model, self.space = make_space(bound, ranked=True)
        self._portable = Portable(self.model, self.space)
        self.result = Result()
        self.local_states = len(self.model.start)

    def run(
        self, report: Callable[[Result, Model], None] | None
    ) -> tuple[str, list[bytes]] | None:
        """Expand level after level; return what is broken and the way there, if any."""
        self._open()
        depth, following = 0, 1
        while following:
            self.result.depth = depth
            self.result.states += following
            if self.result.states > self._bound.states_max:
                self.result.exhausted = False
                return None
            done = self._read_done(depth)
            if done is None:
                done = self._expand(depth, following)
            self.result.transitions += done.transitions
            self.result.ends += done.ends
            entries = _read_catalogue(self._level(depth))
            self._portable.learn(entries)
            self.local_states += sum(not entry.is_packet for entry in entries)
            if report is not None:
                report(self.result, self.model)
            if done.broken is not None:
                assert done.culprit is not None
                return done.broken, self._way(depth, bytes.fromhex(done.culprit))
            depth, following = depth + 1, done.following
        return None

    def _open(self) -> None:
        """Begin, or see that what is there is of the same search."""
        note = self._directory / "bound.json"
        wanted = asdict(self._bound)
        del wanted["states_max"], wanted["memory_max_gib"]
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if note.exists():
                if json.loads(note.read_text(encoding="utf-8")) != wanted:
                    raise ConfigError(
                        f"{self._directory} holds the levels of another search;"
                        " give another directory"
                    )
            elif any(self._directory.iterdir()):
                raise ConfigError(f"{self._directory} holds other things; give another one")
            else:
                states = self._level(0) / "states"
                states.mkdir(parents=True)
                first = self._portable.go_out(self.space.first)
                row = {"kind": STATE, "fingerprint": _fingerprint(first)}
                row |= {"state": first, "before": b""}
                table = pa.Table.from_pylist([row], schema=FOUND_ARROW)
                pq.write_table(table.drop_columns(["kind"]), states / "part-0.parquet")
                write_whole(note, json.dumps(wanted))
        except OSError as error:
            raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"{note} is no note of a search: {error}") from error

    def _level(self, depth: int) -> Path:
        return self._directory / f"level-{depth:04}"

    def _read_done(self, depth: int) -> _Done | None:
        path = self._level(depth) / "done.json"
        if not path.exists():
            return None
        return _Done(**json.loads(path.read_text(encoding="utf-8")))

    def _states(self, *depths: int) -> "DataFrame":
        paths = [str(self._level(depth) / "states") for depth in depths]
        return self._spark.read.schema(STATES).parquet(*paths)

    def _expand(self, depth: int, count: int) -> _Done:
        """Expand one level, and write the next: two jobs."""
        from pyspark.sql import functions as F

        level, following = self._level(depth), self._level(depth + 1)
        found = level / "found"
        tasks = max(1, min(self._tasks_max, count // STATES_PER_TASK))
        states = self._states(depth).select("state").repartition(tasks)
        work = _task(self._bound, str(self._directory), depth)
        rows = states.mapInArrow(work, FOUND)
        rows.write.mode("overwrite").partitionBy("kind").parquet(str(found))
        _write_catalogue(level, _kind(found, LOCAL), _kind(found, PACKET))
        culprits = [
            (bytes(row["before"]), row["fingerprint"]) for row in _kind(found, BROKEN)
        ]
        what, culprit = min(culprits, default=(None, None))
        counts = [array("q", bytes(row["state"])) for row in _kind(found, COUNTS)]
        following_count = 0
        if (found / f"kind={STATE}").exists():
            fresh = (
                self._spark.read.schema(STATES)
                .parquet(str(found / f"kind={STATE}"))
                .groupBy("fingerprint")
                .agg(F.first("state").alias("state"), F.min("before").alias("before"))
            )
            seen = self._states(*range(depth + 1)).select("fingerprint")
            fresh = fresh.join(seen, "fingerprint", "left_anti")
            fresh.write.mode("overwrite").parquet(str(following / "states"))
            following_count = _count_rows(following / "states")
        done = _Done(
            transitions=sum(each[0] for each in counts),
            ends=sum(each[1] for each in counts),
            following=following_count,
            broken=None if what is None else what.decode(),
            culprit=None if culprit is None else culprit.hex(),
        )
        shutil.rmtree(found)
        write_whole(level / "done.json", json.dumps(asdict(done)))
        return done

    def _way(self, depth: int, fingerprint: bytes) -> list[bytes]:
        """Return the states from the first on to the one with this fingerprint."""
        way: list[bytes] = []
        for level in range(depth, -1, -1):
            states = self._states(level)
            same = f"hex(fingerprint) = '{fingerprint.hex().upper()}'"
            rows = states.filter(same).collect()
            way.append(self._portable.come_in(bytes(rows[0].state)))
            fingerprint = bytes(rows[0].before)
        way.reverse()
        return way


def _kind(found: Path, kind: int) -> list[dict[str, Any]]:
    """Read what tasks found of a kind that there is little of."""
    path = found / f"kind={kind}"
    columns = ["fingerprint", "state", "before"]
    return pq.read_table(path, columns=columns).to_pylist() if path.exists() else []


def _count_rows(table: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in table.glob("part-*"))


def _write_catalogue(
    level: Path, locals_: list[dict[str, Any]], packets: list[dict[str, Any]]
) -> None:
    """Keep the lightest explanation of everything that is new."""
    best: dict[tuple[bool, int], list[int]] = {}
    for is_packet, rows in ((False, locals_), (True, packets)):
        for row in rows:
            entry = array("q", bytes(row["state"])).tolist()
            key = (is_packet, entry[0])
            if key not in best or (entry[3], entry) < (best[key][3], best[key]):
                best[key] = entry
    table = pa.Table.from_pylist(
        [
            dict(zip(CATALOGUE.names, (is_packet, *entry), strict=True))
            for (is_packet, _), entry in sorted(best.items())
        ],
        schema=CATALOGUE,
    )
    partial = level / "catalogue.partial"
    pq.write_table(table, partial)
    partial.rename(level / "catalogue.parquet")


def _read_catalogue(level: Path) -> list[Entry]:
    rows = pq.read_table(level / "catalogue.parquet").to_pylist()
    return [Entry(**row) for row in rows]


def _fingerprint(state: bytes) -> bytes:
    return blake2b(state, digest_size=FINGERPRINT_BYTES).digest()


# In the workers.


class _Worker:
    """The space of a worker process, which it keeps from task to task."""

    def __init__(self, bound: Bound, directory: Path) -> None:
        self._directory = directory
        self._depth = 0
        self.portable = Portable(*make_space(bound, ranked=True))

    def learn(self, depth: int) -> None:
        """Learn the explanations of all levels before this one."""
        while self._depth < depth:
            level = self._directory / f"level-{self._depth:04}"
            self.portable.learn(_read_catalogue(level))
            self._depth += 1


_workers: dict[tuple[str, Bound], _Worker] = {}


def _task(
    bound: Bound, directory: str, depth: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a task does: it gets states, and yields what it finds."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key = (directory, bound)
        worker = _workers.get(key)
        if worker is None:
            _workers.clear()  # One search at a time is enough to remember.
            worker = _workers[key] = _Worker(bound, Path(directory))
        worker.learn(depth)
        for batch in batches:
            states = batch.column("state").to_pylist()
            for start in range(0, len(states), STATES_AT_ONCE):
                rows = _rows(worker.portable, states[start : start + STATES_AT_ONCE])
                yield pa.RecordBatch.from_pylist(rows, schema=FOUND_ARROW)
        yield pa.RecordBatch.from_pylist(_news(worker.portable), schema=FOUND_ARROW)

    return work


def _rows(portable: Portable, states: list[bytes]) -> list[dict[str, object]]:
    level = portable.expand(states)
    fingerprints: dict[bytes, bytes] = {}
    rows: list[dict[str, object]] = []
    for state, before in level.found.items():
        known = fingerprints.get(before)
        if known is None:
            known = fingerprints[before] = _fingerprint(before)
        fingerprint = _fingerprint(state)
        rows.append(_row(STATE, fingerprint, state, known))
    counts = array("q", [level.transitions, level.ends])
    rows.append(_row(COUNTS, b"", counts.tobytes(), b""))
    if level.broken is not None:
        what, state = level.broken
        rows.append(_row(BROKEN, _fingerprint(state), state, what.encode()))
    return rows


def _news(portable: Portable) -> list[dict[str, object]]:
    rows = []
    for entry in portable.news():
        packed = array("q", [entry.rank, entry.before, entry.given, entry.weight])
        rows.append(_row(PACKET if entry.is_packet else LOCAL, b"", packed.tobytes(), b""))
    return rows


def _row(kind: int, fingerprint: bytes, state: bytes, before: bytes) -> dict[str, object]:
    return {"kind": kind, "fingerprint": fingerprint, "state": state, "before": before}
