"""Write study directories for tests, without Spark."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.directory import FORMAT
from antecede.pipeline.study.measure_schema import MEASURES, MEASURES_SCHEMA, SUMMARY_SCHEMA
from antecede.pipeline.study.study import parse_study
from antecede.pipeline.verify.runs import VERDICTS
from antecede.report.claims.evidence import mean_interval
from antecede.sim import Scenario, SimulationResult, simulate
from antecede.trace.event import Kind
from antecede.verify.oracle import Property

Values = Mapping[str, float | None]


def make_study(
    directory: Path, study: Mapping[str, object], *, substitutes: Mapping[str, str] = {}
) -> Path:
    """Simulate and verify a study, and write its tables.

    ``substitutes`` maps the name of a protocol to the protocol that runs under that name.
    """
    rows, verdicts, values = [], [], {}
    for cell in parse_study(study).cells:
        actual = substitutes.get(cell.scenario.protocol, cell.scenario.protocol)
        run = simulate(replace(cell.scenario, protocol=actual))
        rows.append(cell_row(cell))
        verdicts.append(verdict_row(cell.id, run))
        values[cell.id] = measure(run)
    return write_tables(directory, study, rows, verdicts, values)


def write_synthetic_study(
    directory: Path,
    study: Mapping[str, object],
    formula: Callable[[Scenario], Mapping[str, float]],
) -> Path:
    """Write the tables of a study whose measures come from a formula, without verdicts."""
    cells = parse_study(study).cells
    values = {
        cell.id: {**dict.fromkeys(MEASURES), **formula(cell.scenario)} for cell in cells
    }
    return write_tables(directory, study, [cell_row(cell) for cell in cells], [], values)


def verdict_row(cell: str, run: SimulationResult) -> dict[str, object]:
    broken = [violation.property for violation in run.verdict.violations]
    row: dict[str, object] = dict.fromkeys(VERDICTS.names)
    row.update(run=cell, path=cell, events=len(run.history), seconds=0.0)
    for which in Property:
        row[which.column] = "violated" if which in broken else "held"
        row[f"{which.column}_count"] = broken.count(which)
    return row


def measure(run: SimulationResult) -> dict[str, float | None]:
    """Return the measures that the tests of this package use."""
    outcome = run.summary
    waits = (outcome.sender_wait_s, outcome.wire_s, outcome.receiver_wait_s)
    metadata = [e.metadata_bytes or 0 for e in run.history if e.kind is Kind.RELEASE]
    return {
        **dict.fromkeys(MEASURES),
        "sender_wait_mean": waits[0],
        "wire_mean": waits[1],
        "receiver_wait_mean": waits[2],
        "latency_mean": sum(wait or 0.0 for wait in waits),
        "copies": float(outcome.copies),
        "execution_time": outcome.duration_s,
        "throughput": outcome.copies / outcome.duration_s,
        "control_frames": float(outcome.control_frames),
        "metadata_bytes_mean": sum(metadata) / len(metadata) if metadata else None,
    }


def write_tables(
    directory: Path,
    study: Mapping[str, object],
    cells: Sequence[Mapping[str, object]],
    verdicts: Sequence[Mapping[str, object]],
    values: Mapping[str, Values],
) -> Path:
    """Write the tables of a study in the layout of the pipeline."""
    directory.mkdir(parents=True, exist_ok=True)
    note = {"name": study["name"], "title": study.get("title", ""), "cells": len(cells)}
    note["format"] = FORMAT
    (directory / "study.json").write_text(json.dumps(note), encoding="utf-8")
    tidy = [
        {"cell": cell, "measure": key, "value": value}
        for cell, found in values.items()
        for key, value in found.items()
    ]
    _write(directory / "cells.parquet", cells, CELLS_SCHEMA)
    for table, rows, schema in (
        ("verdicts", verdicts, VERDICTS),
        ("measures", tidy, MEASURES_SCHEMA),
        ("summary", list(_summary(cells, values)), SUMMARY_SCHEMA),
    ):
        (directory / table).mkdir(exist_ok=True)
        _write(directory / table / "part-0.parquet", rows, schema)
    return directory


def _summary(
    cells: Sequence[Mapping[str, object]], values: Mapping[str, Values]
) -> Iterable[dict[str, object]]:
    groups: dict[object, list[Mapping[str, object]]] = {}
    for cell in cells:
        groups.setdefault(cell["group"], []).append(cell)
    keys = ("group", "grid", "protocol", "workload", "network", "processes", "messages")
    for some in groups.values():
        for name in values[str(some[0]["cell"])]:
            found = [values[str(cell["cell"])][name] for cell in some]
            known = [value for value in found if value is not None]
            empty = {"seeds": 0, "mean": None, "deviation": None, "low": None, "high": None}
            yield {
                **{key: some[0][key] for key in keys},
                "measure": name,
                **(mean_interval(known) if known else empty),
            }


def _write(path: Path, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
