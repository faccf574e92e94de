"""Claims of Mattern and Fünfrocken on the buffer protocol."""

from functools import partial

from antecede.report.claims.claim import Claim, ClaimResult, not_measured
from antecede.report.claims.conditions import reliable
from antecede.report.claims.evidence import (
    axis_value,
    control_per_copy,
    format_range,
    ratios,
    round_trip,
)
from antecede.report.claims.rules import (
    by_share,
    constant_metadata,
    no_receiver_wait,
    property_holds,
)
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper="Mattern, Fünfrocken: the buffer protocol")


def _acks(tables: Tables) -> ClaimResult:
    found = control_per_copy(tables, "buffer")
    good = sum(abs(each - 1) <= 0.001 for each in found)
    observed = f"{format_range(found)} acks per copy" if found else ""
    return by_share(observed, good, len(found))


def _wait_share(tables: Tables, *, rare: bool) -> ClaimResult:
    """Compare the wait at the sender with the latency, for rare or for frequent sends."""
    values = []
    for row in tables.rows("sender_wait_mean", protocol="buffer"):
        parameters = tables.parameters(row)
        trip, gap = round_trip(tables, row), axis_value("gap", row, parameters)
        latency = tables.mean_of(row, "latency_mean")
        open_loop = str(parameters["traffic"]).split(":")[0] in ("uniform", "hotspot")
        if not trip or not latency or not open_loop or parameters["service_share"]:
            continue
        if gap >= 2 * trip if rare else gap <= trip / 2:
            values.append((row.mean or 0.0) / latency)
    if not values:
        return not_measured()
    good = sum(value <= 0.1 if rare else value >= 0.5 for value in values)
    observed = f"the wait at the sender is {format_range(values, '{:.0%}')} of the latency"
    explanation = "Gaps are random, so some sends are close to each other."
    return by_share(observed, good, len(values), explanation=explanation)


def _fifo_waits_less(tables: Tables) -> ClaimResult:
    found = ratios(tables, "sender_wait_mean", "buffer-fifo", "buffer", where=reliable)
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.02 for value in values)
    observed = f"{format_range(values)} times the wait" if values else ""
    explanation = "Messages that are released earlier change the order of the acks."
    return by_share(observed, good, len(values), explanation=explanation)


def _faster_than_matrix(tables: Tables) -> ClaimResult:
    found = ratios(tables, "execution_time", "buffer", "matrix", where=reliable)
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.05 for value in values)
    explanation = (
        "The buffer protocol is as fast only with little bandwidth or rare sends; otherwise"
        " one message per round trip is slower than sending a matrix."
    )
    observed = (
        f"{format_range(values)} times the execution time of matrix" if values else ""
    )
    return by_share(observed, good, len(values), explanation=explanation, partly_share=0.2)


def _matrix_bytes(tables: Tables) -> ClaimResult:
    found = ratios(tables, "metadata_bytes_total", "matrix", "buffer")
    values = [row.mean or 0.0 for row in found]
    good = sum(value > 1 for value in values)
    observed = (
        f"matrix has {format_range(values, '{:,.1f}')} times the bytes" if values else ""
    )
    explanation = "With few processes, a matrix is smaller than the acks."
    return by_share(observed, good, len(values), explanation=explanation)


CLAIMS = (
    claim(
        id="M1",
        study="cykas-fig4",
        section="§3.3, Prop. 1",
        claim="The buffer protocol preserves causal order.",
        measurement="Verdicts of the oracle",
        rule="causal order held in all runs of buffer and buffer-fifo",
        decide=partial(
            property_holds,
            protocols=["buffer", "buffer-fifo"],
            which="causal",
            explanation="See the verdicts on its runs.",
        ),
    ),
    claim(
        id="M2",
        study="cykas-fig4",
        section="§3.3",
        claim="The buffer protocol delivers every message eventually, without deadlock.",
        measurement="Verdicts of the oracle",
        rule="liveness held in all runs of buffer and buffer-fifo",
        decide=partial(
            property_holds, protocols=["buffer", "buffer-fifo"], which="liveness"
        ),
    ),
    claim(
        id="M3",
        study="table1",
        section="§4",
        claim="Messages of the buffer protocol carry no control information.",
        measurement="Metadata bytes per message against n",
        rule="the exponent is at most 0.1: the metadata only identifies the message",
        decide=partial(constant_metadata, ["buffer"]),
    ),
    claim(
        id="M4",
        study="table1",
        section="§4.3",
        claim="The buffer protocol costs one acknowledgement per message.",
        measurement="Control frames per copy on a reliable network",
        rule="there is 1",
        decide=_acks,
    ),
    claim(
        id="M5",
        study="table1",
        section="§4.1, Figure 6",
        claim="Messages of the buffer protocol wait only at the sender and are delivered on"
        " arrival.",
        measurement="Wait at the receiver on a reliable network",
        rule="there is none",
        decide=partial(no_receiver_wait, ["buffer"]),
    ),
    claim(
        id="M6",
        study="table1",
        section="§4.3",
        claim="If the acknowledgement returns before the next send, the added delay is"
        " barely noticeable.",
        measurement="Mean wait at the sender divided by the latency, if the mean gap is at"
        " least 2 round trips",
        rule="it is at most 10 %",
        decide=partial(_wait_share, rare=True),
    ),
    claim(
        id="M7",
        study="table1",
        section="§4.3",
        claim="The added delay matters if sends follow each other closely.",
        measurement="Mean wait at the sender divided by the latency, if the mean gap is at"
        " most half a round trip",
        rule="it is at least 50 %",
        decide=partial(_wait_share, rare=False),
    ),
    claim(
        id="M8",
        study="table1",
        section="§4.3, footnote 4",
        claim="On FIFO channels messages wait only when the receiver changes, so they wait"
        " less.",
        measurement="Mean wait at the sender of buffer-fifo divided by that of buffer on a"
        " reliable network",
        rule="it is at most 1.02",
        decide=_fifo_waits_less,
    ),
    claim(
        id="M9",
        study="cykas-fig4",
        section="§4.3, §5",
        claim="The buffer protocol is as efficient as the matrix protocol or better.",
        measurement="Execution time of buffer divided by that of matrix in the same"
        " configuration on a reliable network",
        rule="it is at most 1.05 in every configuration; in part in a fifth of them",
        decide=_faster_than_matrix,
    ),
    claim(
        id="M10",
        study="table1",
        section="§5",
        claim="The buffer protocol scales much better than piggybacked matrices.",
        measurement="Metadata bytes of all frames, acks included, of matrix divided by"
        " those of buffer",
        rule="it is above 1 in every configuration",
        decide=_matrix_bytes,
    ),
)
