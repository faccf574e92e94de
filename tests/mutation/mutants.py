"""The mutants: what is broken, where, and by which change of the source."""

from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate breakage."""

    name: str
    """What is wrong with it, as a claim."""
    module: str
    """Which module of the core is changed."""
    old: str
    """What stands there, exactly once."""
    new: str
    """What stands there instead."""


MUTANTS = (
    # Safety: SPS.
    Mutant(
        "no permit is ever needed",
        "protocols/hybrid/basic",
        "permitted = number <= self._frontier(peer)",
        "permitted = True",
    ),
    Mutant(
        "a permit goes out one message too early",
        "protocols/hybrid/hybrid",
        "return buffer[index].number - 1",
        "return buffer[index].number",
    ),
    Mutant(
        "a permit goes out one message too early (basic)",
        "protocols/hybrid/basic",
        "        if first.peer is not peer:\n            return first.number - 1\n",
        "        if first.peer is not peer:\n            return first.number\n",
    ),
    Mutant(
        "a message's own other copies do not hold its permit back",
        "protocols/hybrid/basic",
        "if other < buffer.next and buffer[other].number == first.number:",
        "if False and other < buffer.next and buffer[other].number == first.number:",
    ),
    Mutant(
        "the frontier ignores copies that are not released",
        "protocols/hybrid/basic",
        "while first < buffer.next and buffer[first].acked:",
        "while first < buffer.next and (\n"
        "            buffer[first].acked or not buffer[first].released\n"
        "        ):",
    ),
    Mutant(
        "every process counts as the target of the first unacked message",
        "protocols/hybrid/hybrid",
        "if index < buffer.next and buffer[index].peer is peer:",
        "if index < buffer.next:",
    ),
    Mutant(
        "no message is ever held at the sender",
        "protocols/hybrid/hybrid",
        "if copy.depends > permits_first:",
        "if False:",
    ),
    Mutant(
        "no message is ever held at the sender (basic)",
        "protocols/hybrid/basic",
        "while index < buffer.next and buffer[index].depends <= permits_first:",
        "while index < buffer.next:",
    ),
    Mutant(
        "one missing permit is overlooked",
        "protocols/hybrid/hybrid",
        "if copy.depends > permits_first:",
        "if copy.depends > permits_first + 1:",
    ),
    Mutant(
        "a copy to the source of the first missing permit ignores all others",
        "protocols/hybrid/hybrid",
        "if copy.depends > permits_other:",
        "if False:",
    ),
    Mutant(
        "what is delivered is forgotten by the next send",
        "protocols/hybrid/basic",
        "depends = self._permits.next",
        "depends = self._permits.first",
    ),
    Mutant(
        "a permit covers a message beyond its number",
        "protocols/hybrid/basic",
        "if number > peer.permitted:\n            self",
        "if number > peer.permitted + 1:\n            self",
    ),
    Mutant(
        "an ack is sent on arrival, before delivery",
        "protocols/hybrid/basic",
        "self._transmits.append(Transmit(source, Ack(peer.delivered, number)))",
        "self._transmits.append(Transmit(source, Ack(number, number)))",
    ),
    # Safety: FIFO and exactly once.
    Mutant(
        "FIFO is off: what arrives is delivered",
        "protocols/hybrid/basic",
        "if predecessor == peer.delivered:",
        "if True:",
    ),
    Mutant(
        "duplicates are delivered again",
        "protocols/hybrid/basic",
        "        if number > peer.delivered:\n            if predecessor ==",
        "        if True:\n            if predecessor <=",
    ),
    Mutant(
        "duplicates are kept",
        "protocols/hybrid/basic",
        "        if number > peer.delivered:\n            if predecessor ==",
        "        if True:\n            if predecessor ==",
    ),
    Mutant(
        "one predecessor for all copies of a message",
        "protocols/hybrid/basic",
        "Copy(peer, number, peer.sent, depends, data)",
        "Copy(peer, number, number - 1, depends, data)",
    ),
    Mutant(
        "messages are numbered from 0",
        "protocols/hybrid/basic",
        "        self._clock += 1\n        number = self._clock\n",
        "        number = self._clock\n        self._clock += 1\n",
    ),
    # Liveness, and the right moment.
    Mutant(
        "a permit that overtakes its message is forgotten",
        "protocols/hybrid/basic",
        "        peer.permitted = number\n        missing = peer.missing\n"
        "        if len(missing) == 0 or",
        "        missing = peer.missing\n        if len(missing) == 0 or",
    ),
    Mutant(
        "permits are never transmitted unasked",
        "protocols/hybrid/basic",
        "        self._advance_unacked()\n        self._grant()\n",
        "        self._advance_unacked()\n",
    ),
    Mutant(
        "u2 does not move when a message is appended",
        "protocols/hybrid/basic",
        "        self._advance_unacked()\n        self._release(now)\n",
        "        self._release(now)\n",
    ),
    Mutant(
        "p2 does not move",
        "protocols/hybrid/hybrid",
        "            if missing is not None and missing.peer is not permits.peek().peer:\n",
        "            if True:\n",
    ),
    Mutant(
        "a lost message is not transmitted again",
        "protocols/hybrid/basic",
        "                self._retransmit(peer, now)\n",
        "                pass\n",
    ),
    Mutant(
        "a lost permit is not requested",
        "protocols/hybrid/basic",
        "Request(peer.missing.peek().number)",
        "Ack(peer.delivered, peer.delivered)",
    ),
    Mutant(
        "a request is answered only when nothing is unacked",
        "protocols/hybrid/basic",
        "        if number <= self._frontier(peer):\n            self._permit(peer)\n",
        "        if self._unacked == self._buffer.next:\n            self._permit(peer)\n",
    ),
    Mutant(
        "what is transmitted again repeats its first flag",
        "protocols/hybrid/basic",
        "permitted = number <= self._frontier(peer)",
        "permitted = not copy.repeated and number <= self._frontier(peer)",
    ),
    Mutant(
        "all that is unacked is transmitted again, arrived or not",
        "protocols/hybrid/basic",
        "not copy.held and copy.transmitted_at + timeout_s <= now",
        "copy.transmitted_at + timeout_s <= now",
    ),
    # Purity, and refusals that change nothing.
    Mutant(
        "the core reads the clock",
        "support/retransmission",
        "        self.deadline = NEVER\n\n    def expire",
        "        import time\n\n        self.deadline = NEVER + time.time()\n\n"
        "    def expire",
    ),
    Mutant(
        "an ack of a message never sent is believed",
        "protocols/hybrid/basic",
        "            or (ack.delivered > peer.acked and delivered < 0)\n",
        "",
    ),
    Mutant(
        "a nonsensical message leaves a peer behind",
        "protocols/hybrid/basic",
        "        if number < 1 or not 0 <= predecessor < number:\n",
        "        self._peer(source)\n"
        "        if number < 1 or not 0 <= predecessor < number:\n",
    ),
)
