"""The caller's session: it stays alive, and none of its settings changes."""

import json
import re

import pytest
from pyspark.sql import SparkSession

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.spark.jobs import described, explained
from antecede.spark import simulate, verify
from antecede.trace.table import events_to_table
from tests.verify.test_verifier import FIGURE, deliver, send

HOSTILE = "<script>alert('x')</script>"


def settings(spark: SparkSession) -> dict[str, str | None]:
    """Return all settings of a session and of its context, and its temporary views."""
    found = {row.key: row.value for row in spark.sql("SET").collect()}
    found |= dict(spark.sparkContext.getConf().getAll())
    found["description"] = spark.sparkContext.getLocalProperty("spark.job.description")
    found["views"] = str([table.name for table in spark.catalog.listTables()])
    return found


def test_the_session_is_as_before(spark: SparkSession) -> None:
    spark.sparkContext.setJobDescription("mine")
    before = settings(spark)
    try:
        result = verify(spark.createDataFrame(events_to_table(FIGURE, "r")))
        assert result.violations.count() == 1
        assert result.chart().spec["data"]["values"]
        assert "causal" in result._repr_html_()
        result.unpersist()
        assert settings(spark) == before
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert spark.range(3).count() == 3
    assert SparkSession.getActiveSession() is not None


@pytest.mark.slow
@pytest.mark.parametrize(("switch", "zone"), [("true", "Asia/Kolkata"), ("false", "UTC")])
def test_settings_of_the_session_do_not_change_results(
    spark: SparkSession, switch: str, zone: str
) -> None:
    changed = {
        "spark.sql.ansi.enabled": switch,
        "spark.sql.caseSensitive": switch,
        "spark.sql.session.timeZone": zone,
    }
    table = events_to_table(FIGURE, "r")
    expected = verify(spark.createDataFrame(table))
    other = spark.newSession()
    for key, value in changed.items():
        other.conf.set(key, value)
    found = verify(other.createDataFrame(table))
    assert sorted(found.verdicts.collect()) == sorted(expected.verdicts.collect())
    assert found.violations.collect() == expected.violations.collect()
    assert found.violations.count() == 1
    for key, value in changed.items():
        assert other.conf.get(key) == value


def test_jobs_have_a_description_while_they_run(spark: SparkSession) -> None:
    context = spark.sparkContext
    with described(spark, "antecede: try"):
        assert context.getLocalProperty("spark.job.description") == "antecede: try"
    assert context.getLocalProperty("spark.job.description") is None


def test_nothing_runs_at_the_call(spark: SparkSession) -> None:
    def fail(batches: object) -> object:
        raise AssertionError("a job started")

    df = spark.createDataFrame(events_to_table(FIGURE, "r"))
    result = verify(df.mapInArrow(fail, df.schema))  # type: ignore[arg-type]
    assert result.verdicts.columns[:3] == ["run", "property", "status"]
    with pytest.raises(Exception, match="a job started"):
        result.check()


def test_an_error_of_the_workers_is_one_line() -> None:
    missing = r"have no antecede, or another version: install this version"
    with pytest.raises(ConfigError, match=missing), explained():
        raise RuntimeError("deep\nModuleNotFoundError: No module named 'antecede'\n")
    with pytest.raises(TraceError, match="mine"), explained():
        raise TraceError("mine")
    with pytest.raises(ValueError, match="other"), explained():
        raise ValueError("other")


def test_names_are_escaped_on_the_page(spark: SparkSession) -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    df = spark.createDataFrame(events_to_table(run, HOSTILE))
    broken = spark.createDataFrame(events_to_table([send(0, 1, 1)] * 2, f"{HOSTILE}2"))
    page = verify(df.union(broken), complete=True)._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3  # Two runs, and the error of one.
    assert "<td>violated (1)</td>" in page
    cells = re.findall("<tr>(.*?)</tr>", page)
    assert "is sent twice" in cells[1]  # Errors first.


def test_a_chart_counts_the_deliveries(spark: SparkSession) -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    chart = verify(spark.createDataFrame(events_to_table(run, "r")), complete=True).chart()
    found = {
        (each["property"], each["status"]): each["deliveries"]
        for each in chart.spec["data"]["values"]
    }
    assert (found["causal", "violated"], found["causal", "held"]) == (1, 1)
    assert found["liveness", "held"] == 2
    bundle = chart._repr_mimebundle_()
    assert json.loads(json.dumps(bundle["application/vnd.vegalite.v6+json"])) == chart.spec
    assert bundle["image/svg+xml"].startswith("<svg")


def test_a_function_without_a_table_needs_a_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(ConfigError, match="no Spark session is active: pass session="):
        simulate({"protocols": ["hybrid"], "processes": [2], "seeds": 1})
