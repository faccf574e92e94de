"""The model checker on Spark returns the results of the one in a single process."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.check import CheckConfig, CheckResult, Counterexample, check
from antecede.check.search import SearchResult
from antecede.check.transitions import TransitionTable
from antecede.errors import ConfigError, StorageError
from antecede.pipeline.check.levels import check_on_spark
from antecede.testing import replay


def counts(checked: CheckResult) -> tuple[int, int, int, int, int, bool]:
    return (
        checked.states,
        checked.transitions,
        checked.ends,
        checked.depth,
        checked.local_states,
        checked.exhausted,
    )


class Killed(Exception):
    """Stands for a crash of the process."""


@pytest.mark.slow
def test_an_interrupted_search_continues_and_counts_every_state_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = CheckConfig(protocol="hybrid", messages=1)
    alone = check(config)

    def interrupt(result: SearchResult, model: TransitionTable) -> None:
        if result.depth == 2:
            raise Killed

    with pytest.raises(Killed):
        check_on_spark(spark, config, tmp_path, on_progress=interrupt)
    # As if the machine had failed after writing the next level's states.
    (tmp_path / "level-0002" / "done.json").unlink()
    levels: list[int] = []
    checked = check_on_spark(
        spark,
        config,
        tmp_path,
        on_progress=lambda result, model: levels.append(result.depth),
    )
    assert counts(checked) == counts(alone)
    assert levels == list(range(alone.depth + 1))
    with pytest.raises(ConfigError, match="levels of another search"):
        check_on_spark(spark, replace(config, messages=2), tmp_path)


@pytest.mark.slow
def test_a_violation_is_as_short_and_its_counterexample_can_be_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = CheckConfig(protocol="fifo")
    alone = check(config)
    checked = check_on_spark(spark, config, tmp_path / "work")
    assert alone.violation is not None
    assert checked.violation is not None
    assert checked.violation.depth == alone.violation.depth
    assert not replay(Counterexample.from_result(checked)).verdict().held


def test_the_bound_on_states_is_respected(spark: SparkSession, tmp_path: Path) -> None:
    config = CheckConfig(protocol="hybrid", states_max=20)
    assert not check_on_spark(spark, config, tmp_path / "work").exhausted


def test_a_directory_of_something_else_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(ConfigError, match="is not empty and contains no search"):
        check_on_spark(spark, CheckConfig(protocol="hybrid"), tmp_path)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        check_on_spark(spark, CheckConfig(protocol="hybrid"), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"protocol": "fifo"}))
    with pytest.raises(ConfigError, match="levels of another search"):
        check_on_spark(spark, CheckConfig(protocol="hybrid"), tmp_path)
