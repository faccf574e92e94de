"""Compare protocols that ran the same workload on the same network.

A *configuration* is a workload, a network and a number of processes and messages. A
protocol wins a measure in a configuration if its mean is the best of all protocols that
promise causal order there. Protocols whose 95 % intervals overlap with that of the best
share the win.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from antecede.pipeline.study.measure_schema import MEASURES
from antecede.report.charts.styles import styles_of
from antecede.report.tables import SummaryRow, Tables
from antecede.sim.overlays import promises_order

__all__ = [
    "RANKED_MEASURES",
    "Configuration",
    "RankedMeasure",
    "WinCount",
    "best_rows",
    "count_wins",
    "decimals",
    "format_value",
    "main_configuration",
    "unordered_protocols",
    "winners",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMeasure:
    """A measure by which protocols are ranked."""

    measure: str
    title: str
    superlative: str
    """The object of "Protocols with ...:"."""
    largest_wins: bool = False


RANKED_MEASURES = (
    RankedMeasure(
        measure="latency_mean", title="mean latency", superlative="the lowest mean latency"
    ),
    RankedMeasure(
        measure="latency_p99",
        title="latency, 99th percentile",
        superlative="the lowest 99th percentile of latency",
    ),
    RankedMeasure(
        measure="throughput",
        title="throughput",
        superlative="the highest throughput",
        largest_wins=True,
    ),
    RankedMeasure(
        measure="metadata_bytes_mean",
        title="metadata per message",
        superlative="the least metadata per message",
    ),
    RankedMeasure(
        measure="metadata_bytes_total",
        title="metadata of all frames",
        superlative="the least metadata in all frames, control frames included",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinCount:
    """The number of configurations in which a protocol wins a measure."""

    protocol: str
    wins: int
    comparisons: int
    """The number of configurations in which it was compared with other protocols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The runs of several protocols on the same workload and network."""

    row: SummaryRow
    """Any of its rows."""
    rows: dict[str, dict[str, SummaryRow]]
    """By protocol and measure; only rows with a value."""

    @property
    def label(self) -> str:
        """Workload, network and size in words."""
        row = self.row
        return (
            f"workload {row.workload}, network {row.network}, {row.processes:,} processes"
        )


def count_wins(tables: Tables, ranked: RankedMeasure) -> list[WinCount]:
    """Count the wins of each protocol in a measure, the largest share of wins first."""
    wins: dict[str, int] = {}
    comparisons: dict[str, int] = {}
    for rows in _compared_rows(tables, ranked):
        best = _best(rows, ranked)
        for row in rows:
            comparisons[row.protocol] = comparisons.get(row.protocol, 0) + 1
            wins[row.protocol] = wins.get(row.protocol, 0) + _ties(row, best)
    counts = [
        WinCount(protocol=name, wins=wins[name], comparisons=count)
        for name, count in comparisons.items()
    ]
    return sorted(
        counts, key=lambda each: (-each.wins / each.comparisons, -each.comparisons)
    )


def winners(tables: Tables) -> list[dict[str, object]]:
    """Return one dictionary per configuration: any row, and the winners of each measure."""
    configurations: dict[tuple[object, ...], dict[str, object]] = {}
    for ranked in RANKED_MEASURES:
        for rows in _compared_rows(tables, ranked):
            entry = configurations.setdefault(rows[0].configuration, {"row": rows[0]})
            best = _best(rows, ranked)
            entry[ranked.measure] = ", ".join(
                styles_of([row.protocol for row in rows if _ties(row, best)])
            )
    return list(configurations.values())


def main_configuration(tables: Tables) -> Configuration | None:
    """Return the configuration that compares the most protocols, or None.

    Of several, the first one with the most processes is the main one. A protocol counts if
    it promises causal order and both its latency and its metadata were measured.
    """
    measured: dict[tuple[object, ...], set[str]] = {}
    for row in tables.rows("latency_mean"):
        metadata = tables.mean_of(row, "metadata_bytes_mean")
        if metadata is not None and _is_ordered(tables, row):
            measured.setdefault(row.configuration, set()).add(row.protocol)
    if not measured or max(len(names) for names in measured.values()) < 2:
        return None
    # The number of processes is the last but one part of a configuration.
    chosen = max(measured, key=lambda key: (len(measured[key]), key[-2]))
    rows: dict[str, dict[str, SummaryRow]] = {}
    for study in tables.studies:
        for row in study.summary:
            if row.configuration == chosen and row.mean is not None:
                rows.setdefault(row.protocol, {})[row.measure] = row
    first = next(iter(next(iter(rows.values())).values()))
    return Configuration(
        row=first, rows={name: rows[name] for name in styles_of(list(rows))}
    )


def best_rows(
    tables: Tables, configuration: Configuration, ranked: RankedMeasure
) -> list[SummaryRow]:
    """Return the rows of the protocols that win a measure, the best first."""
    rows = [
        measures[ranked.measure]
        for measures in configuration.rows.values()
        if ranked.measure in measures and _is_ordered(tables, measures[ranked.measure])
    ]
    if not rows:
        return []
    best = _best(rows, ranked)
    return [best, *(row for row in rows if row is not best and _ties(row, best))]


def unordered_protocols(tables: Tables, configuration: Configuration) -> set[str]:
    """Return the protocols of a configuration that do not promise causal order in it."""
    return {
        name
        for name, measures in configuration.rows.items()
        if not _is_ordered(tables, next(iter(measures.values())))
    }


def format_value(measure: str, value: float) -> str:
    """Format a value with its unit; times below one second are in milliseconds."""
    unit = MEASURES[measure].unit
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    if value < 1000:
        return f"{value:.3g} {unit}"
    return f"{value:,.0f} {unit}"


def decimals(values: Sequence[float | None]) -> int:
    """Return the decimals that most values of a column need to show three digits."""
    sizes = sorted(abs(value) for value in values if value)
    if not sizes:
        return 0
    small = sizes[len(sizes) // 10]
    return max(0, min(6, 2 - floor(log10(small)))) if small < 1000 else 0


def _is_ordered(tables: Tables, row: SummaryRow) -> bool:
    overlay = str(tables.parameters(row).get("overlay") or "")
    return promises_order(row.protocol, overlay)


def _compared_rows(tables: Tables, ranked: RankedMeasure) -> list[list[SummaryRow]]:
    """Return the rows of each configuration that compares two or more protocols."""
    configurations: dict[tuple[object, ...], list[SummaryRow]] = {}
    for row in tables.rows(ranked.measure):
        if _is_ordered(tables, row):
            configurations.setdefault(row.configuration, []).append(row)
    return [rows for rows in configurations.values() if len(rows) > 1]


def _best(rows: Sequence[SummaryRow], ranked: RankedMeasure) -> SummaryRow:
    return (max if ranked.largest_wins else min)(rows, key=lambda row: row.mean or 0.0)


def _ties(row: SummaryRow, best: SummaryRow) -> bool:
    if row.mean == best.mean:
        return True
    if row.low is None or row.high is None or best.low is None or best.high is None:
        return False
    return row.low <= best.high and best.low <= row.high
