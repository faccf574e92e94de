"""The complexity tables of two papers, with a measured value beside each entry.

Table 1 of Almeida compares protocols that need no topology, Table 1 of Nédelec et al.
compares broadcasts. An order of growth is measured as a fitted exponent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from antecede.report.claims.claim import NO_VALUE
from antecede.report.claims.conditions import saturated
from antecede.report.claims.evidence import (
    control_per_copy,
    curves,
    format_range,
    in_round_trips,
    verdict_counts,
)
from antecede.report.tables import Tables

__all__ = ["ComplexityTable", "Entry", "complexity_tables"]

SPAN = 4.0
"""The least ratio of the largest to the smallest n of a fitted curve."""

Measured = Callable[[str, Tables], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a table: the claim and the measured value."""

    claimed: str
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTable:
    """A complexity table of a paper, with the measured values."""

    title: str
    protocols: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    """Each criterion with its entries, in the order of the protocols."""


def complexity_tables(tables: Tables) -> list[ComplexityTable]:
    """Return the tables that have at least one measured value."""
    made = [
        _table(tables, "Almeida, Table 1", ALMEIDA_PROTOCOLS, ALMEIDA),
        _table(tables, "Nédelec et al., Table 1", NEDELEC_PROTOCOLS, NEDELEC),
    ]
    return [
        table
        for table in made
        if any(entry.measured != NO_VALUE for _, row in table.rows for entry in row)
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
        return NO_VALUE
    if len(found) == 1:
        return str(found[0].fit)
    return f"n^{format_range([curve.fit.exponent for curve in found])}"


def _by_delay(protocol: str, tables: Tables) -> str:
    found = curves(tables, "throughput", protocol, along="delay", where=saturated)
    if not found:
        return NO_VALUE
    return f"delay^{format_range([curve.fit.exponent for curve in found])}"


def _non_causal(protocol: str, tables: Tables) -> str:
    found = in_round_trips(tables, "non_causal_latency_mean", protocol)
    return f"{format_range(found)} round trips" if found else NO_VALUE


def _in_transit(protocol: str, tables: Tables) -> str:
    most = []
    for measure, scope in (
        ("in_transit_source_max", "per sender"),
        ("in_transit_pair_max", "per sender and receiver"),
    ):
        found = [row.mean or 0.0 for row in tables.rows(measure, protocol=protocol)]
        if found:
            most.append(f"{max(found):.4g} {scope}")
    return f"up to {', '.join(most)}" if most else NO_VALUE


def _live(protocol: str, tables: Tables) -> str:
    counts = verdict_counts(tables, protocol, "liveness")
    verified = counts["held"] + counts["violated"]
    return f"{counts['held']} of {verified} runs" if verified else NO_VALUE


def _control(protocol: str, tables: Tables) -> str:
    found = control_per_copy(tables, protocol)
    return f"{format_range(found)} per copy" if found else NO_VALUE


ALMEIDA_PROTOCOLS = ("matrix", "optimal", "newtop", "buffer", "cykas", "hybrid")
ALMEIDA: tuple[tuple[str, Measured, tuple[str, ...]], ...] = (
    (
        "metadata per message",
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
        ("1, and n² to encode", "n²", "1", "1", "n o", "1"),
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
"""Each criterion with its measurement and the claim for each protocol. b is the number of
buffered messages, p of missing permits, u of unacked messages, i of senders to a process, o
of its receivers; r is a round trip."""

NEDELEC_PROTOCOLS = ("vector", "flood", "pc-broadcast")
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
"""As above; w is the number of held messages, p of delivered messages that are kept for a
limited time."""
