"""What an advice looks like on a terminal, and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf

from antecede.advise.advise import Advice
from antecede.advise.recommend import Figures

__all__ = ["lines", "to_json"]

HEADER = (
    ("", "added latency, ms", "", "metadata, bytes", "", "control", "peak buffer", "",
     "too early", ""),
    ("", "p50", "p99", "a copy", "in all", "frames", "sender", "receiver", "causal",
     "FIFO"),
)  # fmt: skip
HOLES_SHOWN = 3


def lines(advice: Advice, name: str) -> Iterator[str]:
    """Yield the lines that tell of an advice on a trace of that name."""
    traffic = advice.traffic
    yield f"{name}: {traffic.messages:,} messages to {traffic.copies:,} targets," + (
        f" {traffic.processes:,} processes"
    )
    yield from _told(advice)
    figures = next(iter(advice.figures.values()))
    yield from _table(_sorted(figures))
    found = advice.recommendation
    if found is None:
        yield "no recommendation: no protocol kept causal order here"
        return
    yield found.sentence
    yield "It rests on this:"
    yield from (f"  {line}" for line in found.rests_on)
    yield "What would change it, or not:"
    yield from (f"  {line}" for line in found.changes)


def to_json(advice: Advice, name: str) -> str:
    """Return all of it as the text of a JSON object."""
    traffic, wishes = advice.traffic, advice.wishes
    found = advice.recommendation
    fields = {
        "trace": name,
        "messages": traffic.messages,
        "copies": traffic.copies,
        "processes": traffic.processes,
        "is_cut": traffic.is_cut,
        "left_out": dict(traffic.left_out),
        "holes": list(traffic.holes),
        "delay": asdict(advice.delays),
        "loss": wishes.loss,
        "bandwidth": wishes.bandwidth if wishes.bandwidth < inf else None,
        "pause_s": advice.pause_s,
        "seeds": advice.seeds,
        "protocols_left_out": list(advice.left_out),
        "broken": list(advice.broken),
        "figures": {
            network: [asdict(each) for each in figures]
            for network, figures in advice.figures.items()
        },
        "recommendation": None if found is None else asdict(found),
    }
    return json.dumps(fields, indent=2)


def _told(advice: Advice) -> Iterator[str]:
    """Yield what was replayed, and what was not."""
    traffic, wishes = advice.traffic, advice.wishes
    if traffic.is_cut:
        yield (
            "  cut: the first messages only, with all that happened before them; more"
            " with --messages-max"
        )
    for what, count in traffic.left_out.items():
        yield f"  left out: {count:,} {what}"
    for hole in traffic.holes[:HOLES_SHOWN]:
        # Where it is missing, `antecede verify` tells.
        yield f"  missing: {hole.rpartition(': ')[0] or hole}"
    if len(traffic.holes) > HOLES_SHOWN:
        yield f"  missing: {len(traffic.holes) - HOLES_SHOWN} kinds of things more"
    speed = "" if wishes.bandwidth == inf else f", {wishes.bandwidth:,.0f} bytes/s"
    yield f"  network: {advice.delays}, loss {wishes.loss:.2%}{speed}"
    if advice.pause_s is not None:
        yield (
            f"  pauses: the trace tells no times; {1e3 * advice.pause_s:.3g} ms, a usual"
            " delay, from an event of a process to its next"
        )
    if advice.seeds > 1:
        yield f"  means of {advice.seeds} runs each; too early: in all of them together"
    for note in advice.left_out:
        yield f"  not run: {note}"
    for cell in advice.broken:
        yield f"  VIOLATED: {cell}, which promises causal order; please report it"


def _sorted(figures: Sequence[Figures]) -> list[Figures]:
    """Put the baselines first, then the fastest."""
    return sorted(figures, key=lambda each: (each.causal, each.added_p99))


def _table(figures: Sequence[Figures]) -> Iterator[str]:
    rows = [*HEADER, *(_cells(each) for each in figures)]
    widths = [max(len(row[column]) for row in rows[1:]) for column in range(len(rows[1]))]
    # A heading above two columns takes the room of both.
    for column in range(1, len(widths) - 1):
        lack = len(HEADER[0][column]) - widths[column]
        if HEADER[0][column + 1] == "":
            lack -= 2 + widths[column + 1]
        widths[column] += max(0, lack)
    top = ""
    for column, text in enumerate(HEADER[0]):
        if not text and column:
            continue
        room = widths[column]
        if column and column + 1 < len(widths) and not HEADER[0][column + 1]:
            room += 2 + widths[column + 1]
        top += ("  " if column else "") + f"{text:>{room}}"
    yield top
    for row in rows[1:]:
        first, *rest = row
        told = [f"{text:>{width}}" for text, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([f"{first:{widths[0]}}", *told])


def _cells(figures: Figures) -> tuple[str, ...]:
    return (
        figures.protocol,
        f"{1e3 * figures.added_p50:.2f}",
        f"{1e3 * figures.added_p99:.2f}",
        f"{figures.metadata_bytes:.1f}",
        f"{figures.metadata_total:,.0f}",
        f"{figures.control_frames:,.0f}",
        f"{figures.sender_buffer:,.0f}",
        f"{figures.receiver_buffer:,.0f}",
        f"{figures.too_early:,}",
        f"{figures.too_early_fifo:,}",
    )
