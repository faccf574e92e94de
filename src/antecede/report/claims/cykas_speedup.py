"""Claims of Tong, Liittschwager and Kuper on the speed-up of Cykas over buffer."""

from functools import partial
from statistics import StatisticsError, correlation, fmean

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.cykas import PAPER
from antecede.report.claims.evidence import axis_value, format_range, ratios
from antecede.report.claims.rules import by_share
from antecede.report.tables import Parameters, SummaryRow, Tables

__all__ = ["CLAIMS"]

UNIFORM_SPEED_UP = 1.3
"""The speed-up of Cykas over buffer without hotspots (Figure 6)."""

claim = partial(Claim, paper=PAPER)


def _speed_ups(tables: Tables, measure: str, *, jobs: bool, hot: bool) -> list[SummaryRow]:
    """Return the speed-ups of cykas over buffer, with or without jobs and hotspots."""

    def selected(row: SummaryRow, parameters: Parameters) -> bool:
        with_jobs = bool(parameters["service_share"])
        hotspot = str(parameters["traffic"]).startswith("hotspot")
        return bool(parameters["bandwidth"]) and with_jobs == jobs and hotspot == hot

    return ratios(tables, measure, "buffer", "cykas", where=selected)


def _nearly_always(tables: Tables) -> ClaimResult:
    rows = _speed_ups(tables, "execution_time", jobs=True, hot=False)
    values = [row.mean or 0.0 for row in rows]
    good = sum(value > 1 for value in values)
    if not values:
        return not_measured()
    total = len(values)
    observed = (
        f"speed-up {format_range(values)}; above 1 in {good} of {total} configurations"
    )
    if good >= 0.9 * total:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    explanation = "If sends are rare, both protocols wait for the same messages."
    return by_share(observed, good, total, explanation=explanation)


def _by_gap(tables: Tables) -> dict[float, list[tuple[float, float]]]:
    """Return by gap the job lengths and speed-ups, in the order of both."""
    found: dict[float, list[tuple[float, float]]] = {}
    for row in _speed_ups(tables, "execution_time", jobs=True, hot=False):
        parameters = tables.parameters(row)
        gap = axis_value("gap", row, parameters)
        job = axis_value("service_time", row, parameters)
        found.setdefault(gap, []).append((job, row.mean or 0.0))
    return {gap: sorted(found[gap], key=lambda point: point[0]) for gap in sorted(found)}


def _sweet_spot(tables: Tables) -> ClaimResult:
    lines = {gap: points for gap, points in _by_gap(tables).items() if len(points) >= 3}
    good, words = 0, []
    for gap, points in lines.items():
        speed_ups = [speed_up for _, speed_up in points]
        best = speed_ups.index(max(speed_ups))
        good += 0 < best < len(points) - 1
        words.append(f"{points[best][0] * 1000:g} ms at a gap of {gap * 1000:g} ms")
    explanation = "The largest speed-up is at the shortest or longest job that was run."
    observed = f"best job length {', '.join(words)}"
    return by_share(observed, good, len(lines), explanation=explanation)


def _frequent(tables: Tables) -> ClaimResult:
    means = {
        gap: fmean(speed_up for _, speed_up in points)
        for gap, points in _by_gap(tables).items()
    }
    if len(means) < 2:
        return not_measured()
    observed = ", ".join(f"{mean:.2f} at {gap * 1000:g} ms" for gap, mean in means.items())
    smallest, largest = means[min(means)], means[max(means)]
    if smallest == max(means.values()):
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    return ClaimResult(
        observed=observed,
        status=ClaimStatus.PARTLY if smallest > largest else ClaimStatus.FAILS,
        explanation="With very short gaps, the bandwidth is the bottleneck of both"
        " protocols.",
    )


def _same_trend(tables: Tables) -> ClaimResult:
    execution, start = (
        {r.group: r.mean or 0.0 for r in _speed_ups(tables, name, jobs=True, hot=False)}
        for name in ("execution_time", "job_start_mean")
    )
    groups = sorted(execution.keys() & start.keys())
    if len(groups) < 3:
        return not_measured()
    r = _correlation([execution[g] for g in groups], [start[g] for g in groups])
    observed = f"correlation {r:.2f} over {len(groups)} configurations"
    if r >= 0.8:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    return ClaimResult(
        observed=observed,
        status=ClaimStatus.PARTLY if r >= 0.4 else ClaimStatus.FAILS,
        explanation="The last delivery, not the mean job, ends a run.",
    )


def _correlation(x: list[float], y: list[float]) -> float:
    """Return Pearson's correlation, or 0 if one side is constant."""
    try:
        return correlation(x, y)
    except StatisticsError:
        return 0.0


def _hot_speed_ups(tables: Tables, *, jobs: bool) -> tuple[list[float], list[float]]:
    """Return the speed-ups without hotspots, and those with hotspots."""
    cold: list[float] = []
    hot: list[float] = []
    for row in _speed_ups(tables, "execution_time", jobs=jobs, hot=True):
        share = axis_value("hot", row, tables.parameters(row))
        (hot if share > 0 else cold).append(row.mean or 0.0)
    return cold, hot


def _uniform(tables: Tables) -> ClaimResult:
    values = [v for jobs in (False, True) for v in _hot_speed_ups(tables, jobs=jobs)[0]]
    if not values:
        return not_measured()
    good = sum(abs(value - UNIFORM_SPEED_UP) <= 0.15 for value in values)
    observed = f"speed-up {format_range(values)}"
    explanation = (
        "If the gap is as long as the round trip and frames are small, the buffer protocol"
        " keeps up; the paper does not give the size of frames."
    )
    if good < len(values) and min(values) > 1:
        explanation = f"Cykas is faster, but by another factor. {explanation}"
        return ClaimResult(
            observed=observed, status=ClaimStatus.PARTLY, explanation=explanation
        )
    return by_share(observed, good, len(values), explanation=explanation)


def _slower_when_hot(tables: Tables) -> ClaimResult:
    values = _hot_speed_ups(tables, jobs=False)[1]
    good = sum(value < 1 for value in values)
    observed = f"speed-up {format_range(values)}" if values else ""
    explanation = "Hotspots are often in secret mode, but send few messages here."
    return by_share(observed, good, len(values), explanation=explanation)


def _still_faster(tables: Tables) -> ClaimResult:
    cold, hot = _hot_speed_ups(tables, jobs=True)
    if not cold or not hot:
        return not_measured()
    good = sum(value > 1 for value in hot) + (max(hot) < min(cold))
    observed = f"speed-up {format_range(hot)} with hotspots, {format_range(cold)} without"
    explanation = "Cykas is faster, but not by less than without hotspots."
    if min(hot) <= 1:
        explanation = "The jobs at hotspots take most of the time under both protocols."
    return by_share(observed, good, len(hot) + 1, explanation=explanation)


CLAIMS = (
    claim(
        id="C4",
        study="cykas-fig5",
        section="§5.3, Figure 5",
        claim="With jobs, Cykas is nearly always faster than the buffer protocol.",
        measurement="Execution time of buffer divided by that of cykas, seed by seed",
        rule="it is above 1 in 90 % of the configurations; in part in half of them",
        decide=_nearly_always,
    ),
    claim(
        id="C5",
        study="cykas-fig5",
        section="§5.3, Figure 5",
        claim="The speed-up first rises and then falls as jobs become longer.",
        measurement="The job length with the largest speed-up, for each gap between sends",
        rule="it is neither the shortest nor the longest",
        decide=_sweet_spot,
    ),
    claim(
        id="C6",
        study="cykas-fig5",
        section="§5.3, Figure 5",
        claim="The speed-up of Cykas is larger if processes send more often.",
        measurement="Mean speed-up by gap between sends",
        rule="it is largest at the smallest gap",
        decide=_frequent,
    ),
    claim(
        id="C7",
        study="cykas-fig5",
        section="§5.3, Figure 5",
        claim="The speed-up of job starts follows that of the execution time.",
        measurement="Correlation of both speed-ups over all configurations",
        rule="it is at least 0.8; in part if it is at least 0.4",
        decide=_same_trend,
    ),
    claim(
        id="C8",
        study="cykas-fig6",
        section="§5.4, Figure 6",
        claim="Without hotspots, Cykas is about 1.3 times as fast as the buffer protocol,"
        " with and without jobs.",
        measurement="Execution time of buffer divided by that of cykas at 0 % hotspots",
        rule="it is between 1.15 and 1.45",
        decide=_uniform,
    ),
    claim(
        id="C9",
        study="cykas-fig6",
        section="§5.4, Figure 6",
        claim="With hotspots and without jobs, Cykas is slower than the buffer protocol.",
        measurement="Execution time of buffer divided by that of cykas at 5 to 20 %"
        " hotspots, without jobs",
        rule="it is below 1",
        decide=_slower_when_hot,
    ),
    claim(
        id="C10",
        study="cykas-fig6",
        section="§5.4, Figure 6",
        claim="With hotspots and jobs, Cykas is faster, by less than without hotspots.",
        measurement="Execution time of buffer divided by that of cykas at 5 to 20 %"
        " hotspots, with jobs",
        rule="it is above 1 at every share of hotspots, and below the value at 0 %",
        decide=_still_faster,
    ),
)
