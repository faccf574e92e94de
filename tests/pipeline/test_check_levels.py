"""The model checker on Spark finds what it finds in one process."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.check import Bound, Checked, check, tell
from antecede.check.search import Result
from antecede.check.transitions import Model
from antecede.errors import ConfigError
from antecede.pipeline.check.levels import check_on_spark
from antecede.testing import replay


def counts(checked: Checked) -> tuple[int, int, int, int, int, bool]:
    return (
        checked.states,
        checked.transitions,
        checked.ends,
        checked.depth,
        checked.local_states,
        checked.exhausted,
    )


class Killed(Exception):
    """Stands for the end of the process."""


def test_an_interrupted_search_goes_on_and_counts_everything_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    bound = Bound(protocol="hybrid", messages=1)
    alone = check(bound)

    def interrupt(result: Result, model: Model) -> None:
        if result.depth == 2:
            raise Killed

    with pytest.raises(Killed):
        check_on_spark(spark, bound, tmp_path, report=interrupt)
    # As if the machine had failed between the next level's states and the note of it.
    (tmp_path / "level-0002" / "done.json").unlink()
    levels: list[int] = []
    checked = check_on_spark(
        spark, bound, tmp_path, report=lambda result, model: levels.append(result.depth)
    )
    assert counts(checked) == counts(alone)
    assert levels == list(range(alone.depth + 1))
    with pytest.raises(ConfigError, match="levels of another search"):
        check_on_spark(spark, replace(bound, messages=2), tmp_path)


def test_a_violation_is_as_short_and_its_story_can_be_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    bound = Bound(protocol="fifo")
    alone = check(bound)
    checked = check_on_spark(spark, bound, tmp_path / "work")
    assert alone.violation is not None
    assert checked.violation is not None
    assert checked.violation.depth == alone.violation.depth
    assert not replay(tell(checked)).verdict().held


def test_a_bound_on_states_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    bound = Bound(protocol="hybrid", states_max=20)
    assert not check_on_spark(spark, bound, tmp_path / "work").exhausted


def test_a_directory_of_other_things_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(ConfigError, match="holds other things"):
        check_on_spark(spark, Bound(protocol="hybrid"), tmp_path)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    (tmp_path / "bound.json").write_text("{")
    with pytest.raises(ConfigError, match="no note of a search"):
        check_on_spark(spark, Bound(protocol="hybrid"), tmp_path)
    (tmp_path / "bound.json").write_text(json.dumps({"protocol": "fifo"}))
    with pytest.raises(ConfigError, match="levels of another search"):
        check_on_spark(spark, Bound(protocol="hybrid"), tmp_path)
