"""The model checker's search on Spark, level by level.

A level is a table of portable states (:mod:`antecede.check.portable`). Tasks expand their
part of it; Spark groups the successors by fingerprint, and those that no level contains are
the next level. So neither a level nor the set of all states must fit into the memory of one
machine; every worker holds the local states.

Spark commits every table, so a task that runs twice counts once. A search that was killed
continues with the level that was not finished; :mod:`antecede.pipeline.check.level_files`
describes its directory.
"""

import json
import shutil
from array import array
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING

from antecede.check.checker import CheckConfig, CheckResult, make_space
from antecede.check.portable import Portable
from antecede.check.search import SearchResult, find_violation
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from antecede.errors import ConfigError, StorageError
from antecede.pipeline.check.expansion import expansion_task
from antecede.pipeline.check.level_files import (
    COUNTS,
    FOUND,
    STATE,
    STATES,
    VIOLATION,
    LevelFiles,
    LevelResult,
)
from antecede.pipeline.spark.session import open_session
from antecede.pipeline.spark.shared_storage import check_shared
from antecede.pipeline.study.directory import write_atomically
from antecede.pipeline.verify.runs import TASKS_PER_CORE, parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_at", "check_on_spark"]

STATES_PER_TASK = 2_000
"""A task with fewer states takes longer to start than to run."""

OnLevel = Callable[[SearchResult, TransitionTable], None]


def check_at(
    master: str,
    config: CheckConfig,
    directory: Path | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    on_progress: OnLevel | None = None,
) -> CheckResult:
    """Start Spark at a master, and search there; see :func:`check_on_spark`.

    Without a directory, a temporary one keeps the levels during the search. The settings
    of the session are ``conf``.
    """
    make_space(config)  # Raises an error of the configuration before Spark starts.
    with open_session(master, conf=conf) as spark:
        if directory is not None:
            return check_on_spark(spark, config, directory, on_progress=on_progress)
        with TemporaryDirectory(prefix="antecede-check-") as scratch:
            return check_on_spark(spark, config, Path(scratch), on_progress=on_progress)


def check_on_spark(
    spark: "SparkSession",
    config: CheckConfig,
    directory: Path,
    *,
    on_progress: OnLevel | None = None,
) -> CheckResult:
    """Search every schedule within the bounds, as :func:`antecede.check.check` does.

    The counts are the same, except that of local states, and those of a protocol whose
    states are not completely symmetric.

    Args:
        spark: The session; the workers need antecede, too.
        config: The protocol and the bounds; the bound on memory does not apply.
        directory: The directory of the levels, on storage that all workers reach. If it
            contains levels of the same configuration, the search continues from there.
        on_progress: Is called after every level.

    Raises:
        ConfigError: The protocol does not support the configuration, or the directory
            belongs to another search.
        StorageError: The directory is not writable, or its configuration is damaged.
    """
    start = monotonic()
    search = _Search(spark, config, directory)
    violation = search.run(on_progress)
    result = search.result
    if violation is not None:
        violated, path = violation
        result.violation = find_violation(search.space, violated, path)
    return CheckResult.of(
        config, result, search.table, start=start, local_states=search.local_states
    )


class _Search:
    """The driver of a search."""

    def __init__(self, spark: "SparkSession", config: CheckConfig, directory: Path) -> None:
        self._spark = spark
        self._config = config
        self._directory = directory.absolute()
        self._tasks_max = TASKS_PER_CORE * parallelism(spark)
        self.table: TransitionTable
        self.space: StateSpace
        self.table, self.space = make_space(config, fingerprinted=True)
        self._portable = Portable(self.table, self.space)
        self.result = SearchResult()
        self.local_states = len(self.table.start)

    def run(self, on_progress: OnLevel | None) -> tuple[str, list[bytes]] | None:
        """Expand level after level; return a violated property and the path to it."""
        self._open()
        check_shared(self._spark, self._directory, tasks=parallelism(self._spark))
        depth, states = 0, 1
        while states:
            self.result.depth = depth
            self.result.states += states
            if self.result.states > self._config.states_max:
                self.result.exhausted = False
                return None
            level = self._level(depth)
            done = level.read_result()
            if done is None:
                done = self._expand(depth, states)
            self.result.transitions += done.transitions
            self.result.ends += done.ends
            entries = level.read_catalogue()
            self._portable.learn(entries)
            self.local_states += sum(not entry.is_packet for entry in entries)
            if on_progress is not None:
                on_progress(self.result, self.table)
            if done.violated is not None:
                assert done.violating_state is not None
                state = bytes.fromhex(done.violating_state)
                return done.violated, self._path_to(depth, state)
            depth, states = depth + 1, done.next_states
        return None

    def _open(self) -> None:
        """Create the directory, or check that it belongs to the same search."""
        file = self._directory / "config.json"
        config = asdict(self._config)
        del config["states_max"], config["memory_max_gib"]
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if file.exists():
                if json.loads(file.read_text(encoding="utf-8")) != config:
                    raise ConfigError(
                        f"{self._directory} contains the levels of another search;"
                        " choose another directory"
                    )
            elif any(self._directory.iterdir()):
                raise ConfigError(
                    f"{self._directory} is not empty and contains no search;"
                    " choose another directory"
                )
            else:
                first = self._portable.encode(self.space.first)
                self._level(0).write_first_state(first)
                write_atomically(file, json.dumps(config))
        except OSError as error:
            raise StorageError(
                f"cannot write {error.filename}: {error.strerror}"
            ) from error
        except ValueError as error:
            raise StorageError(f"{file} is damaged: {error}") from error

    def _level(self, depth: int) -> LevelFiles:
        return LevelFiles(self._directory, depth)

    def _states(self, *depths: int) -> "DataFrame":
        paths = [str(self._level(depth).states) for depth in depths]
        return self._spark.read.schema(STATES).parquet(*paths)

    def _expand(self, depth: int, count: int) -> LevelResult:
        """Expand one level, and write the next, by two Spark jobs."""
        level = self._level(depth)
        tasks = max(1, min(self._tasks_max, count // STATES_PER_TASK))
        states = self._states(depth).select("state").repartition(tasks)
        task = expansion_task(self._config, str(self._directory), depth)
        rows = states.mapInArrow(task, FOUND)
        rows.write.mode("overwrite").partitionBy("kind").parquet(str(level.found))
        level.write_catalogue()
        violations = [
            (bytes(row["before"]), row["fingerprint"])
            for row in level.read_found(VIOLATION)
        ]
        violated, violating_state = min(violations, default=(None, None))
        counts = [array("q", bytes(row["state"])) for row in level.read_found(COUNTS)]
        result = LevelResult(
            transitions=sum(each[0] for each in counts),
            ends=sum(each[1] for each in counts),
            next_states=self._write_next(depth),
            violated=None if violated is None else violated.decode(),
            violating_state=None if violating_state is None else violating_state.hex(),
        )
        shutil.rmtree(level.found)
        level.write_result(result)
        return result

    def _write_next(self, depth: int) -> int:
        """Write the states that no level contains as the next; return their number."""
        from pyspark.sql import functions as F

        found = self._level(depth).found_of_kind(STATE)
        if not found.exists():
            return 0
        states = (
            self._spark.read.schema(STATES)
            .parquet(str(found))
            .groupBy("fingerprint")
            .agg(F.first("state").alias("state"), F.min("before").alias("before"))
        )
        visited = self._states(*range(depth + 1)).select("fingerprint")
        following = self._level(depth + 1)
        new = states.join(visited, "fingerprint", "left_anti")
        new.write.mode("overwrite").parquet(str(following.states))
        return following.count_states()

    def _path_to(self, depth: int, fingerprint: bytes) -> list[bytes]:
        """Return the states from the first to the one with this fingerprint."""
        path: list[bytes] = []
        for level in range(depth, -1, -1):
            same = f"hex(fingerprint) = '{fingerprint.hex().upper()}'"
            rows = self._states(level).filter(same).collect()
            path.append(self._portable.decode(bytes(rows[0].state)))
            fingerprint = bytes(rows[0].before)
        path.reverse()
        return path
