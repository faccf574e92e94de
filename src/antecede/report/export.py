"""Write figures as SVG files and tables as CSV files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from antecede.report.charts.spec import Spec
from antecede.report.claims.claim import Claim, ClaimResult
from antecede.report.tables import CellRow, StudyTables, SummaryRow, Tables
from antecede.verify.oracle import Property

__all__ = ["render_svg", "write_claims", "write_svg", "write_tables"]


def render_svg(spec: Spec) -> str:
    """Return a Vega-Lite chart as SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def write_svg(drawings: Mapping[str, str], directory: Path) -> list[Path]:
    """Write each drawing to a file that has its name."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, svg in drawings.items():
        path = directory / f"{name}.svg"
        path.write_text(svg, encoding="utf-8")
        written.append(path)
    return written


def write_tables(tables: Tables, directory: Path) -> list[Path]:
    """Write the tables of every study except its events and copies."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for study in tables.studies:
        for name, rows in _tables_of(study).items():
            path = directory / f"{study.name}-{name}.csv"
            _write_csv(path, rows)
            written.append(path)
    return written


def write_claims(results: Sequence[tuple[Claim, ClaimResult]], directory: Path) -> Path:
    """Write the table of claims."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "claims.csv"
    fields = ("id", "paper", "section", "claim", "measurement", "rule", "study")
    _write_csv(
        path,
        (
            {
                **{field: getattr(claim, field) for field in fields},
                "observed": result.observed,
                "status": result.status.value,
                "explanation": result.explanation,
            }
            for claim, result in results
        ),
    )
    return path


def _tables_of(study: StudyTables) -> dict[str, Iterable[dict[str, Any]]]:
    return {
        "cells": (
            {
                **{n: getattr(cell, n) for n in CellRow.__slots__ if n != "parameters"},
                **cell.parameters,
            }
            for cell in study.cells
        ),
        "verdicts": (
            {
                "run": verdict.run,
                **{_column(which): status for which, status in verdict.statuses.items()},
                **{f"{_column(w)}_count": count for w, count in verdict.counts.items()},
                "events": verdict.events,
                "error": verdict.error,
            }
            for verdict in study.verdicts
        ),
        "measures": (
            {"cell": cell, "measure": measure, "value": value}
            for cell, values in study.values.items()
            for measure, value in values.items()
        ),
        "summary": (
            {name: getattr(row, name) for name in SummaryRow.__slots__ if name != "study"}
            for row in study.summary
        ),
    }


def _column(which: str) -> str:
    return Property(which).column


def _write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
