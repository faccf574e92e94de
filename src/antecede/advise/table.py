"""Format advice as text for a terminal, and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf

from antecede.advise.advise import Advice
from antecede.advise.recommend import ProtocolCost

__all__ = ["lines", "to_json"]

HEADER = (
    ("", "added latency, ms", "", "metadata, bytes", "", "control", "peak buffer", "",
     "too early", ""),
    ("", "p50", "p99", "per copy", "in total", "frames", "sender", "receiver", "causal",
     "FIFO"),
)  # fmt: skip
MISSING_SHOWN = 3


def lines(advice: Advice, name: str) -> Iterator[str]:
    """Yield the lines of the advice on a trace of this name."""
    traffic = advice.plan.traffic
    yield (
        f"{name}: {traffic.messages:,} messages to {traffic.copies:,} targets,"
        f" {traffic.processes:,} processes"
    )
    yield from _replay_lines(advice)
    costs = next(iter(advice.costs.values()))
    # The baselines first, then the fastest.
    yield from _table(sorted(costs, key=lambda cost: (cost.causal, cost.added_p99)))
    found = advice.recommendation
    if found is None:
        yield "no recommendation: no protocol preserved causal order here"
        return
    yield found.sentence
    yield "Evidence:"
    yield from (f"  {line}" for line in found.evidence)
    yield "Sensitivity:"
    yield from (f"  {line}" for line in found.sensitivity)


def to_json(advice: Advice, name: str) -> str:
    """Return the advice as the text of a JSON object."""
    plan, found = advice.plan, advice.recommendation
    traffic, options = plan.traffic, plan.options
    fields = {
        "trace": name,
        "messages": traffic.messages,
        "copies": traffic.copies,
        "processes": traffic.processes,
        "recorded_messages": traffic.recorded_messages,
        "sampled_messages": traffic.sampled_messages,
        "windows": len(traffic.window_starts),
        "skipped": dict(traffic.skipped),
        "missing": list(traffic.missing),
        "delay": asdict(plan.delays),
        "loss": options.loss,
        "bandwidth": options.bandwidth if options.bandwidth < inf else None,
        "pause_s": plan.pause_s,
        "seeds": plan.seeds,
        "protocols_skipped": list(plan.skipped),
        "failed": list(advice.failed),
        "violated": list(advice.violated),
        "costs": {
            network: [asdict(cost) for cost in costs]
            for network, costs in advice.costs.items()
        },
        "recommendation": None if found is None else asdict(found),
    }
    return json.dumps(fields, indent=2)


def _replay_lines(advice: Advice) -> Iterator[str]:
    """Yield what was replayed, and what was not."""
    plan = advice.plan
    traffic, options = plan.traffic, plan.options
    if traffic.is_sample:
        windows = len(traffic.window_starts)
        spread = f"{windows} windows spread over the trace" if windows > 1 else "one window"
        yield (
            f"  sample: {traffic.sampled_messages:,} of {traffic.recorded_messages:,}"
            f" messages ({traffic.sampled_messages / traffic.recorded_messages:.2%}), in"
            f" {spread}; raise --messages-max for more"
        )
    for reason, count in traffic.skipped.items():
        yield f"  skipped: {count:,} {reason}"
    for missing in traffic.missing[:MISSING_SHOWN]:
        # `antecede verify` also prints the location.
        yield f"  missing: {missing.rpartition(': ')[0] or missing}"
    if len(traffic.missing) > MISSING_SHOWN:
        yield f"  missing: {len(traffic.missing) - MISSING_SHOWN} more kinds of items"
    speed = "" if options.bandwidth == inf else f", {options.bandwidth:,.0f} bytes/s"
    yield f"  network: {plan.delays}, loss {options.loss:.2%}{speed}"
    if plan.pause_s is not None:
        yield (
            f"  pauses: the trace has no times; {1e3 * plan.pause_s:.3g} ms, the median"
            " delay, between successive events of a process"
        )
    if plan.seeds > 1:
        yield f"  means of {plan.seeds} runs each; too early: the sum of all runs"
    for reason in (*plan.skipped, *advice.failed):
        yield f"  not run: {reason}"
    for cell in advice.violated:
        yield f"  VIOLATED: {cell}: the protocol guarantees causal order; please report it"


def _table(costs: Sequence[ProtocolCost]) -> Iterator[str]:
    rows = [*HEADER, *(_cells(cost) for cost in costs)]
    widths = [max(len(row[column]) for row in rows[1:]) for column in range(len(rows[1]))]
    # A heading above two columns is as wide as both.
    for column in range(1, len(widths) - 1):
        lack = len(HEADER[0][column]) - widths[column]
        if HEADER[0][column + 1] == "":
            lack -= 2 + widths[column + 1]
        widths[column] += max(0, lack)
    top = ""
    for column, text in enumerate(HEADER[0]):
        if not text and column:
            continue
        width = widths[column]
        if column and column + 1 < len(widths) and not HEADER[0][column + 1]:
            width += 2 + widths[column + 1]
        top += ("  " if column else "") + f"{text:>{width}}"
    yield top
    for first, *rest in rows[1:]:
        cells = [f"{text:>{width}}" for text, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([f"{first:{widths[0]}}", *cells])


def _cells(cost: ProtocolCost) -> tuple[str, ...]:
    return (
        cost.protocol,
        f"{1e3 * cost.added_p50:.2f}",
        f"{1e3 * cost.added_p99:.2f}",
        f"{cost.metadata_bytes:.1f}",
        f"{cost.metadata_total:,.0f}",
        f"{cost.control_frames:,.0f}",
        f"{cost.sender_buffer:,.0f}",
        f"{cost.receiver_buffer:,.0f}",
        f"{cost.too_early:,}",
        f"{cost.too_early_fifo:,}",
    )
