"""Claims of Tong, Liittschwager and Kuper: Cykas."""

from functools import partial

from antecede.report.claims.claim import Claim, Finding, Outcome, unmeasured
from antecede.report.claims.evidence import (
    axis_value,
    curves,
    fit_exponent,
    ratios,
    spread,
)
from antecede.report.claims.rules import by_share, grown, judged_runs
from antecede.report.tables import Setting, SummaryRow, Tables

__all__ = ["CLAIMS"]

PAPER = "Tong, Liittschwager, Kuper: Cykas"
CROSSOVER = 0.02
"""Processes per kB/s where the matrix protocol becomes the slowest (Figure 4)."""
UNIFORM_SPEED_UP = 1.3
"""Of Cykas over the buffer protocol without hotspots (Figure 6)."""

claim = partial(Claim, paper=PAPER)

Along = list[tuple[float, SummaryRow]]


def _bounded(row: SummaryRow, setting: Setting) -> bool:
    return (
        bool(setting["bandwidth"])
        and not setting["job_share"]
        and bool(setting["reliable"])
    )


def _ratio(tables: Tables, row: SummaryRow) -> float:
    return axis_value("ratio", row, tables.setting(row))


def _quadratic(tables: Tables) -> Finding:
    rows = tables.rows("execution_time", protocol="matrix", where=_bounded)
    points = [(_ratio(tables, row), row.mean or 0.0) for row in rows]
    points = [point for point in points if point[0] >= 0.2]
    if len(points) < 3:
        return unmeasured()
    along_all = fit_exponent(points)
    by_size = curves(tables, "execution_time", "matrix", span=2, where=_scarce)
    figure = f"ratio^{along_all.exponent:.2f} over all settings"
    if by_size:
        fitted = [curve.fit.exponent for curve in by_size]
        figure += f"; n^{spread(fitted)} at one bandwidth"
    why = (
        "Time is bytes over bandwidth: it grows with n² but only with the inverse of the"
        " bandwidth, so the ratio alone does not decide."
    )
    if 1.7 <= along_all.exponent <= 2.3:
        return Finding(figure=figure, outcome=Outcome.HOLDS)
    part = any(1.7 <= curve.fit.exponent <= 2.3 for curve in by_size)
    outcome = Outcome.PART if part else Outcome.FAILS
    return Finding(figure=figure, outcome=outcome, why=why)


def _scarce(row: SummaryRow, setting: Setting) -> bool:
    return _bounded(row, setting) and axis_value("bandwidth", row, setting) <= 100_000


def _crossover(tables: Tables) -> Finding:
    compared: dict[object, list[SummaryRow]] = {}
    for other in ("buffer", "cykas"):
        for row in ratios(tables, "execution_time", "matrix", other, where=_bounded):
            compared.setdefault(row.place, []).append(row)
    slower: list[float] = []
    faster: list[float] = []
    for rows in compared.values():
        if len(rows) == 2:
            slow = all((row.mean or 0.0) > 1 for row in rows)
            (slower if slow else faster).append(_ratio(tables, rows[0]))
    if not slower or not faster:
        return unmeasured()
    low, high = min(slower), max(faster)
    figure = f"matrix is slower from {low:g}, faster up to {high:g} processes per kB/s"
    middle = (low * high) ** 0.5
    why = (
        "Our matrix takes one byte per small count, and our buffer and Cykas have frames"
        " of a few bytes; the paper calls its own figure illustrative."
    )
    if CROSSOVER / 2 <= middle <= CROSSOVER * 2:
        return Finding(figure=figure, outcome=Outcome.HOLDS)
    near = CROSSOVER / 10 <= middle <= CROSSOVER * 10
    return Finding(figure=figure, outcome=Outcome.PART if near else Outcome.FAILS, why=why)


def _speed_ups(tables: Tables, measure: str, *, jobs: bool, hot: bool) -> list[SummaryRow]:
    """Return the speed-ups of Cykas over the buffer protocol, in the paper's settings."""

    def fits(row: SummaryRow, setting: Setting) -> bool:
        with_jobs = bool(setting["job_share"])
        hotspot = str(setting["traffic"]).startswith("hotspot")
        return bool(setting["bandwidth"]) and with_jobs == jobs and hotspot == hot

    return ratios(tables, measure, "buffer", "cykas", where=fits)


def _nearly_always(tables: Tables) -> Finding:
    values = [
        r.mean or 0.0 for r in _speed_ups(tables, "execution_time", jobs=True, hot=False)
    ]
    if not values:
        return unmeasured()
    good = sum(value > 1 for value in values)
    figure = f"speed-up {spread(values)}; above 1 in {good} of {len(values)} settings"
    share = good / len(values)
    why = "Where sends are rare, both protocols wait for the same messages and are equal."
    outcome = (
        Outcome.HOLDS if share >= 0.9 else Outcome.PART if share >= 0.5 else Outcome.FAILS
    )
    return Finding(figure=figure, outcome=outcome, why="" if share >= 0.9 else why)


def _by_gap(tables: Tables, measure: str) -> dict[float, Along]:
    found: dict[float, Along] = {}
    for row in _speed_ups(tables, measure, jobs=True, hot=False):
        setting = tables.setting(row)
        gap, job = axis_value("gap", row, setting), axis_value("job", row, setting)
        found.setdefault(gap, []).append((job, row))
    for points in found.values():
        points.sort(key=lambda point: point[0])
    return found


def _sweet_spot(tables: Tables) -> Finding:
    lines = {g: p for g, p in _by_gap(tables, "execution_time").items() if len(p) >= 3}
    if not lines:
        return unmeasured()
    good, words = 0, []
    for gap, points in sorted(lines.items()):
        means = [row.mean or 0.0 for _, row in points]
        best = means.index(max(means))
        good += 0 < best < len(means) - 1
        words.append(f"{points[best][0] * 1000:g} ms at a gap of {gap * 1000:g} ms")
    why = "The peak lies at an end of what was tried, or the line is flat."
    return by_share(f"best job length {', '.join(words)}", good, len(lines), why=why)


def _frequent(tables: Tables) -> Finding:
    lines = _by_gap(tables, "execution_time")
    if len(lines) < 2:
        return unmeasured()
    means = {
        gap: sum(row.mean or 0.0 for _, row in points) / len(points)
        for gap, points in sorted(lines.items())
    }
    best = max(means, key=lambda gap: means[gap])
    figure = ", ".join(f"{mean:.2f} at {gap * 1000:g} ms" for gap, mean in means.items())
    outcome = Outcome.HOLDS if best == min(means) else Outcome.FAILS
    why = "With sends very close to each other the wire, not the protocol, is what is full."
    if outcome is Outcome.FAILS and means[min(means)] > means[max(means)]:
        outcome = Outcome.PART
    return Finding(figure=figure, outcome=outcome, why="" if best == min(means) else why)


def _same_trend(tables: Tables) -> Finding:
    first = {r.group: r for r in _speed_ups(tables, "execution_time", jobs=True, hot=False)}
    second = {
        row.group: row for row in _speed_ups(tables, "job_start_mean", jobs=True, hot=False)
    }
    pairs = [
        (first[group].mean or 0.0, second[group].mean or 0.0)
        for group in first.keys() & second.keys()
    ]
    if len(pairs) < 3:
        return unmeasured()
    r = _correlation(pairs)
    outcome = Outcome.HOLDS if r >= 0.8 else Outcome.PART if r >= 0.4 else Outcome.FAILS
    why = "The last delivery, not the mean job, ends a run."
    figure = f"correlation {r:.2f} over {len(pairs)} settings"
    return Finding(figure=figure, outcome=outcome, why="" if r >= 0.8 else why)


def _correlation(pairs: list[tuple[float, float]]) -> float:
    """Return Pearson's correlation; 0 where one side does not vary."""
    n = len(pairs)
    mean_x, mean_y = (sum(p[i] for p in pairs) / n for i in (0, 1))
    xx = sum((x - mean_x) ** 2 for x, _ in pairs)
    yy = sum((y - mean_y) ** 2 for _, y in pairs)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    return float(xy / (xx * yy) ** 0.5) if xx and yy else 0.0


def _hot_speed_ups(tables: Tables, *, jobs: bool) -> tuple[list[float], list[float]]:
    """Return the speed-ups without hotspots, and with."""
    rows = _speed_ups(tables, "execution_time", jobs=jobs, hot=True)
    cold: list[float] = []
    hot: list[float] = []
    for row in rows:
        share = axis_value("hot", row, tables.setting(row))
        (hot if share > 0 else cold).append(row.mean or 0.0)
    return cold, hot


def _uniform(tables: Tables) -> Finding:
    values = [v for jobs in (False, True) for v in _hot_speed_ups(tables, jobs=jobs)[0]]
    good = sum(abs(value - UNIFORM_SPEED_UP) <= 0.15 for value in values)
    why = (
        "With a gap as long as the round trip, the buffer protocol keeps up while frames"
        " are small; the paper does not say how large they are."
    )
    if not values:
        return unmeasured()
    if good < len(values) and min(values) > 1:
        why = "Cykas is ahead, by another margin. " + why
        return Finding(figure=f"speed-up {spread(values)}", outcome=Outcome.PART, why=why)
    return by_share(f"speed-up {spread(values)}", good, len(values), why=why)


def _slower_when_hot(tables: Tables) -> Finding:
    values = _hot_speed_ups(tables, jobs=False)[1]
    good = sum(value < 1 for value in values)
    figure = f"speed-up {spread(values)}" if values else ""
    why = "Hotspots are in secret mode often, but here they have little else to send."
    return by_share(figure, good, len(values), why=why)


def _still_ahead(tables: Tables) -> Finding:
    cold, hot = _hot_speed_ups(tables, jobs=True)
    if not cold or not hot:
        return unmeasured()
    good = sum(value > 1 for value in hot) + (max(hot) < min(cold))
    figure = f"speed-up {spread(hot)} with hotspots, {spread(cold)} without"
    why = "It is ahead, but by no less than without hotspots."
    if min(hot) <= 1:
        why = "Jobs at hotspots take longer than all messages, and the same under both."
    return by_share(figure, good, len(hot) + 1, why=why)


def _few_bytes(tables: Tables) -> Finding:
    rows = [
        row
        for name in ("buffer", "cykas")
        for row in tables.rows(
            "metadata_bytes_mean", protocol=name, where=lambda _, s: bool(s["reliable"])
        )
    ]
    values = [row.mean or 0.0 for row in rows]
    good = sum(value <= 8 for value in values)
    figure = f"{spread(values, '{:.1f}')} bytes: kind, number, length" if values else ""
    return by_share(figure, good, len(values))


def _deliveries(which: str, tables: Tables) -> Finding:
    return judged_runs(tables, ["cykas"], which, why="See the verdicts of its runs.")


def _sender_side_scales(tables: Tables) -> Finding:
    found = [
        curve
        for name in ("buffer", "cykas")
        for curve in curves(tables, "execution_time", name, span=2, where=_bounded)
    ]
    return grown(found, -0.5, 0.3, why="More processes have more to wait for at the end.")


CLAIMS = (
    claim(
        id="C1",
        study="cykas-fig4",
        place="§5.2, Figure 4",
        claim="The execution time of the matrix protocol grows with the square of the"
        " processes-to-bandwidth ratio.",
        measured="Execution time against the ratio, from 0.2 on; and against n at 100 kB/s"
        " or less",
        rule="the exponent is between 1.7 and 2.3 over the ratio; in part if over n",
        judge=_quadratic,
    ),
    claim(
        id="C2",
        study="cykas-fig4",
        place="§5.2, Figure 4",
        claim="The matrix protocol becomes slower than both sender-side protocols at about"
        " 0.02 processes per kB/s.",
        measured="The middle between the least ratio where it is slower and the largest"
        " where it is faster",
        rule="it is within a factor of 2 of 0.02; in part within 10",
        judge=_crossover,
    ),
    claim(
        id="C3",
        study="cykas-fig4",
        place="§5.2",
        claim="Sender-side protocols scale: their execution time hardly depends on n.",
        measured="Execution time of buffer and cykas against n at one bandwidth",
        rule="the exponent is at most 0.3",
        judge=_sender_side_scales,
    ),
    claim(
        id="C4",
        study="cykas-fig5",
        place="§5.3, Figure 5",
        claim="With jobs, Cykas is nearly always faster than the buffer protocol.",
        measured="Execution time of buffer over that of cykas, seed by seed",
        rule="it is above 1 in 90 % of the settings; in part in half of them",
        judge=_nearly_always,
    ),
    claim(
        id="C5",
        study="cykas-fig5",
        place="§5.3, Figure 5",
        claim="There is a sweet spot: with longer jobs the speed-up rises, then falls.",
        measured="The job length with the largest speed-up, for each gap between sends",
        rule="it is neither the shortest nor the longest",
        judge=_sweet_spot,
    ),
    claim(
        id="C6",
        study="cykas-fig5",
        place="§5.3, Figure 5",
        claim="The more frequent the communication, the larger the advantage of Cykas.",
        measured="Mean speed-up by gap between sends",
        rule="it is largest at the smallest gap",
        judge=_frequent,
    ),
    claim(
        id="C7",
        study="cykas-fig5",
        place="§5.3, Figure 5",
        claim="The speed-up of the start of jobs follows that of the execution time.",
        measured="Correlation of the two over all settings",
        rule="it is at least 0.8; in part 0.4",
        judge=_same_trend,
    ),
    claim(
        id="C8",
        study="cykas-fig6",
        place="§5.4, Figure 6",
        claim="Without hotspots Cykas is about 1.3 times as fast, with and without jobs.",
        measured="Execution time of buffer over that of cykas at 0 % hotspots",
        rule="it is between 1.15 and 1.45",
        judge=_uniform,
    ),
    claim(
        id="C9",
        study="cykas-fig6",
        place="§5.4, Figure 6",
        claim="With hotspots and no jobs Cykas is slower than the buffer protocol.",
        measured="The same at 5 to 20 % hotspots",
        rule="it is below 1",
        judge=_slower_when_hot,
    ),
    claim(
        id="C10",
        study="cykas-fig6",
        place="§5.4, Figure 6",
        claim="With hotspots and jobs Cykas stays ahead, by less than without hotspots.",
        measured="The same with jobs",
        rule="it is above 1 at every share of hotspots and below that of none",
        judge=_still_ahead,
    ),
    claim(
        id="C11",
        study="cykas-fig4",
        place="§1, §5.2",
        claim="Sender-side protocols put no causal metadata on messages.",
        measured="Bytes beside the payload of buffer and cykas on a reliable network",
        rule="there are at most 8, which name the message",
        judge=_few_bytes,
    ),
    claim(
        id="C12",
        study="cykas-fig4",
        place="§3.1, Prop. 3.1",
        claim="Cykas keeps causal order.",
        measured="Verdicts of the oracle",
        rule="causal order held in all runs",
        judge=partial(_deliveries, "causal"),
    ),
    claim(
        id="C13",
        study="cykas-fig4",
        place="§3.2, Prop. 3.2",
        claim="Every message of Cykas is delivered in the end.",
        measured="Verdicts of the oracle",
        rule="liveness held in all runs",
        judge=partial(_deliveries, "live"),
    ),
)
