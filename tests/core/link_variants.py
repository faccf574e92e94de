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

from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.protocols.baseline import Baseline
from antecede.core.protocols.buffer import Buffer, BufferFifo
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import PeerError

__all__ = ["MUTANTS", "ORIGINAL", "Variant", "copied"]

SOURCE = Path(__file__).parent.parent.parent / "src" / "antecede"
MODULES = (
    "errors",
    "core.support.attributes",
    "core.codec",
    "core.process",
    "core.support.retransmission",
    "core.support.sliding",
    "core.protocols.baseline",
    "core.protocols.buffer",
    "core.link_frames",
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
    linked=ReliableLink,
    plain=Baseline,
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
        linked=loaded[f"{core}.link"].ReliableLink,
        plain=loaded[f"{core}.protocols.baseline"].Baseline,
        buffer=loaded[f"{core}.protocols.buffer"].Buffer,
        buffer_fifo=loaded[f"{core}.protocols.buffer"].BufferFifo,
        segment=loaded[f"{core}.link_frames"].Segment,
        link_ack=loaded[f"{core}.link_frames"].LinkAck,
        policy=loaded[f"{core}.support.retransmission"].RetransmissionPolicy,
        refusal=loaded[f"{package}.errors"].PeerError,
    )


MUTANTS = {
    "what waits is handed over again": (
        "if number > channel.received and number not in channel.reorder_buffer:",
        "if number > channel.received:",
    ),
    "what is past is handed over again": (
        "if number > channel.received and number not in channel.reorder_buffer:",
        "if number not in channel.reorder_buffer:",
    ),
    "there is no order": ("if self._fifo and number > channel.received + 1:", "if False:"),
    "there is always an order": (
        "if self._fifo and number > channel.received + 1:",
        "if number > channel.received + 1:",
    ),
    "only one that waited is handed over": (
        "while channel.received + 1 in channel.reorder_buffer:",
        "if channel.received + 1 in channel.reorder_buffer:",
    ),
    "what waited is handed over by an unordered link, too": (
        "if self._fifo and channel.received != passed_on:",
        "if channel.received != passed_on:",
    ),
    "what waited is counted and forgotten": (
        "self._inner.receive(channel.id, frame, now)",
        "pass",
    ),
    "an early arrival is not told beside a segment": (
        "if channel.arrived <= channel.received:",
        "if True:",
    ),
    "an ack never rides on a segment": (
        "if channel.arrived <= channel.received:",
        "if False:",
    ),
    "what arrives again is not acked": (
        "        if number > channel.received and number not in channel.reorder_buffer:",
        "        if number <= channel.received:\n            return\n"
        "        if number > channel.received and number not in channel.reorder_buffer:",
    ),
    "repetitions carry no ack": (
        "segment = Segment(number, channel.received, unacked.frame)",
        "segment = Segment(number, 0, unacked.frame)",
    ),
    "the ack on a segment is overlooked": (
        "self._receive_ack(channel, segment.acked, segment.acked, now)",
        "pass",
    ),
    "nothing is transmitted again": (
        "            self._retransmit(self._channels[ProcessId(timer.owner)], now)\n",
        "",
    ),
    "only the first is transmitted again": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "False",
    ),
    "a time-out may repeat nothing": (
        "if number == in_flight.first or (",
        "if (",
    ),
    "what has arrived is repeated": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "unacked.transmitted_at + timeout_s <= now",
    ),
    "what was transmitted just now is repeated": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "not unacked.arrived",
    ),
    "a repetition does not say so": (
        "Transmit(channel.id, segment, True)",
        "Transmit(channel.id, segment)",
    ),
    "the timer never starts": ("if len(channel.in_flight) == 1:", "if False:"),
    "the timer never stops": ("            channel.timer.stop()\n", "            pass\n"),
    "the timer stops at every ack": (
        "if in_flight.first < in_flight.next:",
        "if False:",
    ),
    "an ack is of one less": (
        "while in_flight.first <= acked:",
        "while in_flight.first < acked:",
    ),
    "what arrived is not noted": ("            unacked.arrived = True\n", ""),
    "a repeated one is a sample": (
        "if not unacked.arrived and not unacked.retransmitted:",
        "if not unacked.arrived:",
    ),
    "an arrival is a sample twice": (
        "if not unacked.arrived and not unacked.retransmitted:",
        "if not unacked.retransmitted:",
    ),
    "there are no samples": ("if not unacked.arrived and not unacked.retransmitted:", "if False:"),
    "progress does not start the time-out anew": (
        "            channel.timer.restart(now)\n            self._timers.schedule(channel.timer)\n"
        "        else:",
        "            pass\n        else:",
    ),
}
"""What is wrong with a link layer, and by which change of its text."""
