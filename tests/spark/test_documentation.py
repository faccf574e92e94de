"""The page of tables has every column of every table, with its type."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from antecede.ingest import FORMATS
from antecede.pipeline.study.measure_schema import (
    COPIES_SCHEMA,
    MEASURES_SCHEMA,
    SUMMARY_SCHEMA,
)
from antecede.pipeline.verify.runs import VERDICTS
from antecede.pipeline.verify.stream_rows import METRICS, STATUS
from antecede.spark import verify
from antecede.spark.advice import _COSTS
from antecede.trace.table import events_to_table
from antecede.verify import Property
from tests.verify.test_verifier import FIGURE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spark-tables.md"
TEXT = PAGE.read_text(encoding="utf-8").replace("&lt;", "<").replace("&gt;", ">")


def section(heading: str) -> str:
    """Return the text of a section of the page."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def rows(text: str) -> dict[str, str]:
    """Return the types of the columns in tables of a section."""
    found = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", text, re.MULTILINE)
    return {
        name: kind.strip()
        for names, kind in found
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_tables_of_a_verification_are_documented(spark: SparkSession) -> None:
    result = verify(spark.createDataFrame(events_to_table(FIGURE, "r")))
    verdicts = {each.name: each.dataType for each in result.verdicts.schema}
    documented = rows(section("Verdicts"))
    assert list(documented) == list(verdicts)
    assert documented == {name: kind.simpleString() for name, kind in verdicts.items()}
    violations = {each.name: each.dataType for each in result.violations.schema}
    message = {each.name: each.dataType for each in violations["message"]}  # type: ignore[attr-defined]
    documented = rows(section("Violations"))
    assert list(documented) == [*violations, *message]
    for name, kind in {**violations, **message}.items():
        assert kind.simpleString().startswith(documented[name].rstrip(">")), name


def test_the_statuses_and_metrics_of_streams_are_documented() -> None:
    fields = re.findall(r"(\w+): ([a-z]+(?:<[^>]*>)?)", STATUS)
    documented = rows(section("Streams").partition("| field of `status`")[2])
    assert documented == dict(fields)
    assert all(f"`{name}`" in section("Streams") for name in METRICS)


def test_the_summaries_of_a_verification_are_documented(spark: SparkSession) -> None:
    result = verify(spark.createDataFrame(events_to_table(FIGURE, "r")))
    _, pairs, timeline, paths = re.split(
        r"^`Verification\.", section("Pairs, timeline and paths"), flags=re.MULTILINE
    )
    for text, table in (
        (pairs, result.pairs),
        (timeline, result.timeline),
        (paths, result.paths),
    ):
        found = {
            each.name: each.dataType.simpleString()
            + ("" if each.nullable else ", not null")
            for each in table.schema
        }
        assert rows(text) == found


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_the_columns_of_a_data_source_are_documented(name: str) -> None:
    (chosen,) = (each for each in FORMATS if each.name == name)
    text = section("Data sources")
    common, *others = re.split(r"^(?=`antecede\.)", text, flags=re.MULTILINE)
    (own,) = (each for each in others if f"`antecede.{name}`" in each.partition(" add")[0])
    documented = {**rows(common), **rows(own)}
    schema = from_arrow_schema(chosen.schema)
    assert set(documented) == {"file", *schema.fieldNames()}
    for each in schema:
        kind = documented[each.name].removesuffix(", not null").replace(" ", "")
        assert kind == each.dataType.simpleString()


@pytest.mark.parametrize(
    "schema", [COPIES_SCHEMA, MEASURES_SCHEMA, SUMMARY_SCHEMA, VERDICTS]
)
def test_the_columns_of_a_study_are_named(schema: pa.Schema) -> None:
    named = set(re.findall(r"`(\w+)`", section("Simulations and studies")))
    properties = {f"{which.column}{end}" for which in Property for end in ("", "_count")}
    assert set(schema.names) - properties <= named


def test_the_costs_of_an_advice_are_documented() -> None:
    fields = dict(each.strip().split() for each in _COSTS.split(","))
    wanted = {name: kind.replace("long", "bigint") for name, kind in fields.items()}
    assert rows(section("Advice")) == wanted
