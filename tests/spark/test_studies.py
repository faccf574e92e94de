"""Simulations, studies and advice through the public API."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from antecede.errors import ConfigError
from antecede.pipeline.verify.traces import find_runs
from antecede.sim.simulate import Scenario, simulate_to
from antecede.spark import (
    advise,
    load_study,
    measure,
    read_traces,
    report,
    run_study,
    simulate,
    verify,
)
from antecede.spark.simulation import _read
from antecede.trace.schema import SCHEMA
from antecede.trace.store import open_store
from tests.trace.tables import write_runs

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


def test_a_study_in_a_store_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri = "s3a://key:secret@bucket/study"
    expected = (
        r"^s3a://\*\*\*@bucket/study: a study must be on a file system that all workers"
    )
    for call in (
        lambda: load_study(uri),
        lambda: run_study({"name": "a", **GRID}, uri),
        lambda: report(uri, out=tmp_path / "page.html"),
    ):
        with pytest.raises(ConfigError, match=expected) as caught:
            call()
        assert "give a path, and copy the directory to the store" in str(caught.value)
    with pytest.raises(ConfigError, match="a file: URI must not name a host"):
        load_study("file://host/study")


@pytest.mark.slow
def test_a_study_and_its_tables_have_file_uris(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "a b"
    uri = directory.as_uri()
    assert "%20" in uri
    result = run_study({"name": "uri", **GRID, "seeds": [1]}, uri)
    assert result.directory == directory
    runs = {row.cell for row in result.cells.collect()}
    assert len(list((directory / "events").iterdir())) == len(runs) == 2
    for events in (result.events, load_study(uri).events, read_traces(spark, uri)):
        assert {row.run for row in events.select("run").distinct().collect()} == runs
    page = tmp_path / "page.html"
    assert report(uri, out=page.as_uri()).page == page


def test_runs_are_simulated_to_a_directory_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lazy = simulate(GRID).events
    for out in ("a", Path("b"), (tmp_path / "c").as_uri()):
        runs = simulate(GRID, out=out)
        name = str(out)[-1]
        assert len(list((tmp_path / name / "events").iterdir())) == 2
        if name == "c":
            assert_frames_equal(runs.events, lazy)
    names = sorted(row.cell for row in runs.cells.collect())
    assert find_runs([Path("a")]) == [Path("a/events") / name for name in names]
    with pytest.raises(ConfigError, match="a already has runs: choose another directory"):
        simulate(GRID, out="a")
    failing = {"w": {"workload": "uniform", "payload_bytes": 3e9}}
    with pytest.raises(ConfigError, match="2 of 2 runs failed; ") as caught:
        simulate({**GRID, "workloads": failing}, out="d")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "d" / "events").exists()


def assert_frames_equal(one: DataFrame, other: DataFrame) -> None:
    keys = ["run", "step"]
    assert one.orderBy(keys).collect() == other.orderBy(keys).collect()


def test_runs_in_a_store_are_read_by_the_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A store on this machine that pyarrow reads, and Spark does not."""
    scenarios = {
        f"run-{seed}": Scenario(processes=3, messages=5, seed=seed) for seed in (1, 2)
    }
    write_runs(tmp_path, scenarios)
    store = replace(open_store(tmp_path), local=None, shown="test://store")
    events = _read(spark, store)
    assert_frames_equal(events, read_traces(spark, tmp_path))
    assert events.columns == SCHEMA.names


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
