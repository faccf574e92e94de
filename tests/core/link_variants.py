"""The link layer as it is, and copies of it in which one thing is broken.

A copy is made of the modules' source text, so it is interpreted and can be changed even
where the package itself is compiled.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from antecede.core.link import LinkAck, Linked, Segment
from antecede.core.protocols.baseline import Plain
from antecede.core.protocols.buffer import Buffer, BufferFifo
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import PeerError

__all__ = ["MUTANTS", "ORIGINAL", "Variant", "copied"]

SOURCE = Path(__file__).parent.parent.parent / "src" / "antecede"
MODULES = (
    "errors",
    "core.codec",
    "core.process",
    "core.support.retransmission",
    "core.support.sliding",
    "core.protocols.baseline",
    "core.protocols.buffer",
    "core.link",
)
"""What the link layer and the protocols on top of it need, imported ones first."""

_serial = count(1)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A link layer, and protocols to put on top of it."""

    linked: Callable[..., Any]
    """Makes a process with links, of a bare one and whether they are FIFO."""
    plain: Callable[..., Any]
    """Makes a bare process that delivers what arrives, and answers nothing."""
    buffer: Callable[..., Any]
    """Makes a bare process that answers every message, on unordered links."""
    buffer_fifo: Callable[..., Any]
    """The same for FIFO links."""
    segment: type[Any]
    link_ack: type[Any]
    policy: Callable[..., Any]
    refusal: type[Exception]
    """What it raises at a frame that makes no sense."""


ORIGINAL = Variant(
    linked=Linked,
    plain=Plain,
    buffer=Buffer,
    buffer_fifo=BufferFifo,
    segment=Segment,
    link_ack=LinkAck,
    policy=RetransmissionPolicy,
    refusal=PeerError,
)


def copied(changes: Iterable[tuple[str, str]] = ()) -> Variant:
    """Copy the link layer, with changes of its text: what stands there once, and what not.

    Raise LookupError if something does not stand there exactly once.
    """
    package = f"link_variant_{next(_serial)}"
    packages = ("", ".core", ".core.support", ".core.protocols")
    loaded: dict[str, ModuleType] = {}
    for name in [f"{package}{suffix}" for suffix in packages]:
        sys.modules[name] = loaded[name] = ModuleType(name)
    try:
        for module in MODULES:
            path = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
            text = path.read_text(encoding="utf-8")
            if module == "core.link":
                for old, new in changes:
                    if text.count(old) != 1:
                        raise LookupError(f"not found exactly once: {old!r}")
                    text = text.replace(old, new)
            text = text.replace("from antecede.", f"from {package}.")
            name = f"{package}.{module}"
            sys.modules[name] = loaded[name] = ModuleType(name)
            exec(compile(text, str(path), "exec"), loaded[name].__dict__)
    finally:
        for name in loaded:
            del sys.modules[name]
    core = f"{package}.core"
    return Variant(
        linked=loaded[f"{core}.link"].Linked,
        plain=loaded[f"{core}.protocols.baseline"].Plain,
        buffer=loaded[f"{core}.protocols.buffer"].Buffer,
        buffer_fifo=loaded[f"{core}.protocols.buffer"].BufferFifo,
        segment=loaded[f"{core}.link"].Segment,
        link_ack=loaded[f"{core}.link"].LinkAck,
        policy=loaded[f"{core}.support.retransmission"].RetransmissionPolicy,
        refusal=loaded[f"{package}.errors"].PeerError,
    )


MUTANTS = {
    "what waits is handed over again": (
        "if number > lane.received and number not in lane.early:",
        "if number > lane.received:",
    ),
    "what is past is handed over again": (
        "if number > lane.received and number not in lane.early:",
        "if number not in lane.early:",
    ),
    "there is no order": ("if self._fifo and number > lane.received + 1:", "if False:"),
    "there is always an order": (
        "if self._fifo and number > lane.received + 1:",
        "if number > lane.received + 1:",
    ),
    "only one that waited is handed over": (
        "while lane.received + 1 in lane.early:",
        "if lane.received + 1 in lane.early:",
    ),
    "what waited is handed over by an unordered link, too": (
        "if self._fifo and lane.received != handed:",
        "if lane.received != handed:",
    ),
    "what waited is counted and forgotten": (
        "self._inner.receive(lane.id, frame, now)",
        "pass",
    ),
    "an early arrival is not told beside a segment": (
        "if lane.arrived <= lane.received:",
        "if True:",
    ),
    "an ack never rides on a segment": (
        "if lane.arrived <= lane.received:",
        "if False:",
    ),
    "what arrives again is not acked": (
        "        if number > lane.received and number not in lane.early:",
        "        if number <= lane.received:\n            return\n"
        "        if number > lane.received and number not in lane.early:",
    ),
    "repetitions carry no ack": (
        "segment = Segment(number, lane.received, flight.frame)",
        "segment = Segment(number, 0, flight.frame)",
    ),
    "the ack on a segment is overlooked": (
        "self._receive_ack(lane, segment.acked, segment.acked, now)",
        "pass",
    ),
    "nothing is transmitted again": (
        "            self._retransmit(self._lanes[ProcessId(timer.owner)], now)\n",
        "",
    ),
    "only the first is transmitted again": (
        "not flight.arrived and flight.transmitted_at + timeout_s <= now",
        "False",
    ),
    "a time-out may repeat nothing": (
        "if number == outstanding.first or (",
        "if (",
    ),
    "what has arrived is repeated": (
        "not flight.arrived and flight.transmitted_at + timeout_s <= now",
        "flight.transmitted_at + timeout_s <= now",
    ),
    "what was transmitted just now is repeated": (
        "not flight.arrived and flight.transmitted_at + timeout_s <= now",
        "not flight.arrived",
    ),
    "a repetition does not say so": (
        "Transmit(lane.id, segment, True)",
        "Transmit(lane.id, segment)",
    ),
    "the timer never starts": ("if len(lane.outstanding) == 1:", "if False:"),
    "the timer never stops": ("            lane.timer.stop()\n", "            pass\n"),
    "the timer stops at every ack": (
        "if outstanding.first < outstanding.next:",
        "if False:",
    ),
    "an ack is of one less": (
        "while outstanding.first <= acked:",
        "while outstanding.first < acked:",
    ),
    "what arrived is not noted": ("            flight.arrived = True\n", ""),
    "a repeated one is a sample": (
        "if not flight.arrived and not flight.repeated:",
        "if not flight.arrived:",
    ),
    "an arrival is a sample twice": (
        "if not flight.arrived and not flight.repeated:",
        "if not flight.repeated:",
    ),
    "there are no samples": ("if not flight.arrived and not flight.repeated:", "if False:"),
    "progress does not start the time-out anew": (
        "            lane.timer.restart(now)\n            self._timers.file(lane.timer)\n"
        "        else:",
        "            pass\n        else:",
    ),
}
"""What is wrong with a link layer, and by which change of its text."""
