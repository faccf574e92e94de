"""Verification of many runs on Spark: the verdict or the error of each run alone."""

import errno
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.verify.runs import VERDICTS, balanced, verify_run, verify_runs
from antecede.pipeline.verify.traces import find_runs, verify_traces
from antecede.sim import Scenario
from antecede.trace import Event, Kind
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table_writer import RunTableWriter
from antecede.trace.table import events_to_table
from antecede.verify import Property
from antecede.verify.verifier import verify_trace
from tests.trace.tables import write_runs
from tests.verify.test_verifier import FIGURE, arbitrary_run, corrupt, send


def write(directory: Path, run: list[Event], **info: object) -> Path:
    directory.mkdir(parents=True)
    pq.write_table(events_to_table(run, directory.name), directory / "events.parquet")
    fields = {"complete": True, **info}
    about = RunInfo(run=directory.name, **fields)  # type: ignore[arg-type]
    (directory / "run.json").write_text(about.to_json())
    return directory


@pytest.mark.parametrize("tasks", [None, 1, 3, 100])
def test_verdicts_on_spark_equal_those_of_one_process(
    spark: SparkSession, tmp_path: Path, tasks: int | None
) -> None:
    paths = []
    for seed in range(20):
        random = Random(seed)
        run = arbitrary_run(random, 4, 60, 2)
        for _ in range(random.choice([0, 1, 3])):
            corrupt(random, run)
        complete = random.random() < 0.7
        paths.append(write(tmp_path / f"run-{seed}", run, complete=complete))
    rows = verify_runs(spark, paths, violations_max=3, tasks=tasks).collect()
    assert sorted(row.path for row in rows) == sorted(str(path) for path in paths)
    verified = 0
    for row in rows:
        assert row.seconds > 0
        if row.error is not None:
            with pytest.raises(TraceError) as caught:
                verify_trace(row.path)
            assert row.error == str(caught.value)
            assert row.causal is row.violations is row.messages is None
            continue
        verified += 1
        expected = verify_trace(row.path, violations_max=3)
        assert row.run == expected.run == Path(row.path).name
        for which in Property:
            assert row[which.column] == expected.statuses[which].value
            assert row[f"{which.column}_count"] == expected.counts[which]
        assert (row.messages, row.deliveries) == (expected.messages, expected.deliveries)
        assert row.events >= row.messages + row.deliveries
        assert tuple(row.reasons) == expected.reasons
        found = json.loads(row.violations)
        assert found == json.loads(expected.to_json())["violations"]
    assert verified > 14


def test_an_invalid_trace_is_a_row_with_its_error_and_the_others_continue(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = write(tmp_path / "good", FIGURE)
    absent = tmp_path / "absent"
    foreign = write(tmp_path / "foreign", FIGURE)
    (foreign / "events.parquet").write_text("no Parquet")
    no_run = write(tmp_path / "no-run", [send(0, 1, 1), send(0, 1, 1)])
    paths = [absent, foreign, good, no_run]
    rows = {Path(row.path): row for row in verify_runs(spark, paths).collect()}
    assert rows[good].error is None
    assert rows[good].causal == "violated"
    (shown,) = json.loads(rows[good].violations)
    assert shown["chain"] == ["0:1", "0:2", "1:1", "2:1"]
    assert "no such directory" in rows[absent].error
    assert "not a Parquet file" in rows[foreign].error
    assert "0:1 is sent twice" in rows[no_run].error
    assert all("\n" not in (row.error or "") for row in rows.values())


def test_spark_has_the_names_and_the_figures_of_one_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One run has names, the other one missing deliveries; a table of runs has both."""
    names = {0: "bank", 1: "shop", 2: "customer", 3: "courier"}
    run = [*FIGURE, Event(process=0, kind=Kind.MISSING, number=2)]
    with RunTableWriter(tmp_path) as table:
        for name, events in (("named", FIGURE), ("missing", run)):
            writer = table.open_run(name)
            for batch in events_to_table(events, name).to_batches():
                writer.write_batch(batch)
            writer.close(RunInfo(run=name, names=names))
        table.commit()
    runs = find_runs([tmp_path])
    found = {each.path: each.verdict for each in verify_traces(runs, master=spark)}
    assert len(found) == 2
    for path, verdict in found.items():
        assert verdict is not None
        assert verdict.to_json() == verify_trace(path).to_json()
        assert (
            '"process": "customer"' in verdict.to_json() or "courier" in verdict.to_json()
        )
        assert verdict.unverified == (2 if path.name == "missing" else 0)


def test_the_table_has_the_schema_of_verdicts(spark: SparkSession) -> None:
    table = verify_runs(spark, [])
    assert to_arrow_schema(table.schema).names == VERDICTS.names
    assert table.collect() == []
    with pytest.raises(ConfigError, match="violations_max"):
        verify_runs(spark, [], violations_max=-1)


def test_an_unexpected_exception_is_the_error_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("first line\nsecond line")

    monkeypatch.setattr("antecede.pipeline.verify.runs.verify_trace", fail)
    row = verify_run(str(write(tmp_path / "run", FIGURE)), 1)
    assert str(row["error"]).endswith("run: ValueError: first line")
    assert row["run"] == "run"


def test_a_transient_error_is_reported_after_the_last_attempt_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark runs the task again if it fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr("antecede.pipeline.verify.runs.verify_trace", fail)
    path = str(write(tmp_path / "run", FIGURE))
    with pytest.raises(OSError, match="the disk is gone"):
        verify_run(path, 1, attempts=2)
    assert str(verify_run(path, 1)["error"]).endswith("the disk is gone")


def test_groups_are_about_equal_and_none_is_empty() -> None:
    for seed in range(200):
        random = Random(seed)
        sizes = [random.choice([0, 1, 10, 1000]) for _ in range(random.randrange(60))]
        count = random.randint(1, 20)
        groups = balanced(sizes, count)
        assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
        assert len(groups) == min(count, len(sizes))
        assert all(groups)
        sums = [sum(max(1, sizes[i]) for i in group) for group in groups]
        assert sums == sorted(sums, reverse=True)
        if sums:
            # The last item joined the group with the smallest sum.
            assert sums[0] - max(1, sizes[groups[0][-1]]) <= sums[-1]
        assert all(sizes[a] >= sizes[b] for group in groups for a, b in pairwise(group))


def test_runs_of_a_table_are_verified_whole_and_in_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    scenario = Scenario(processes=4, messages=20, protocol="fifo")
    write_runs(tmp_path, {f"run-{n}": replace(scenario, seed=n) for n in (1, 2, 3)})
    runs = find_runs([tmp_path])
    assert runs == [tmp_path / "events" / f"run-{n}" for n in (1, 2, 3)]
    for paths, events_max in ((runs, 10**6), (runs, 100), (runs[1:2], 100)):
        found = list(verify_traces(paths, master=spark, local_events_max=events_max))
        assert [each.path for each in found] == paths
        for each in found:
            assert each.verdict is not None
            assert str(each.verdict) == str(verify_trace(each.path))
