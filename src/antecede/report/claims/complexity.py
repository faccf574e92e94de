"""The tables of complexities in two papers, each entry beside what was measured.

Table 1 of Almeida compares protocols that need no topology, Table 1 of Nédelec et al.
broadcasts. What they state as an order of growth is measured as an exponent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from antecede.report.claims.claim import NOTHING
from antecede.report.claims.conditions import pressed
from antecede.report.claims.evidence import (
    control_per_copy,
    curves,
    in_round_trips,
    spread,
    verdict_counts,
)
from antecede.report.tables import Tables

__all__ = ["ComplexityTable", "Entry", "complexity_tables"]

SPAN = 4.0
"""An exponent needs sizes that differ by at least this factor."""

Measured = Callable[[str, Tables], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a table."""

    claimed: str
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTable:
    """A table of a paper, with what was measured."""

    title: str
    protocols: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    """Each criterion with its entries, in the order of the protocols."""


def complexity_tables(tables: Tables) -> list[ComplexityTable]:
    """Return both tables, measured; those of which nothing was measured are left out."""
    made = [
        _table(tables, "Almeida, Table 1", ALMEIDA_PROTOCOLS, ALMEIDA),
        _table(tables, "Nédelec et al., Table 1", NEDELEC_PROTOCOLS, NEDELEC),
    ]
    return [
        table
        for table in made
        if any(entry.measured != NOTHING for _, row in table.rows for entry in row)
    ]


def _table(
    tables: Tables,
    title: str,
    protocols: Sequence[str],
    criteria: Sequence[tuple[str, Measured, Sequence[str]]],
) -> ComplexityTable:
    rows = []
    for criterion, measure, claims in criteria:
        entries = tuple(
            Entry(claimed=claimed, measured=measure(protocol, tables))
            for protocol, claimed in zip(protocols, claims, strict=True)
        )
        rows.append((criterion, entries))
    return ComplexityTable(title=title, protocols=tuple(protocols), rows=tuple(rows))


def _exponent(measure: str, protocol: str, tables: Tables) -> str:
    found = curves(tables, measure, protocol, span=SPAN)
    if not found:
        return NOTHING
    if len(found) == 1:
        return str(found[0].fit)
    return f"n^{spread([curve.fit.exponent for curve in found])}"


def _by_delay(protocol: str, tables: Tables) -> str:
    found = curves(tables, "throughput", protocol, along="delay", where=pressed)
    if not found:
        return NOTHING
    return f"delay^{spread([curve.fit.exponent for curve in found])}"


def _non_causal(protocol: str, tables: Tables) -> str:
    found = in_round_trips(tables, "non_causal_latency_mean", protocol)
    return f"{spread(found)} round trips" if found else NOTHING


def _in_transit(protocol: str, tables: Tables) -> str:
    most = []
    for measure, whose in (
        ("in_transit_source_max", "per sender"),
        ("in_transit_pair_max", "per receiver of it"),
    ):
        found = [row.mean or 0.0 for row in tables.rows(measure, protocol=protocol)]
        if found:
            most.append(f"{max(found):.4g} {whose}")
    return f"up to {', '.join(most)}" if most else NOTHING


def _live(protocol: str, tables: Tables) -> str:
    counts = verdict_counts(tables, protocol, "live")
    judged = counts["held"] + counts["violated"]
    return f"{counts['held']} of {judged} runs" if judged else NOTHING


def _control(protocol: str, tables: Tables) -> str:
    found = control_per_copy(tables, protocol)
    return f"{spread(found)} per copy" if found else NOTHING


ALMEIDA_PROTOCOLS = ("matrix", "optimal", "newtop", "buffer", "cykas", "hybrid")
ALMEIDA: tuple[tuple[str, Measured, tuple[str, ...]], ...] = (
    (
        "metadata of a message",
        partial(_exponent, "metadata_bytes_mean"),
        ("n²", "n²", "1", "1", "1", "1"),
    ),
    (
        "numbers kept by a process",
        partial(_exponent, "state_numbers_mean"),
        ("n² b", "n² b", "n + b", "b", "n o + b", "i + o + b + p + u"),
    ),
    (
        "computation at the sender",
        partial(_exponent, "sender_work_us"),
        ("1, and n² to write it", "n²", "1", "1", "n o", "1"),
    ),
    (
        "computation at the receiver",
        partial(_exponent, "receiver_work_us"),
        ("n²", "n²", "n", "1", "1", "1"),
    ),
    (
        "mean non-causal latency",
        _non_causal,
        ("0", "0", "unbounded", "b r", "unbounded", "r"),
    ),
    ("throughput scales", _by_delay, ("yes", "yes", "yes", "no", "no", "yes")),
    (
        "messages in transit",
        _in_transit,
        ("unlimited", "unlimited", "unlimited", "1", "1 per receiver", "unlimited"),
    ),
    ("liveness", _live, ("yes", "yes", "no, or nulls", "yes", "no", "yes")),
    (
        "control messages",
        _control,
        ("none", "none", "none, or nulls", "ack", "ack, YCT", "ack, permit"),
    ),
)
"""Each criterion, how it is measured, and the claim for each protocol. Here b messages are
buffered, p permits are missing, u messages are unacked; i and o are the senders to a
process and its receivers, and r is a round trip."""

NEDELEC_PROTOCOLS = ("vector", "flood", "preventive")
NEDELEC: tuple[tuple[str, Measured, tuple[str, ...]], ...] = (
    ("message overhead", partial(_exponent, "metadata_bytes_mean"), ("n", "1", "1")),
    (
        "local space",
        partial(_exponent, "state_numbers_mean"),
        ("n + w n", "p", "n"),
    ),
    (
        "delivery execution time",
        partial(_exponent, "receiver_work_us"),
        ("w n", "1", "1"),
    ),
)
"""The same; w messages await delivery, p delivered ones are kept for a while."""
