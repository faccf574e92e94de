"""The figures show every row of the summary, and nothing else."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from antecede.report import ReportFiles
from antecede.report.charts.figures import Figure, make_figures
from antecede.report.charts.styles import STYLES, styles_of
from antecede.report.tables import SummaryRow, Tables

Mark = tuple[str, float, float | None, float | None, int, str]


@pytest.fixture(scope="module")
def figures(tables: Tables) -> list[Figure]:
    return make_figures(tables)


def marks_of(figure: Figure) -> list[Mark]:
    return [
        (p.protocol, p.mean, p.low, p.high, p.seeds, p.group)
        for panel in figure.panels
        for p in panel.points
    ]


def marks_in(values: Iterable[Mapping[str, Any]]) -> list[Mark]:
    return [
        (v["protocol"], v["mean"], v["low"], v["high"], v["seeds"], v["group"])
        for v in values
    ]


def wanted(figure: Figure, rows: Iterable[SummaryRow]) -> list[Mark]:
    return [
        (row.protocol, row.mean, row.low, row.high, row.seeds, row.group)
        for row in rows
        if row.measure == figure.measure
        and row.grid == figure.grid
        and row.mean is not None
    ]


def same(figure: Figure, tables: Tables) -> bool:
    rows = [row for study in tables.studies for row in study.summary]
    return sorted(map(str, marks_of(figure))) == sorted(map(str, wanted(figure, rows)))


def test_the_marks_of_a_figure_are_the_rows_of_the_summary(
    figures: list[Figure], tables: Tables
) -> None:
    assert len(figures) >= 6
    for figure in figures:
        assert same(figure, tables), figure.id


def test_a_lost_or_changed_mark_is_detected(figures: list[Figure], tables: Tables) -> None:
    figure = figures[0]
    panel = figure.panels[0]
    fewer = replace(figure, panels=(replace(panel, points=panel.points[1:]),))
    assert not same(fewer, tables)
    first = replace(panel.points[0], mean=panel.points[0].mean * 1.001)
    wrong = replace(panel, points=(first, *panel.points[1:]))
    assert not same(replace(figure, panels=(wrong, *figure.panels[1:])), tables)


def test_the_charts_in_the_page_have_the_same_marks(
    figures: list[Figure], report: ReportFiles
) -> None:
    page = report.page.read_text(encoding="utf-8")
    found = re.search(r'id="charts-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    charts = json.loads(found[1])["charts"]
    assert len(charts) == sum(len(figure.panels) for figure in figures)
    for figure in figures:
        drawn = [
            mark
            for i in range(len(figure.panels))
            for mark in marks_in(charts[f"{figure.id}-{i}"]["data"]["values"])
        ]
        assert drawn == marks_of(figure), figure.id


def test_the_sheets_have_the_same_marks(figures: list[Figure]) -> None:
    for figure in figures:
        drawn = [m for p in figure.sheet["concat"] for m in marks_in(p["data"]["values"])]
        assert drawn == marks_of(figure), figure.id


def test_every_mark_is_drawn_in_the_svg(figures: list[Figure], report: ReportFiles) -> None:
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in report.figures}
    for figure in figures:
        svg = drawn[figure.id]
        shapes = svg.count('aria-roledescription="point"')
        shown = [m for m in marks_of(figure) if m[1] > 0 or not figure.log]
        assert shapes == len(shown), figure.id


def test_charts_are_labelled_by_the_parameters_beside_the_axis(
    figures: list[Figure],
) -> None:
    latency = next(figure for figure in figures if figure.measure == "latency_mean")
    assert latency.axis.name == "processes"
    assert [panel.label for panel in latency.panels] == ["even", "rough"]


def test_every_protocol_has_a_unique_shape_dash_and_colour() -> None:
    styles = list(styles_of(list(STYLES)).values())
    assert len({style.shape for style in styles}) == len(styles)
    assert len({style.dash for style in styles}) == len(styles)
    assert len({style.colour for style in styles}) == len(styles)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as defined by the WCAG."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ground", ["#fdfdfc", "#14171c"])
def test_every_colour_has_contrast_to_light_and_dark(ground: str) -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    faint = {
        name: round(contrast(style.colour, ground), 2)
        for name, style in styles_of(list(STYLES)).items()
        if contrast(style.colour, ground) < 3
    }
    assert faint == {}


def test_every_registered_protocol_has_a_style() -> None:
    from antecede.core.registry import protocols

    assert [info.name for info in protocols()] == list(STYLES)
