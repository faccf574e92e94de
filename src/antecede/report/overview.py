"""Count the verdicts of all runs, and describe the results of a report in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

from antecede.core.registry import protocols
from antecede.report.charts.styles import styles_of
from antecede.report.comparison import RANKED_MEASURES, WinCount, count_wins
from antecede.report.tables import Tables, VerdictRow
from antecede.sim.overlays import promises_order
from antecede.verify.oracle import Property

__all__ = [
    "VerdictCount",
    "causal_protocols",
    "count_events",
    "count_verdicts",
    "describe_verdicts",
    "describe_winners",
    "frequent_winners",
    "join_words",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCount:
    """The verdicts on all runs of a protocol."""

    protocol: str
    promises_order: bool
    """Whether the protocol promises causal order in these runs."""
    qualifier: str
    """What distinguishes these runs, if the protocol promises order only in others."""
    runs: int
    held: dict[str, int]
    """By property, the number of runs in which it held."""
    violated: dict[str, int]
    """By property, the number of runs in which it was violated."""
    broken_runs: int
    """The number of runs in which any property was violated."""
    unknown_runs: int
    """The number of runs in which a property is unknown and none was violated: they ended
    early, or a process crashed."""
    no_verdict: int
    """The number of runs without a verdict: failed, or not run."""


def causal_protocols() -> set[str]:
    """Return the protocols that promise causal order."""
    return {info.name for info in protocols() if info.capabilities.causal}


def count_events(tables: Tables) -> int:
    """Return the number of events of all verified runs."""
    return sum(v.events or 0 for study in tables.studies for v in study.verdicts)


def count_verdicts(tables: Tables) -> list[VerdictCount]:
    """Count the verdicts by protocol and by whether it promises order in the run."""
    runs: dict[tuple[str, bool], list[VerdictRow | None]] = {}
    for study in tables.studies:
        verdicts = {verdict.run: verdict for verdict in study.verdicts}
        for cell in study.run_cells:
            overlay = str(cell.parameters.get("overlay") or "")
            key = cell.protocol, promises_order(cell.protocol, overlay)
            runs.setdefault(key, []).append(verdicts.get(cell.cell))
    causal = causal_protocols()
    return [
        _count(
            name,
            runs[name, promised],
            promised=promised,
            qualifier=" on changing links" if name in causal and not promised else "",
        )
        for name in styles_of(tables.protocols())
        for promised in (True, False)
        if (name, promised) in runs
    ]


def _count(
    name: str, verdicts: Sequence[VerdictRow | None], *, promised: bool, qualifier: str
) -> VerdictCount:
    held = {which.value: 0 for which in Property}
    violated = dict(held)
    broken_runs = unknown_runs = no_verdict = 0
    for verdict in verdicts:
        if verdict is None or verdict.error is not None:
            no_verdict += 1
            continue
        statuses = set(verdict.statuses.values())
        broken_runs += "violated" in statuses
        unknown_runs += "unknown" in statuses and "violated" not in statuses
        for which, status in verdict.statuses.items():
            held[which] += status == "held"
            violated[which] += status == "violated"
    return VerdictCount(
        protocol=name,
        promises_order=promised,
        qualifier=qualifier,
        runs=len(verdicts),
        held=held,
        violated=violated,
        broken_runs=broken_runs,
        unknown_runs=unknown_runs,
        no_verdict=no_verdict,
    )


def frequent_winners(counts: Sequence[WinCount]) -> list[WinCount]:
    """Return the winners that were compared in a quarter of the configurations or more.

    A protocol that was compared in few configurations could come first by chance.
    """
    most = max((each.comparisons for each in counts), default=0)
    return [each for each in counts if each.wins and each.comparisons * 4 >= most]


def describe_winners(tables: Tables) -> list[str]:
    """Return one sentence per ranked measure that names its most frequent winners."""
    sentences = []
    for ranked in RANKED_MEASURES:
        best = frequent_winners(count_wins(tables, ranked))[:3]
        if best:
            words = [
                f"{each.protocol} in {each.wins} of {each.comparisons}" for each in best
            ]
            sentences.append(
                f"Protocols with {ranked.superlative}: {join_words(words)} configurations."
            )
    return sentences


def describe_verdicts(tables: Tables) -> list[str]:
    """Return sentences about the number of runs and their verdicts."""
    counts = count_verdicts(tables)
    runs = sum(count.runs for count in counts)
    sentences = [
        f"The studies simulated {runs:,} runs of {len(tables.protocols())} protocols with"
        f" {count_events(tables):,} events. The oracle verified every run from its trace.",
        _describe_promises([count for count in counts if count.promises_order]),
    ]
    words = [
        f"{count.protocol}{count.qualifier} violated it in {count.violated['causal']} of"
        f" {count.runs} runs"
        for count in counts
        if not count.promises_order
    ]
    if words:
        sentences.append(f"Without a promise of causal order, {join_words(words)}.")
    return sentences


def _describe_promises(counts: Sequence[VerdictCount]) -> str:
    broken = [
        f"{count.protocol} ({which} in {times} of {count.runs} runs)"
        for count in counts
        for which, times in count.violated.items()
        if times
    ]
    no_verdict = sum(count.no_verdict for count in counts)
    verified = sum(count.runs for count in counts) - no_verdict
    unknown = sum(count.unknown_runs for count in counts)
    after = (
        f" In {unknown:,} runs that ended early, liveness is unknown." if unknown else ""
    )
    after += f" {no_verdict:,} runs have no verdict." if no_verdict else ""
    if broken:
        return (
            "Protocols that promise causal order violated a property:"
            f" {join_words(broken)}.{after}"
        )
    return (
        f"In the {verified - unknown:,} verified runs of protocols that promise causal"
        f" order, all properties held.{after}"
    )


def join_words(words: Sequence[str]) -> str:
    """Join words with commas and a final "and"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
