"""Render the report's page: one HTML file that works offline."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import antecede
from antecede.report.charts.budget import BudgetFigure
from antecede.report.charts.costs import CostChart
from antecede.report.charts.figures import Figure
from antecede.report.charts.plans import MEASURE_TITLES, grid_title, unit_of
from antecede.report.charts.spec import CONFIG
from antecede.report.charts.styles import styles_of
from antecede.report.claims.claim import NO_VALUE, Claim, ClaimResult, ClaimStatus
from antecede.report.claims.complexity import complexity_tables
from antecede.report.claims.evidence import WORKLOAD_PARAMETERS
from antecede.report.comparison import (
    RANKED_MEASURES,
    Configuration,
    count_wins,
    decimals,
    winners,
)
from antecede.report.overview import (
    causal_protocols,
    count_verdicts,
    describe_verdicts,
    describe_winners,
)
from antecede.report.rendering import package_text, render_template
from antecede.report.schedule import Drawing
from antecede.report.tables import StudyTables, SummaryRow, Tables
from antecede.verify.oracle import Property

__all__ = ["Content", "render_page"]

OPEN_FIGURES = 4
"""The number of figures of a grid that are visible at first."""
TABLE_MEASURES = (
    "latency_mean",
    "latency_p99",
    "sender_wait_mean",
    "receiver_wait_mean",
    "metadata_bytes_mean",
    "control_frames",
    "throughput",
    "execution_time",
)
"""The measures in the tables of the page; the CSV files have all measures."""
NETWORK_PARAMETERS = (
    "delay",
    "bandwidth",
    "loss",
    "duplicate",
    "reorder",
    "reliable",
    "overlay",
    "budget_bytes",
    "silent_members",
)
SIGNS = {
    ClaimStatus.HOLDS: "✓",
    ClaimStatus.PARTLY: "◐",
    ClaimStatus.FAILS: "✗",
    ClaimStatus.NOT_MEASURED: NO_VALUE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a page."""

    tables: Tables
    configuration: Configuration | None
    """The configuration of the cost charts."""
    costs: Sequence[CostChart]
    budgets: Sequence[BudgetFigure]
    """The figures of `bounded` against its budget."""
    figures: Sequence[Figure]
    drawings: Sequence[Drawing]
    claim_results: Sequence[tuple[Claim, ClaimResult]]
    files_directory: str
    """The name of the directory beside the page with the figures and tables."""


def render_page(content: Content) -> str:
    """Return the page as HTML."""
    return render_template("page.html.jinja", _context(content))


def _context(content: Content) -> dict[str, Any]:
    tables = content.tables
    totals = {status.value: 0 for status in ClaimStatus}
    for _, result in content.claim_results:
        totals[result.status.value] += 1
    return {
        "title": "Which protocol for causal message delivery, and at what cost?",
        "configuration": content.configuration,
        "costs": content.costs,
        "budgets": content.budgets,
        "styles": styles_of(tables.protocols()),
        "baselines": set(tables.protocols()) - causal_protocols(),
        "ranked_measures": RANKED_MEASURES,
        "wins": _wins(tables),
        "winners": winners(tables),
        "winner_sentences": describe_winners(tables),
        "verdicts": count_verdicts(tables),
        "verdict_sentences": describe_verdicts(tables),
        "properties": [which.value for which in Property],
        "drawings": content.drawings,
        "studies": [_study(study, content.figures) for study in tables.studies],
        "papers": _papers(content.claim_results),
        "totals": totals,
        "complexities": complexity_tables(tables),
        "charts": _charts(content),
        "files_directory": content.files_directory,
        "versions": _versions(),
        "script": package_text("page.js"),
    }


def _wins(tables: Tables) -> list[dict[str, Any]]:
    """Return by protocol its wins in each ranked measure."""
    found: dict[str, dict[str, Any]] = {}
    for ranked in RANKED_MEASURES:
        for each in count_wins(tables, ranked):
            found.setdefault(each.protocol, {})[ranked.measure] = each
    return [{"protocol": name, "measures": found[name]} for name in styles_of(list(found))]


def _papers(results: Sequence[tuple[Claim, ClaimResult]]) -> list[dict[str, Any]]:
    papers: dict[str, list[dict[str, Any]]] = {}
    for claim, result in results:
        papers.setdefault(claim.paper, []).append(
            {
                "claim": claim,
                "result": result,
                "sign": SIGNS[result.status],
                "class": result.status.name.lower().replace("_", "-"),
            }
        )
    return [{"name": name, "rows": rows} for name, rows in papers.items()]


def _study(study: StudyTables, figures: Sequence[Figure]) -> dict[str, Any]:
    grids = []
    for grid in dict.fromkeys(cell.grid for cell in study.cells):
        own = [f for f in figures if f.study == study.name and f.grid == grid]
        grids.append(
            {
                "name": grid,
                "title": grid_title(study.name, grid),
                "open": own[:OPEN_FIGURES],
                "more": own[OPEN_FIGURES:],
                **_table(study, grid),
                **_parameters(study, grid),
            }
        )
    return {
        "name": study.name,
        "title": study.title,
        "command": study.command,
        "sketched": study.sketched,
        "grids": grids,
        "failed": study.failed,
        "skipped": study.skipped,
    }


def _table(study: StudyTables, grid: str) -> dict[str, Any]:
    """Return the groups of a grid as rows, with a column for each measure with values."""
    groups: dict[str, dict[str, SummaryRow]] = {}
    for row in study.summary:
        if row.grid == grid:
            groups.setdefault(row.group, {})[row.measure] = row
    measured = {
        measure
        for found in groups.values()
        for measure, row in found.items()
        if row.mean is not None
    }
    columns = [measure for measure in TABLE_MEASURES if measure in measured]
    digits = {
        measure: decimals([f[measure].mean for f in groups.values() if measure in f])
        for measure in columns
    }
    rows = []
    for found in groups.values():
        first = next(iter(found.values()))
        cells = [_table_cell(found.get(measure), digits[measure]) for measure in columns]
        rows.append({"row": first, "cells": cells})
    titles = [f"{MEASURE_TITLES[measure]} ({unit_of(measure)})" for measure in columns]
    return {"columns": titles, "rows": rows}


def _table_cell(row: SummaryRow | None, digits: int) -> dict[str, str]:
    """Return the exact value, and the mean and half of its interval as texts."""
    if row is None or row.mean is None:
        return {"value": "", "mean": NO_VALUE, "half": ""}
    half = "" if row.high is None else f"± {row.high - row.mean:,.{digits}f}"
    return {"value": repr(row.mean), "mean": f"{row.mean:,.{digits}f}", "half": half}


def _parameters(study: StudyTables, grid: str) -> dict[str, Any]:
    """Return the workloads, networks, sizes and seeds of a grid, and a command."""
    cells = [cell for cell in study.cells if cell.grid == grid]
    workloads, networks = {}, {}
    for cell in cells:
        workloads[cell.workload] = _describe(cell.parameters, WORKLOAD_PARAMETERS)
        networks[cell.network] = _describe(cell.parameters, NETWORK_PARAMETERS)
    ran = [cell for cell in cells if not cell.too_large]
    too_large = [
        f"{cell.protocol} on {cell.workload}, {cell.network}, {cell.processes} processes:"
        f" {cell.too_large}"
        for cell in cells
        if cell.too_large
    ]
    return {
        "workloads": workloads,
        "networks": networks,
        "processes": sorted({cell.processes for cell in cells}),
        "messages": sorted({cell.messages for cell in cells}),
        "seeds": sorted({cell.seed for cell in cells}),
        "runs": len(ran),
        "example": ran[0].command if ran else "",
        "too_large": list(dict.fromkeys(too_large)),
    }


def _describe(parameters: Mapping[str, Any], keys: Sequence[str]) -> str:
    words = []
    for key in keys:
        value = parameters.get(key)
        if value in (None, "", "0", 0, 0.0, False):
            continue
        name = key.replace("_", " ")
        words.append(name if value is True else f"{name} {value}")
    return ", ".join(words)


def _charts(content: Content) -> dict[str, Any]:
    """Return the chart specifications for the script, by the id of their element."""
    charts = {
        f"{figure.id}-{i}": panel.spec
        for figure in content.figures
        for i, panel in enumerate(figure.panels)
    }
    costs = {cost.id: cost.spec for cost in content.costs}
    costs |= {panel.id: panel.spec for each in content.budgets for panel in each.panels}
    return {"config": CONFIG, "charts": charts, "costs": costs}


def _versions() -> dict[str, str]:
    import vl_convert

    return {
        "antecede": antecede.__version__,
        "Python": platform.python_version(),
        "Vega": vl_convert.get_vega_version(),
        "Vega-Lite": vl_convert.get_vegalite_versions()[-1],
    }
