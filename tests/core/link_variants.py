"""The link layer, and copies of it with one mutation each.

A copy is made of the source text of the modules, so it is interpreted and can be changed
even if the package is compiled.
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

__all__ = ["DISCONNECT_MUTANTS", "MUTANTS", "ORIGINAL", "Variant", "copied"]

SOURCE = Path(__file__).parent.parent.parent / "src" / "antecede"
MODULES = (
    "errors",
    "core.support.attributes",
    "core.codec",
    "core.process_id",
    "core.windows",
    "core.dependencies",
    "core.overlay.directory",
    "core.overlay_links",
    "core.pending",
    "core.process",
    "core.input_checks",
    "core.support.retransmission",
    "core.support.sliding",
    "core.protocols.baseline",
    "core.protocols.buffer",
    "core.link_frames",
    "core.link",
)
"""The link layer, its protocols and their imports, in import order."""

_serial = count(1)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A link layer, and protocols to run on it."""

    linked: Callable[..., Any]
    """Wraps a process in links, FIFO or not."""
    baseline: Callable[..., Any]
    """Makes a process without links that delivers each message and answers none."""
    buffer: Callable[..., Any]
    """Makes a process that answers each message, for unordered links."""
    buffer_fifo: Callable[..., Any]
    """The same for FIFO links."""
    segment: type[Any]
    link_ack: type[Any]
    policy: Callable[..., Any]
    refusal: type[Exception]
    """The exception for an invalid frame."""


ORIGINAL = Variant(
    linked=ReliableLink,
    baseline=Baseline,
    buffer=Buffer,
    buffer_fifo=BufferFifo,
    segment=Segment,
    link_ack=LinkAck,
    policy=RetransmissionPolicy,
    refusal=PeerError,
)


def copied(changes: Iterable[tuple[str, str]] = ()) -> Variant:
    """Copy the link layer with changes of its text, as pairs of old and new text.

    Raise LookupError if an old text does not occur exactly once.
    """
    package = f"link_variant_{next(_serial)}"
    packages = ("", ".core", ".core.overlay", ".core.support", ".core.protocols")
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
        baseline=loaded[f"{core}.protocols.baseline"].Baseline,
        buffer=loaded[f"{core}.protocols.buffer"].Buffer,
        buffer_fifo=loaded[f"{core}.protocols.buffer"].BufferFifo,
        segment=loaded[f"{core}.link_frames"].Segment,
        link_ack=loaded[f"{core}.link_frames"].LinkAck,
        policy=loaded[f"{core}.support.retransmission"].RetransmissionPolicy,
        refusal=loaded[f"{package}.errors"].PeerError,
    )


MUTANTS = {
    "a held segment is passed on twice": (
        "if number > channel.received and number not in channel.reorder_buffer:",
        "if number > channel.received:",
    ),
    "a duplicate is passed on": (
        "if number > channel.received and number not in channel.reorder_buffer:",
        "if number not in channel.reorder_buffer:",
    ),
    "a FIFO link keeps no order": (
        "        self._fifo = fifo\n",
        "        self._fifo = False\n",
    ),
    "an unordered link holds early segments for ever": (
        "            if not self._fifo:\n",
        "            if not self._fifo and number == channel.received + 1:\n",
    ),
    "a FIFO link passes an early segment on twice": (
        "            if not self._fifo:\n",
        "            if True:\n",
    ),
    "only one held segment is passed on": (
        "while channel.received + 1 in channel.reorder_buffer:",
        "if channel.received + 1 in channel.reorder_buffer:",
    ),
    "an unordered link passes an early segment on twice": (
        "            if self._fifo:\n",
        "            if True:\n",
    ),
    "held segments are dropped": (
        "refusal = self._pass_on(channel, frame, now) or refusal",
        "pass",
    ),
    "an out-of-order arrival is not acked beside a segment": (
        "if channel.arrived <= channel.received:",
        "if True:",
    ),
    "no segment carries an ack": (
        "if channel.arrived <= channel.received:",
        "if False:",
    ),
    "a duplicate is not acked": (
        "        if number > channel.received and number not in channel.reorder_buffer:",
        "        if number <= channel.received:\n            return\n"
        "        if number > channel.received and number not in channel.reorder_buffer:",
    ),
    "retransmissions carry no ack": (
        "number, channel.received, unacked.frame, channel.dropped",
        "number, 0, unacked.frame, channel.dropped",
    ),
    "the ack in a segment is ignored": (
        "self._receive_ack(channel, segment.acked, segment.acked, now)",
        "pass",
    ),
    "nothing is retransmitted": (
        "                self._retransmit(channel, now)\n",
        "",
    ),
    "only the first is retransmitted": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "False",
    ),
    "a timeout may retransmit nothing": (
        "if number == in_flight.first or (",
        "if (",
    ),
    "an arrived segment is retransmitted": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "unacked.transmitted_at + timeout_s <= now",
    ),
    "a recent segment is retransmitted": (
        "not unacked.arrived and unacked.transmitted_at + timeout_s <= now",
        "not unacked.arrived",
    ),
    "a retransmission is not marked": (
        "Transmit(channel.id, segment, True)",
        "Transmit(channel.id, segment)",
    ),
    "the timer never starts": ("if len(channel.in_flight) == 1:", "if False:"),
    "the timer never stops": ("            channel.timer.stop()\n", "            pass\n"),
    "the timer stops at every ack": (
        "if in_flight.first < in_flight.next:",
        "if False:",
    ),
    "an ack counts for one less": (
        "while in_flight.first <= acked:",
        "while in_flight.first < acked:",
    ),
    "an arrival is not recorded": ("            unacked.arrived = True\n", ""),
    "a retransmitted segment is a sample": (
        "if not unacked.arrived and not unacked.retransmitted:",
        "if not unacked.arrived:",
    ),
    "an arrival is two samples": (
        "if not unacked.arrived and not unacked.retransmitted:",
        "if not unacked.retransmitted:",
    ),
    "there are no samples": (
        "if not unacked.arrived and not unacked.retransmitted:",
        "if False:",
    ),
    "progress does not restart the timer": (
        "            channel.timer.restart(now)\n"
        "            self._timers.schedule(channel.timer)\n        else:",
        "            pass\n        else:",
    ),
}
"""Mutations of the link layer: the text to replace, and its replacement."""

DISCONNECT_MUTANTS = {
    "segments to a connected peer are dropped": (
        "            if channel.is_disconnected:\n                channel.timeouts += 1\n",
        "            channel.timeouts += 1\n",
    ),
    "segments to a disconnected peer are never dropped": (
        "if channel.timeouts < TIMEOUTS_MAX:",
        "if True:",
    ),
    "connecting a peer again has no effect": (
        "            channel.is_disconnected = False\n        self._collect(now)\n",
        "            pass\n        self._collect(now)\n",
    ),
    "earlier timeouts count": (
        "        channel.is_disconnected = True\n        channel.timeouts = 0\n",
        "        channel.is_disconnected = True\n",
    ),
    "an ack does not start the count again": (
        "        in_flight = channel.in_flight\n        channel.timeouts = 0\n",
        "        in_flight = channel.in_flight\n",
    ),
    "the next timeout after a drop drops again": (
        "        channel.timeouts = 0\n        channel.timer.stop()\n",
        "        channel.timer.stop()\n",
    ),
    "the timer runs on after a drop": (
        "        channel.timeouts = 0\n        channel.timer.stop()\n",
        "        channel.timeouts = 0\n",
    ),
    "any ack ends the naming of dropped segments": (
        "if acked >= channel.dropped:",
        "if True:",
    ),
    "no segment names the dropped ones": (
        "channel.dropped = in_flight.first - 1",
        "channel.dropped = 0",
    ),
    "the last dropped segment is not named": (
        "channel.dropped = in_flight.first - 1",
        "channel.dropped = in_flight.first - 2",
    ),
    "the receiver waits for dropped segments": (
        "            channel.received = segment.dropped\n",
        "            pass\n",
    ),
    "held segments stay": (
        "            channel.reorder_buffer.clear()\n",
        "            pass\n",
    ),
    "a FIFO link passes held segments on after a gap": (
        "            channel.received = segment.dropped\n",
        "            for early in sorted(channel.reorder_buffer) if self._fifo else []:\n"
        "                self._pass_on(channel, channel.reorder_buffer[early], now)\n"
        "            channel.received = segment.dropped\n",
    ),
}
"""Mutations of what the link layer does for a peer that is disconnected."""
