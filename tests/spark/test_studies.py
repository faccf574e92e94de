"""Simulations, studies and advice through the public API."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.errors import ConfigError
from antecede.sim.simulate import Scenario, simulate_to
from antecede.spark import (
    advise,
    load_study,
    measure,
    read_traces,
    report,
    simulate,
    verify,
)
from antecede.trace.schema import SCHEMA

GRID = {"protocols": ["hybrid", "fifo"], "processes": [3], "seeds": 1, "messages": 10}


def test_simulated_runs_are_verified_and_measured_without_files(
    spark: SparkSession,
) -> None:
    runs = simulate(GRID)
    events = runs.events.persist()
    assert events.columns == SCHEMA.names
    held = verify(events, complete=True).verdicts.where("status = 'held'")
    names = {row.cell: row.protocol for row in runs.cells.collect()}
    assert len(names) == 2
    assert {row.run for row in held.select("run").distinct().collect()} == set(names)
    measured = measure(events, runs.cells).where("measure = 'copies'").collect()
    assert {row.cell: row.value for row in measured} == dict.fromkeys(names, 30.0)
    with pytest.raises(ConfigError, match="no column 'metadata_bytes': measures need all"):
        measure(events.drop("metadata_bytes"), runs.cells)
    events.unpersist()


def test_traces_of_a_study_are_read_and_verified(
    spark: SparkSession, tmp_path: Path
) -> None:
    for seed in (1, 2):
        scenario = Scenario(processes=3, messages=10, seed=seed)
        simulate_to(tmp_path / "events" / f"cell-{seed}", scenario)
    traces = read_traces(spark, tmp_path / "events" / "*")
    assert traces.columns == SCHEMA.names
    found = verify(traces, complete=True).verdicts.select("run", "status").distinct()
    assert {tuple(row) for row in found.collect()} == {
        ("hybrid-1", "held"), ("hybrid-2", "held"),
    }  # fmt: skip
    one = read_traces(spark, f"file://{tmp_path}/events/cell-1/")
    assert [row.run for row in one.select("run").distinct().collect()] == ["hybrid-1"]


def test_an_unfinished_study_is_not_loaded_but_reported(
    spark: SparkSession, tiny: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no table copies: run the study to its end"):
        load_study(f"file://{tiny}")
    files = report(str(tiny), out=tmp_path / "page.html")
    assert files.page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_directory_without_a_study_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a study directory"):
        load_study(tmp_path)
    with pytest.raises(ConfigError, match="on a shared file system, not s3a:"):
        load_study("s3a://bucket/study")


@pytest.mark.slow  # The notebook asks for advice, too.
def test_advice_on_a_table_with_names(spark: SparkSession) -> None:
    rows = []
    for n in range(12):
        second = float(n)
        rows += [
            ("shop", 2 * n, second, "send", "shop", n + 1, ["stock"]),
            ("stock", 2 * n, second + 0.01, "deliver", "shop", n + 1, None),
            ("stock", 2 * n + 1, second + 0.02, "send", "stock", n + 1, ["shop"]),
            ("shop", 2 * n + 1, second + 0.03, "deliver", "stock", n + 1, None),
        ]
    fields = "process string, seq long, time double, kind string, source string,"
    df = spark.createDataFrame(rows, f"{fields} number long, targets array<string>")
    result = advise(df, protocols=("hybrid",))
    assert result.protocol in ("hybrid", "unordered", "fifo")
    costs = result.costs.where("condition = 'on this network'").collect()
    assert {row.protocol for row in costs} == {"hybrid", "unordered", "fifo"}
    assert "24 messages to 24 targets, 2 processes" in str(result)
    assert result._repr_html_().startswith("<pre>")
    twice = df.selectExpr("*", "if(seq > 4, 'a', 'b') AS run")
    with pytest.raises(ConfigError, match="the table has 2 runs"):
        advise(twice)
