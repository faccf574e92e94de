"""The first paragraphs of the report: what was run, what held, and who won where.

A protocol wins a measure in a setting if its mean is the best of all protocols there that
promise causal order; it shares the win if the intervals overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from antecede.core.registry import protocols
from antecede.report.charts.styles import looks
from antecede.report.tables import Setting, SummaryRow, Tables, VerdictRow
from antecede.sim.overlays import promises_order
from antecede.verify.oracle import Property

__all__ = [
    "CONTESTS",
    "Contest",
    "Standing",
    "VerdictCount",
    "causal_protocols",
    "count_verdicts",
    "decimals",
    "standings",
    "tell",
    "winners",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A measure that protocols compete in."""

    measure: str
    title: str
    words: str
    """Completes "X has ... in so many settings"."""
    most: bool = False
    """Whether the largest wins; else the smallest does."""


CONTESTS = (
    Contest(measure="latency_mean", title="latency", words="the lowest mean latency"),
    Contest(
        measure="latency_p99", title="latency, p99", words="the lowest 99th percentile"
    ),
    Contest(
        measure="throughput", title="throughput", words="the highest throughput", most=True
    ),
    Contest(
        measure="metadata_bytes_total",
        title="metadata in all",
        words="the fewest bytes of metadata, control frames included",
    ),
    Contest(
        measure="metadata_bytes_mean",
        title="metadata per message",
        words="the smallest messages",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a protocol did in a contest."""

    protocol: str
    won: int
    """In how many settings it was the best, or could not be told from it."""
    entered: int
    """In how many it was run against others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCount:
    """What the oracle said of all runs of a protocol."""

    protocol: str
    causal: bool
    """Whether it promises causal order there."""
    where: str
    """Where that is, if it promises it in some of its runs only."""
    runs: int
    held: dict[str, int]
    """Of each property, in how many runs it held."""
    violated: dict[str, int]
    without: int
    """Runs without a verdict: failed, or not run."""


def causal_protocols() -> set[str]:
    """Return the protocols that promise causal order."""
    return {info.name for info in protocols() if info.capabilities.causal}


def standings(tables: Tables, contest: Contest) -> list[Standing]:
    """Return how the protocols did in a contest, the best first."""
    won: dict[str, int] = {}
    entered: dict[str, int] = {}
    for rows in _places(tables, contest):
        best = _best(rows, contest)
        for row in rows:
            entered[row.protocol] = entered.get(row.protocol, 0) + 1
            won[row.protocol] = won.get(row.protocol, 0) + _ties(row, best)
    found = [
        Standing(protocol=name, won=won[name], entered=count)
        for name, count in entered.items()
    ]
    return sorted(found, key=lambda each: (-each.won / each.entered, -each.entered))


def winners(tables: Tables) -> list[dict[str, object]]:
    """Return who wins each contest in each setting, the settings in their order."""
    places: dict[tuple[object, ...], dict[str, object]] = {}
    for contest in CONTESTS:
        for rows in _places(tables, contest):
            found = places.setdefault(rows[0].place, {"row": rows[0]})
            best = _best(rows, contest)
            found[contest.measure] = ", ".join(
                looks([row.protocol for row in rows if _ties(row, best)])
            )
    return list(places.values())


def _places(tables: Tables, contest: Contest) -> list[list[SummaryRow]]:
    """Return the settings in which protocols compete, each with its rows."""
    places: dict[tuple[object, ...], list[SummaryRow]] = {}
    for row in tables.rows(contest.measure):
        if promises_order(row.protocol, _overlay(tables.setting(row))):
            places.setdefault(row.place, []).append(row)
    return [rows for rows in places.values() if len(rows) > 1]


def _best(rows: Sequence[SummaryRow], contest: Contest) -> SummaryRow:
    return (max if contest.most else min)(rows, key=lambda row: row.mean or 0.0)


def count_verdicts(tables: Tables) -> list[VerdictCount]:
    """Count the verdicts of each protocol's runs, apart where it promises no order."""
    runs: dict[tuple[str, bool], list[VerdictRow | None]] = {}
    for study in tables.studies:
        verdicts = {verdict.run: verdict for verdict in study.verdicts}
        for cell in study.run_cells:
            kind = cell.protocol, promises_order(cell.protocol, _overlay(cell.setting))
            runs.setdefault(kind, []).append(verdicts.get(cell.cell))
    causal = causal_protocols()
    return [
        _count(
            name,
            runs[name, promised],
            causal=promised,
            where=" on links that change" if name in causal and not promised else "",
        )
        for name in looks(tables.protocols())
        for promised in (True, False)
        if (name, promised) in runs
    ]


def _overlay(setting: Setting) -> str:
    return str(setting.get("overlay") or "")


def _count(
    name: str, verdicts: Sequence[VerdictRow | None], *, causal: bool, where: str
) -> VerdictCount:
    held = {which.value: 0 for which in Property}
    violated = dict(held)
    without = 0
    for verdict in verdicts:
        if verdict is None or verdict.error is not None:
            without += 1
            continue
        for which, status in verdict.statuses.items():
            held[which] += status == "held"
            violated[which] += status == "violated"
    return VerdictCount(
        protocol=name,
        causal=causal,
        where=where,
        runs=len(verdicts),
        held=held,
        violated=violated,
        without=without,
    )


def tell(tables: Tables, claims: dict[str, int]) -> list[str]:
    """Tell the outcome in plain words, a sentence or two per paragraph."""
    counts = count_verdicts(tables)
    runs = sum(count.runs for count in counts)
    events = sum(v.events or 0 for study in tables.studies for v in study.verdicts)
    told = [
        f"{runs:,} runs of {len(tables.protocols())} protocols, with {events:,} events,"
        " were simulated and every one of them was judged from its trace.",
        _tell_verdicts([count for count in counts if count.causal]),
    ]
    told += _tell_baselines([count for count in counts if not count.causal])
    for contest in CONTESTS[:4]:
        places = standings(tables, contest)
        total = max((each.entered for each in places), default=0)
        # One that was hardly ever run against others would come first by chance.
        best = [each for each in places if each.won and each.entered * 4 >= total][:3]
        if best:
            words = [f"{each.protocol} in {each.won} of {each.entered}" for each in best]
            told.append(f"Who has {contest.words}: {_join(words)} settings.")
    measured = sum(claims.values()) - claims.get("not measured", 0)
    if measured:
        told.append(
            f"Of {sum(claims.values())} claims of the papers {measured} could be measured:"
            f" {claims.get('holds', 0)} hold, {claims.get('holds in part', 0)} hold in"
            f" part, {claims.get('does not hold', 0)} do not hold."
        )
    return told


def decimals(values: Sequence[float | None]) -> int:
    """Return how many decimals show most values of a column with three digits or more."""
    sizes = sorted(abs(value) for value in values if value)
    if not sizes:
        return 0
    small = sizes[len(sizes) // 10]
    return max(0, min(6, 2 - floor(log10(small)))) if small < 1000 else 0


def _ties(row: SummaryRow, best: SummaryRow) -> bool:
    if row.mean == best.mean:
        return True
    if row.low is None or row.high is None or best.low is None or best.high is None:
        return False
    return row.low <= best.high and best.low <= row.high


def _tell_verdicts(counts: Sequence[VerdictCount]) -> str:
    broken = [
        f"{count.protocol} ({which} in {times} of {count.runs} runs)"
        for count in counts
        for which, times in count.violated.items()
        if times
    ]
    runs = sum(count.runs for count in counts)
    without = sum(count.without for count in counts)
    after = f" {without:,} runs have no verdict." if without else ""
    if broken:
        return (
            f"Protocols that promise causal order broke a property: {_join(broken)}.{after}"
        )
    return (
        f"Of the {runs - without:,} judged runs of protocols that promise causal order none"
        f" broke it, nor any other property.{after}"
    )


def _tell_baselines(counts: Sequence[VerdictCount]) -> list[str]:
    words = [
        f"{count.protocol}{count.where} broke it in {count.violated['causal']} of"
        f" {count.runs} runs"
        for count in counts
    ]
    return [f"For comparison, without that promise {_join(words)}."] if words else []


def _join(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
