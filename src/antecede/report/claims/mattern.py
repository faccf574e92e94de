"""Claims of Mattern and Fünfrocken: the buffer protocol."""

from functools import partial

from antecede.report.claims.claim import Claim, Finding, unmeasured
from antecede.report.claims.conditions import reliable
from antecede.report.claims.evidence import (
    axis_value,
    control_per_copy,
    ratios,
    round_trip,
    spread,
)
from antecede.report.claims.rules import by_share, constant, immediate, judged_runs
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper="Mattern, Fünfrocken: the buffer protocol")


def _acks(tables: Tables) -> Finding:
    found = control_per_copy(tables, "buffer")
    good = sum(abs(each - 1) <= 0.001 for each in found)
    return by_share(f"{spread(found)} acks per copy" if found else "", good, len(found))


def _wait_share(tables: Tables, *, rare: bool) -> Finding:
    """Judge the wait at the sender where sends are rare, or where they follow closely."""
    values = []
    for row in tables.rows("sender_wait_mean", protocol="buffer"):
        setting = tables.setting(row)
        trip, gap = round_trip(tables, row), axis_value("gap", row, setting)
        latency = tables.other(row, "latency_mean")
        answers = str(setting["traffic"]).split(":")[0] not in ("uniform", "hotspot")
        if not trip or not latency or answers or setting["job_share"]:
            continue
        if rare and gap >= 2 * trip:
            values.append((row.mean or 0.0) / latency)
        if not rare and gap <= trip / 2:
            values.append((row.mean or 0.0) / latency)
    if not values:
        return unmeasured()
    good = sum(value <= 0.1 if rare else value >= 0.5 for value in values)
    figure = f"{spread(values, '{:.0%}')} of the latency is wait at the sender"
    return by_share(figure, good, len(values), why="Gaps vary: some sends are close.")


def _fifo_waits_less(tables: Tables) -> Finding:
    found = ratios(tables, "sender_wait_mean", "buffer-fifo", "buffer", where=reliable)
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.02 for value in values)
    figure = f"{spread(values)} times the wait" if values else ""
    return by_share(figure, good, len(values), why="What leaves earlier is acked earlier.")


def _against_matrix(tables: Tables) -> Finding:
    found = ratios(tables, "execution_time", "buffer", "matrix", where=reliable)
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.05 for value in values)
    why = (
        "A favourable comparison needs little bandwidth or rare sends; elsewhere one"
        " message per round trip is slower than any matrix."
    )
    figure = f"{spread(values)} times the execution time of matrix" if values else ""
    return by_share(figure, good, len(values), why=why, part=0.2)


def _matrix_bytes(tables: Tables) -> Finding:
    found = ratios(tables, "metadata_bytes_total", "matrix", "buffer")
    values = [row.mean or 0.0 for row in found]
    good = sum(value > 1 for value in values)
    figure = f"matrix has {spread(values, '{:,.1f}')} times the bytes" if values else ""
    why = "With few processes a matrix is smaller than the acks."
    return by_share(figure, good, len(values), why=why)


CLAIMS = (
    claim(
        id="M1",
        study="cykas-fig4",
        place="§3.3, Prop. 1",
        claim="The buffer protocol keeps causal order.",
        measured="Verdicts of the oracle",
        rule="causal order held in all runs of buffer and buffer-fifo",
        judge=partial(
            judged_runs,
            protocols=["buffer", "buffer-fifo"],
            which="causal",
            why="See the verdicts of its runs.",
        ),
    ),
    claim(
        id="M2",
        study="cykas-fig4",
        place="§3.3",
        claim="Every message is delivered in the end; nobody deadlocks.",
        measured="Verdicts of the oracle",
        rule="liveness held in all runs of buffer and buffer-fifo",
        judge=partial(judged_runs, protocols=["buffer", "buffer-fifo"], which="live"),
    ),
    claim(
        id="M3",
        study="table1",
        place="§4",
        claim="No control information travels on messages.",
        measured="Bytes beside the payload against n",
        rule="the exponent is at most 0.1: what is there names the message",
        judge=partial(constant, ["buffer"]),
    ),
    claim(
        id="M4",
        study="table1",
        place="§4.3",
        claim="The price is one acknowledgement for each message.",
        measured="Control frames per copy on a reliable network",
        rule="there is 1",
        judge=_acks,
    ),
    claim(
        id="M5",
        study="table1",
        place="§4.1, Figure 6",
        claim="Messages wait at the sender only, and are delivered as they arrive.",
        measured="Wait at the receiver on a reliable network",
        rule="there is none",
        judge=partial(immediate, ["buffer"]),
    ),
    claim(
        id="M6",
        study="table1",
        place="§4.3",
        claim="Where the acknowledgement is back before the next send, the extra delay is"
        " barely noticeable.",
        measured="Share of the latency that is wait at the sender, where the mean gap is at"
        " least 2 round trips",
        rule="it is at most 10 %",
        judge=partial(_wait_share, rare=True),
    ),
    claim(
        id="M7",
        study="table1",
        place="§4.3",
        claim="The delay matters where sends follow each other directly.",
        measured="The same where the mean gap is at most half a round trip",
        rule="it is at least 50 %",
        judge=partial(_wait_share, rare=False),
    ),
    claim(
        id="M8",
        study="table1",
        place="§4.3, footnote 4",
        claim="On FIFO channels messages wait only when the receiver changes, so less.",
        measured="Mean wait at the sender, buffer-fifo over buffer, on a reliable network",
        rule="it is at most 1.02",
        judge=_fifo_waits_less,
    ),
    claim(
        id="M9",
        study="cykas-fig4",
        place="§4.3, §5",
        claim="With respect to efficiency it compares favourably to the matrix protocol.",
        measured="Execution time, buffer over matrix, same runs on a reliable network",
        rule="it is at most 1.05 in every setting; in part in a fifth of them",
        judge=_against_matrix,
    ),
    claim(
        id="M10",
        study="table1",
        place="§5",
        claim="It scales much better than piggybacked matrices.",
        measured="All metadata bytes, acks included, matrix over buffer",
        rule="it is above 1 in every setting",
        judge=_matrix_bytes,
    ),
)
