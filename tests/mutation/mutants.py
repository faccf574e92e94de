"""The mutants: name, module and source change of each."""

from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate fault in the core."""

    name: str
    """The fault, as a claim."""
    module: str
    """The module of the core to change."""
    old: str
    """The source text to replace, which must occur exactly once."""
    new: str
    """The replacement."""


MUTANTS = (
    # Safety: SPS.
    Mutant(
        "no permit is ever needed",
        "protocols/hybrid/algorithm",
        "permitted = number <= self.rule.frontier(self.state, peer)",
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
        "protocols/hybrid/state",
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
        "no message is ever queued",
        "protocols/hybrid/hybrid",
        "if copy.permits_before > permits_first:",
        "if False:",
    ),
    Mutant(
        "no message is ever queued (basic)",
        "protocols/hybrid/basic",
        "            and buffer[index].permits_before <= permits_first\n",
        "",
    ),
    Mutant(
        "one missing permit is overlooked",
        "protocols/hybrid/hybrid",
        "if copy.permits_before > permits_first:",
        "if copy.permits_before > permits_first + 1:",
    ),
    Mutant(
        "a copy to the source of the first missing permit ignores all others",
        "protocols/hybrid/hybrid",
        "if copy.permits_before > permits_other:",
        "if False:",
    ),
    Mutant(
        "the next send does not depend on the last deliveries",
        "protocols/hybrid/algorithm",
        "permits_before = state.permits.next",
        "permits_before = state.permits.first",
    ),
    Mutant(
        "a permit covers a message beyond its number",
        "protocols/hybrid/algorithm",
        "needs_permit = number > peer.permitted\n",
        "needs_permit = number > peer.permitted + 1\n",
    ),
    Mutant(
        "an ack is sent on arrival, before delivery",
        "protocols/hybrid/algorithm",
        "ack = Ack(peer.delivered, arrived)",
        "ack = Ack(arrived, arrived)",
    ),
    # Safety: FIFO and exactly once.
    Mutant(
        "messages are delivered on arrival, without FIFO order",
        "protocols/hybrid/algorithm",
        "if predecessor == peer.delivered and",
        "if",
    ),
    Mutant(
        "duplicates are delivered again",
        "protocols/hybrid/algorithm",
        "        if number > peer.delivered:\n"
        "            if predecessor == peer.delivered and",
        "        if True:\n            if predecessor <= peer.delivered and",
    ),
    Mutant(
        "duplicates are kept",
        "protocols/hybrid/algorithm",
        "        if number > peer.delivered:\n"
        "            if predecessor == peer.delivered and",
        "        if True:\n            if predecessor == peer.delivered and",
    ),
    Mutant(
        "one predecessor for all copies of a message",
        "protocols/hybrid/algorithm",
        "Copy(peer, number, peer.sent, permits_before, payload)",
        "Copy(peer, number, number - 1, permits_before, payload)",
    ),
    Mutant(
        "messages are numbered from 0",
        "protocols/hybrid/algorithm",
        "        state.clock += 1\n        number = state.clock\n",
        "        number = state.clock\n        state.clock += 1\n",
    ),
    # Liveness, and the right moment.
    Mutant(
        "a permit that overtakes its message is forgotten",
        "protocols/hybrid/algorithm",
        "        peer.permitted = number\n        missing = peer.missing\n        ledger",
        "        missing = peer.missing\n        ledger",
    ),
    Mutant(
        "permits are transmitted on request only",
        "protocols/hybrid/algorithm",
        "        state.advance_unacked()\n        self.grant()\n",
        "        state.advance_unacked()\n",
    ),
    Mutant(
        "u2 does not move when a message is appended",
        "protocols/hybrid/algorithm",
        "        state.advance_unacked()\n        self.release(now)\n",
        "        self.release(now)\n",
    ),
    Mutant(
        "p2 does not move",
        "protocols/hybrid/hybrid",
        "            if missing is not None and missing.peer is not permits.peek().peer:\n",
        "            if True:\n",
    ),
    Mutant(
        "a lost message is not retransmitted",
        "protocols/hybrid/process",
        "                algorithm.retransmit(peer, now)\n",
        "                pass\n",
    ),
    Mutant(
        "a lost permit is not requested",
        "protocols/hybrid/algorithm",
        "PermitRequest(peer.missing.peek().number)",
        "Ack(peer.delivered, peer.delivered)",
    ),
    Mutant(
        "a request is answered only when nothing is unacked",
        "protocols/hybrid/algorithm",
        "        if number <= self.rule.frontier(state, peer):\n"
        "            self._permit(peer)\n",
        "        if state.first_unacked == state.buffer.next:\n"
        "            self._permit(peer)\n",
    ),
    Mutant(
        "a retransmission keeps the flag of the first transmission",
        "protocols/hybrid/algorithm",
        "permitted = number <= self.rule.frontier(self.state, peer)",
        "permitted = not copy.retransmitted and number <= self.rule.frontier(\n"
        "            self.state, peer\n        )",
    ),
    Mutant(
        "arrived copies are retransmitted, too",
        "protocols/hybrid/algorithm",
        "not copy.arrived and copy.transmitted_at + timeout_s <= now",
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
        "protocols/hybrid/algorithm",
        " or delivered == NOT_RELEASED",
        "",
    ),
    Mutant(
        "an invalid message creates a peer",
        "protocols/hybrid/algorithm",
        "        if number < 1 or not 0 <= predecessor < number:\n",
        "        self.state.peer(source)\n"
        "        if number < 1 or not 0 <= predecessor < number:\n",
    ),
)
