"""Verification of DataFrames of messages, spans and vector clocks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.errors import ConfigError
from antecede.ingest import FORMATS
from antecede.spark import register, verify
from antecede.verify import Property
from tests.ingest.foreign_samples import (
    MS,
    SHOP_SPANS,
    START,
    LoggedEvent,
    as_tracechecker,
    changed,
    span_csv,
    verify_file,
    write_sample,
)
from tests.ingest.test_readers import FILES

START_TIME = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START // 1000)


def spans(spark: SparkSession) -> DataFrame:
    """Return the spans of the shop, with the column names and types of a user."""
    rows = [
        (
            span.trace, span.id, span.parent or "", span.process,
            f"SPAN_KIND_{(span.kind or '').upper()}",
            START_TIME + timedelta(milliseconds=span.begin),
            START_TIME + timedelta(milliseconds=span.end),
        )
        for span in SHOP_SPANS
    ]  # fmt: skip
    fields = "trace_id string, SpanId string, parent_id string, who string, kind string,"
    return spark.createDataFrame(rows, f"{fields} begun timestamp, ended timestamp")


SPAN_NAMES = {"process": "who", "start": "begun", "end": "ended"}


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_a_file_of_any_format_has_the_verdict_of_the_command(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    register(spark)
    file = write_sample(tmp_path / "file", FILES[name])
    expected = verify_file(file, tmp_path / "out")
    result = verify(spark.read.format(f"antecede.{name}").load(str(file)))
    rows = {row.property: row for row in result.check().verdicts.collect()}
    for which in Property:
        assert rows[which.value].status == expected.trace_verdict.statuses[which].value
    assert tuple(rows["causal"].reasons) == expected.trace_verdict.reasons
    assert rows["causal"].notes == [
        line.replace(f"({name})", f"({kind_of(name)})")
        for line in expected.ingested.summary.lines()
    ]
    texts = [row.text for row in result.violations.collect()]
    names = expected.ingested.written.table.names
    wanted = [
        each.format(dict(enumerate(names))) for each in expected.trace_verdict.violations
    ]
    assert texts == wanted
    has_clocks = expected.ingested.summary.clock_errors is not None
    assert ("clocks" in rows) is has_clocks


def kind_of(name: str) -> str:
    if name == "messages":
        return name
    return "clocks" if name in ("shiviz", "tracechecker") else "spans"


def test_a_violation_names_the_spans_and_the_times(spark: SparkSession) -> None:
    result = verify(spans(spark), columns=SPAN_NAMES)
    (row,) = result.violations.where("property = 'causal'").collect()
    assert (row.run, row.process) == ("table", "stöck")
    # The request of span d overtakes the request of span b.
    assert (row.message.trace, row.message.span) == ("t", "d")
    assert (row.earlier.span, [each.span for each in row.path]) == ("b", ["b", "d"])
    for message, sent, delivered in ((row.message, 20, 30), (row.earlier, 10, 50)):
        assert message.sent_time == pytest.approx((START + sent * MS) / 1e9, abs=1e-6)
        assert message.delivered_time == pytest.approx(
            (START + delivered * MS) / 1e9, abs=1e-6
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.session.timeZone", "America/St_Johns"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ],
)
def test_settings_of_the_session_do_not_change_the_result(
    spark: SparkSession, key: str, value: str
) -> None:
    session = spark.newSession()
    expected = verify(spans(spark), columns=SPAN_NAMES)
    session.conf.set(key, value)
    found = verify(spans(session), columns=SPAN_NAMES)
    assert found.verdicts.collect() == expected.verdicts.collect()
    assert found.violations.collect() == expected.violations.collect()


def test_messages_with_names_and_several_runs(spark: SparkSession) -> None:
    rows = [
        ("a", "shop", "stock", 10, 50, "first"), ("a", "shop", "stock", 20, 30, "second"),
        ("b", "shop", "stock", 10, 30, "first"), ("b", "shop", "stock", 20, 50, "second"),
    ]  # fmt: skip
    fields = (
        "day string, sender string, receiver string, sent long, received long, id string"
    )
    df = spark.createDataFrame(rows, fields)
    result = verify(df, run="day", complete=True)
    statuses = {
        row.run: row.status
        for row in result.verdicts.where("property = 'causal'").collect()
    }
    assert statuses == {"a": "violated", "b": "held"}
    (row,) = result.violations.where("property = 'causal'").collect()
    assert (row.run, row.message.name, row.earlier.name) == ("a", "second", "first")
    assert (row.message.sent_time, row.message.delivered_time) == (20, 30)


def test_inconsistent_clocks_are_a_violated_property(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    log = [LoggedEvent("a", {"a": 1}), LoggedEvent("b", {"a": 1, "b": 1})]
    log.append(LoggedEvent("b", {"a": 1, "b": 2}, "x"))
    file = write_sample(tmp_path / "log", as_tracechecker(log))
    result = verify(spark.read.format("antecede.tracechecker").load(str(file)))
    (row,) = result.verdicts.where("property = 'clocks'").collect()
    assert (row.status, row.violated, row.judged) == ("violated", 1, 3)
    assert (
        f"clocks: 1 clocks with an entry that no message explains: {file}:2 (b)"
        in row.notes
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": {"start": "begun", "end": "ended"}},
            "no column 'process', which spans need: name yours with columns={'process':",
        ),
        ({"columns": {"proces": "who"}}, "columns: 'proces' is not one of our columns"),
        ({"columns": {"process": "pad"}}, "'process' is mapped to 'pad', which the table"),
        (
            {"columns": {"clock": "who", "span": "who"}},
            "no kind of rows has all of 'clock'",
        ),
        ({"rows": "messages"}, "no column 'source', which messages need"),
        ({"rows": "novels"}, "rows must be one of events, spans, clocks, messages"),
        (
            {"columns": {**SPAN_NAMES, "duration": "who"}},
            "column 'duration' of spans has type string, expected a number",
        ),
    ],
)
def test_a_wrong_column_is_named_before_any_job(
    spark: SparkSession, options: dict[str, Any], message: str
) -> None:
    df = spans(spark).drop("ended") if "duration" in str(options) else spans(spark)
    if "duration" in str(options):
        options["columns"].pop("end")
    with pytest.raises(ConfigError) as caught:
        verify(df, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_of_something_else_says_what_is_needed(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="neither events nor messages nor spans: events"):
        verify(spark.range(3))
    df = spans(spark).withColumnRenamed("who", "process")
    with pytest.raises(ConfigError, match="several columns 'kind': rename all but one"):
        verify(
            df.select("*", F.lit("x").alias("kind")),
            columns={"start": "begun", "end": "ended"},
        )


def test_the_figures_are_those_of_the_command_also_in_a_rewritten_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Stöck delivers both requests at 50, so the order of one of them is unknown."""
    register(spark)
    in_order = changed(changed(SHOP_SPANS, "e", begin=50, end=75), "d", end=85)
    file = write_sample(tmp_path / "file", span_csv(in_order))
    verdict = verify_file(file, tmp_path / "trace")
    expected = {
        (which.value, verdict.trace_verdict.statuses[which].value,
         *verdict.trace_verdict.delivery_counts(which))
        for which in Property
    }  # fmt: skip
    assert ("causal", "unknown", 3, 0, 1) in expected
    rewritten = tmp_path / "rewritten"
    events = spark.read.parquet(str(tmp_path / "trace" / "events.parquet"))
    events.select(
        "run", "process", "seq", "kind", "source", "number", "targets"
    ).repartition(2, "seq").write.parquet(str(rewritten))
    for df in (
        spark.read.format("antecede.spancsv").load(str(file)),
        spark.read.parquet(str(rewritten)),
    ):
        columns = ("property", "status", "judged", "violated", "unknown")
        rows = verify(df, tasks=1).verdicts.select(*columns).collect()
        found = {tuple(row) for row in rows}
        assert found == expected


def test_the_times_of_a_column_have_one_unit_and_durations_are_finite(
    spark: SparkSession,
) -> None:
    """The times are milliseconds; the first one alone would be seconds."""
    second = 9_000_000_000
    rows = [
        ("shop", "stock", second - 1, second + 5),
        ("shop", "stock", second + 1, second + 6),
    ]
    df = spark.createDataFrame(
        rows, "source string, target string, sent long, received long"
    )
    (row,) = verify(df, tasks=1).verdicts.where("property = 'fifo'").collect()
    assert (row.status, row.judged) == ("held", 2)
    span = ("t", "a", None, "shop", "client", 1.0, 9.0)
    spans = spark.createDataFrame(
        [span, ("t", "b", None, "shop", "client", 2.0, float("nan"))],
        "trace string, span string, parent string, process string, kind string,"
        " start double, duration double",
    )
    (row,) = verify(spans, tasks=1).verdicts.where("property = 'fifo'").collect()
    assert row.reasons == ["1 unread: no valid duration"]
