"""Write figures as SVG and tables as CSV, beside the page."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from antecede.report.charts.figures import Figure
from antecede.report.claims.claim import Claim, Finding
from antecede.report.tables import StudyTables, Tables

__all__ = ["figure_svg", "write_claims", "write_svg", "write_tables"]


def figure_svg(figure: Figure) -> str:
    """Render a figure as SVG, without a browser."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(figure.sheet)
    return svg


def write_svg(figures: Mapping[str, str], directory: Path) -> list[Path]:
    """Write drawings, by their names, each to a file of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, svg in figures.items():
        path = directory / f"{name}.svg"
        path.write_text(svg, encoding="utf-8")
        written.append(path)
    return written


def write_tables(tables: Tables, directory: Path) -> list[Path]:
    """Write the tables of every study, except its events and copies."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for study in tables.studies:
        for name, rows in _tables_of(study).items():
            path = directory / f"{study.name}-{name}.csv"
            _write(path, rows)
            written.append(path)
    return written


def write_claims(findings: Sequence[tuple[Claim, Finding]], directory: Path) -> Path:
    """Write the table of claims."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "claims.csv"
    words = ("id", "paper", "place", "claim", "measured", "rule", "study")
    _write(
        path,
        (
            {
                **{word: getattr(claim, word) for word in words},
                "figure": finding.figure,
                "verdict": finding.outcome.value,
                "why": finding.why,
            }
            for claim, finding in findings
        ),
    )
    return path


def _tables_of(study: StudyTables) -> dict[str, Iterable[dict[str, Any]]]:
    return {
        "cells": (
            {**{k: v for k, v in asdict(cell).items() if k != "setting"}, **cell.setting}
            for cell in study.cells
        ),
        "verdicts": (
            {
                "run": verdict.run,
                **verdict.statuses,
                **{f"{which}_count": count for which, count in verdict.counts.items()},
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
            {key: value for key, value in asdict(row).items() if key != "study"}
            for row in study.summary
        ),
    }


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
