"""The page: everything about some studies in one HTML file that works offline."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import antecede
from antecede.report.charts.figures import SHOWN, Figure, grid_title, unit_of
from antecede.report.charts.spec import CONFIG
from antecede.report.charts.styles import looks
from antecede.report.claims.claim import NOTHING, Claim, Finding, Outcome
from antecede.report.claims.complexity import complexity_tables
from antecede.report.overview import (
    CONTESTS,
    causal_protocols,
    count_verdicts,
    decimals,
    standings,
    tell,
    winners,
)
from antecede.report.schedule import Drawing
from antecede.report.tables import StudyTables, SummaryRow, Tables
from antecede.verify.oracle import Property

__all__ = ["Content", "render_page"]

OPEN_FIGURES = 4
"""How many figures of a grid are open; the others wait behind a word."""
COLUMNS = (
    "latency_mean",
    "latency_p99",
    "sender_wait_mean",
    "receiver_wait_mean",
    "metadata_bytes_mean",
    "control_frames",
    "throughput",
    "execution_time",
)
"""What the page's tables show of each group; the files have everything."""
SIGNS = {
    Outcome.HOLDS: "✓",
    Outcome.PART: "◐",
    Outcome.FAILS: "✗",
    Outcome.UNMEASURED: NOTHING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a page is made from."""

    tables: Tables
    figures: Sequence[Figure]
    drawings: Sequence[Drawing]
    findings: Sequence[tuple[Claim, Finding]]
    beside: str
    """The folder beside the page."""


def render_page(content: Content) -> str:
    """Write the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("antecede.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["json"] = _json
    return environment.get_template("page.html.jinja").render(**_context(content))


def _context(content: Content) -> dict[str, Any]:
    tables = content.tables
    totals = {outcome.value: 0 for outcome in Outcome}
    for _, finding in content.findings:
        totals[finding.outcome.value] += 1
    return {
        "title": "Causal message delivery, measured",
        "version": antecede.__version__,
        "summary": tell(tables, totals),
        "looks": looks(tables.protocols()),
        "baselines": set(tables.protocols()) - causal_protocols(),
        "wins": _wins(tables),
        "winners": winners(tables),
        "contests": CONTESTS,
        "verdicts": count_verdicts(tables),
        "properties": [which.value for which in Property],
        "papers": _papers(content.findings),
        "totals": totals,
        "complexities": complexity_tables(tables),
        "drawings": content.drawings,
        "studies": [_study(study, content.figures) for study in tables.studies],
        "charts": _charts(content.figures),
        "beside": content.beside,
        "versions": _versions(),
        "style": _text("style.css"),
        "script": _text("page.js"),
        "bundle": _bundle(),
        "unit_of": unit_of,
    }


def _wins(tables: Tables) -> list[dict[str, Any]]:
    """Return, for each protocol, how it did in each contest."""
    found: dict[str, dict[str, Any]] = {}
    for contest in CONTESTS:
        for each in standings(tables, contest):
            found.setdefault(each.protocol, {})[contest.measure] = each
    return [{"protocol": name, "in": found[name]} for name in looks(list(found))]


def _papers(findings: Sequence[tuple[Claim, Finding]]) -> list[dict[str, Any]]:
    papers: dict[str, list[dict[str, Any]]] = {}
    for claim, finding in findings:
        papers.setdefault(claim.paper, []).append(
            {
                "claim": claim,
                "finding": finding,
                "sign": SIGNS[finding.outcome],
                "class": finding.outcome.name.lower(),
            }
        )
    return [{"name": name, "rows": rows} for name, rows in papers.items()]


def _study(study: StudyTables, figures: Sequence[Figure]) -> dict[str, Any]:
    grids = []
    for grid in dict.fromkeys(cell.grid for cell in study.cells):
        here = [f for f in figures if f.study == study.name and f.grid == grid]
        grids.append(
            {
                "name": grid,
                "title": grid_title(study.name, grid),
                "open": here[:OPEN_FIGURES],
                "more": here[OPEN_FIGURES:],
                **_table(study, grid),
                **_settings(study, grid),
            }
        )
    return {
        "name": study.name,
        "title": study.title,
        "command": study.command,
        "grids": grids,
        "failed": study.failed,
        "left_out": study.left_out,
        "cells": len(study.cells),
    }


def _table(study: StudyTables, grid: str) -> dict[str, Any]:
    """Return the groups of a grid as rows, one column per measure that any of them has."""
    groups: dict[str, dict[str, SummaryRow]] = {}
    for row in study.summary:
        if row.grid == grid:
            groups.setdefault(row.group, {})[row.measure] = row
    known = {
        measure
        for found in groups.values()
        for measure, row in found.items()
        if row.mean is not None
    }
    columns = [measure for measure in COLUMNS if measure in known]
    digits = {
        measure: decimals([f[measure].mean for f in groups.values() if measure in f])
        for measure in columns
    }
    rows = []
    for found in groups.values():
        first = next(iter(found.values()))
        cells = [_table_cell(found.get(measure), digits[measure]) for measure in columns]
        rows.append({"row": first, "cells": cells})
    titles = [f"{SHOWN[measure]} ({unit_of(measure)})" for measure in columns]
    return {"columns": titles, "rows": rows}


def _table_cell(row: SummaryRow | None, digits: int) -> dict[str, str]:
    """Write a figure as its column does, with half of its interval."""
    if row is None or row.mean is None:
        return {"value": "", "mean": NOTHING, "half": ""}
    half = "" if row.high is None else f"± {row.high - row.mean:,.{digits}f}"
    return {"value": repr(row.mean), "mean": f"{row.mean:,.{digits}f}", "half": half}


def _settings(study: StudyTables, grid: str) -> dict[str, Any]:
    """Return what was run: workloads, networks, sizes, seeds, and how to replay it."""
    cells = [cell for cell in study.cells if cell.grid == grid]
    workloads, networks = {}, {}
    for cell in cells:
        setting = cell.setting
        workloads[cell.workload] = _words(
            setting, ("traffic", "gap", "size", "job", "job_share")
        )
        networks[cell.network] = _words(
            setting,
            ("delay", "bandwidth", "loss", "duplicate", "reorder", "reliable", "overlay"),
        )
    ran = [cell for cell in cells if not cell.too_large]
    return {
        "workloads": workloads,
        "networks": networks,
        "sizes": sorted({cell.processes for cell in cells}),
        "messages": sorted({cell.messages for cell in cells}),
        "seeds": sorted({cell.seed for cell in cells}),
        "runs": len(ran),
        "example": ran[0].command if ran else "",
        "too_large": _too_large(study, grid),
    }


def _too_large(study: StudyTables, grid: str) -> list[str]:
    """Name what would not have fitted, once for all seeds."""
    notes = [
        f"{cell.protocol} on {cell.workload}, {cell.network}, {cell.processes} processes:"
        f" {cell.too_large}"
        for cell in study.cells
        if cell.grid == grid and cell.too_large
    ]
    return list(dict.fromkeys(notes))


def _words(setting: Mapping[str, Any], keys: Sequence[str]) -> str:
    words = []
    for key in keys:
        value = setting.get(key)
        if value in (None, "", "0", 0, 0.0, False):
            continue
        name = key.replace("_", " ")
        words.append(name if value is True else f"{name} {value}")
    return ", ".join(words)


def _charts(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what the script draws: the charts' specifications by their place."""
    charts = {
        f"{figure.id}-{i}": panel.spec
        for figure in figures
        for i, panel in enumerate(figure.panels)
    }
    return {"config": CONFIG, "charts": charts}


def _versions() -> dict[str, str]:
    import vl_convert

    return {
        "antecede": antecede.__version__,
        "Python": platform.python_version(),
        "Vega": vl_convert.get_vega_version(),
        "Vega-Lite": vl_convert.get_vegalite_versions()[-1],
    }


@cache
def _bundle() -> str:
    """Return the charting library, which a script element can hold as it is."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def _json(value: object) -> str:
    """Write JSON that a script element can hold: it has no angle brackets."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _text(name: str) -> str:
    return files("antecede.report").joinpath(name).read_text(encoding="utf-8")
