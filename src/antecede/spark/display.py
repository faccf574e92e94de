"""Display results in notebooks: tables as HTML, charts as Vega-Lite."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from antecede.report.charts.spec import CONFIG, Spec

__all__ = ["Chart", "table_html", "verdict_chart", "verdicts_html"]

VEGA_LITE = "application/vnd.vegalite.v6+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = {"held": "#2f9355", "violated": "#d0504a", "unknown": "#8a929c"}


class Chart:
    """A chart, which notebooks display."""

    spec: Spec
    """The Vega-Lite specification, with the data."""

    def __init__(self, spec: Spec) -> None:
        """Take a Vega-Lite specification."""
        self.spec = spec

    def svg(self) -> str:
        """Return the chart as SVG; needs the extra ``antecede[report]``."""
        from antecede.report.export import render_svg

        return render_svg(self.spec)

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, Any]:
        bundle: dict[str, Any] = {VEGA_LITE: self.spec, "text/plain": repr(self)}
        with suppress(ImportError):  # A notebook with Vega-Lite draws the chart itself.
            bundle["image/svg+xml"] = self.svg()
        return bundle


def verdict_chart(sums: Sequence[Any]) -> Chart:
    """Return a chart of the number of deliveries that held, violated, or are unknown.

    Args:
        sums: A row for each property, with the sums of the counts over all runs.
    """
    values = []
    for row in sorted(sums, key=lambda row: str(row["property"])):
        violated, unknown = row["sum(violated)"] or 0, row["sum(unknown)"] or 0
        held = (row["sum(judged)"] or 0) - violated
        values += [
            {"property": row["property"], "status": status, "deliveries": count}
            for status, count in (
                ("held", held), ("violated", violated), ("unknown", unknown),
            )
        ]  # fmt: skip
    return Chart(
        {
            "$schema": SCHEMA,
            "config": CONFIG,
            "title": "Deliveries by property",
            "width": 400,
            "data": {"values": values},
            "mark": {"type": "bar", "tooltip": True},
            "encoding": {
                "y": {"field": "property", "type": "nominal", "title": None},
                "x": {"field": "deliveries", "type": "quantitative", "stack": "normalize"},
                "color": {
                    "field": "status",
                    "scale": {"domain": list(COLOURS), "range": list(COLOURS.values())},
                },
            },
        }
    )


def verdicts_html(rows: Sequence[Any], rows_max: int) -> str:
    """Return a table with a row for each run and a column for each property."""
    shown = rows[:rows_max]
    properties = list(
        dict.fromkeys(each["property"] for row in shown for each in row["properties"])
    )
    body = []
    for row in shown:
        if row["error"] is not None:
            cells = [f"error: {row['error']}", *("" for _ in properties[1:])]
        else:
            found = {each["property"]: each for each in row["properties"]}
            cells = [_cell(found.get(name)) for name in properties]
        body.append([row["run"] or "", *cells, "; ".join(row["reasons"] or ())])
    note = "" if len(rows) <= rows_max else f"<p>The first {rows_max:,} runs.</p>"
    return table_html(["run", *properties, "reasons"], body) + note


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    status = str(found["status"])
    counts = [
        f"{found[name]:,}" if name == status else f"{found[name]:,} {name}"
        for name in ("violated", "unknown")
        if found[name]
    ]
    return f"{status} ({', '.join(counts)})" if counts else status


def table_html(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as HTML; all texts are escaped."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{line(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"
    )
