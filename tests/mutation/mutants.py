"""The mutants: name, module and source change of each."""

from tests.mutation.group_mutants import GROUP_MUTANTS
from tests.mutation.mutant import Mutant
from tests.mutation.node_mutants import NODE_MUTANTS
from tests.mutation.overlay_mutants import OVERLAY_MUTANTS
from tests.mutation.removal_mutants import REMOVAL_MUTANTS
from tests.mutation.room_mutants import ROOM_MUTANTS
from tests.mutation.transport_mutants import TRANSPORT_MUTANTS

__all__ = [
    "ALL_NODE_MUTANTS",
    "BOUNDED_MUTANTS",
    "GROUP_MUTANTS",
    "MUTANTS",
    "NODE_MUTANTS",
    "OVERLAY_MUTANTS",
    "REMOVAL_MUTANTS",
    "ROOM_MUTANTS",
    "TRANSPORT_MUTANTS",
    "Mutant",
]

HYBRID_MUTANTS = (
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
        "            elif predecessor == peer.delivered:\n",
        "            elif True:\n",
    ),
    Mutant(
        "duplicates are delivered again",
        "protocols/hybrid/algorithm",
        "        if number > peer.delivered:\n"
        "            if self.ledger is not None:\n"
        "                self._receive_dependent(self.ledger, peer, message, now)\n"
        "            elif predecessor == peer.delivered:\n",
        "        if True:\n"
        "            if self.ledger is not None:\n"
        "                self._receive_dependent(self.ledger, peer, message, now)\n"
        "            elif predecessor <= peer.delivered:\n",
    ),
    Mutant(
        "duplicates are kept",
        "protocols/hybrid/algorithm",
        "        if number > peer.delivered:\n",
        "        if True:\n",
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
        "        state.clock += count\n        number = state.clock\n",
        "        number = state.clock\n        state.clock += count\n",
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
        "                if missing is not None and missing.peer is not source:\n",
        "                if True:\n",
    ),
    Mutant(
        "a lost message is not retransmitted",
        "protocols/hybrid/process",
        "                retransmit(algorithm, peer, now)\n",
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
        "            self.permit(peer)\n",
        "        if state.first_unacked == state.buffer.next:\n"
        "            self.permit(peer)\n",
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
        "protocols/hybrid/lost_frames",
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
        "protocols/hybrid/message_checks",
        "    if message.number < 1 or",
        "    state.peer(source)\n    if message.number < 1 or",
    ),
)

BOUNDED_MUTANTS = (
    # The entries, wildcards and notes of bounded.
    Mutant(
        "a message does not wait for its entries for the receiver",
        "protocols/hybrid/received_entries",
        "if entry.target == ledger.id and entry.number > ledger.delivered(entry.source):",
        "if False:",
    ),
    Mutant(
        "a message waits for its entries except the last",
        "protocols/hybrid/received_entries",
        "entry.number > ledger.delivered(entry.source):",
        "entry.number > ledger.delivered(entry.source) + 1:",
    ),
    Mutant(
        "inherited entries are left off",
        "protocols/hybrid/bounded",
        "                inherited.append(found.entry)\n",
        "",
    ),
    Mutant(
        "own entries are left off",
        "protocols/hybrid/bounded",
        "                    own.append(Entry(self._id, target, last))\n",
        "",
    ),
    Mutant(
        "inherited entries are left off a retransmission",
        "protocols/hybrid/ledger",
        "inherited = [e for e in inherited if not self.is_settled(e)]",
        "inherited = [] if copy.retransmitted else inherited",
    ),
    Mutant(
        "a sent wildcard is cleared at once",
        "protocols/hybrid/wildcards",
        "if wildcard.position > first_position or wildcard.last > acked:",
        "if False:",
    ),
    Mutant(
        "a sent wildcard is cleared before the own copies that it stands for",
        "protocols/hybrid/wildcards",
        "if wildcard.position > first_position or wildcard.last > acked:",
        "if wildcard.position > first_position:",
    ),
    Mutant(
        "copies to the target of a wildcard do not wait",
        "protocols/hybrid/bounded",
        "            if ledger.wildcards.is_before(\n"
        "                ledger.channels.target_of(peer.id), copy.position, peer.id\n"
        "            ):\n",
        "            if False:\n",
    ),
    Mutant(
        "wildcards are not passed on",
        "protocols/hybrid/bounded",
        "copy.wildcards = ledger.wildcards.before(copy.position, peer.id)",
        "copy.wildcards = []",
    ),
    Mutant(
        "absence settles what this process reported to the peer",
        "protocols/hybrid/received_entries",
        "part.id not in pair.reported:",
        "True:",
    ),
    Mutant(
        "absence on an opaque message settles own entries",
        "protocols/hybrid/received_entries",
        "_mark_absent_settled(ledger, part, [], [], message.permitted, now)",
        "_mark_absent_settled(ledger, part, [], [], True, now)",
    ),
    Mutant(
        "absence settles nothing, and no note is used",
        "protocols/hybrid/ledger",
        "        elif number > pair.settled:\n",
        "        elif source == self.id and number > pair.settled:\n",
    ),
    Mutant(
        "an entry is settled one copy too early",
        "protocols/hybrid/ledger",
        "            while unsettled and unsettled[0].entry.number <= number:\n",
        "            while unsettled and unsettled[0].entry.number <= number + 1:\n",
    ),
    Mutant(
        "a copy after the settled ones counts as settled",
        "protocols/hybrid/received_entries",
        "if number <= ledger.table.settled(source, target):",
        "if number <= ledger.table.settled(source, target) + 1:",
    ),
    Mutant(
        "entries are merged although a queued copy lies between",
        "protocols/hybrid/received_entries",
        "            and last.position >= ledger.barrier(target)\n",
        "",
    ),
    Mutant(
        "a queued copy lists entries that were delivered after its send",
        "protocols/hybrid/pair_table",
        "            if found.position < position:\n",
        "            if True:\n",
    ),
    Mutant(
        "no message needs a permit under bounded",
        "protocols/hybrid/algorithm",
        "if isinstance(message, DependentMessage) and not message.is_opaque:",
        "if True:",
    ),
    Mutant(
        "a copy that fits is not checked again when entries are settled",
        "protocols/hybrid/copy_queue",
        "            part.excess -= size\n",
        "",
    ),
    Mutant(
        "a copy is checked again later than it fits",
        "protocols/hybrid/bounded",
        "return min(size - left, max(inherited_size, 1))",
        "return size",
    ),
    Mutant(
        "nobody is asked for a copy that a held message waits for",
        "protocols/hybrid/received_entries",
        "                if sender != NO_PROCESS:\n",
        "                if False:\n",
    ),
    Mutant(
        "requests for a missing copy do not end",
        "protocols/hybrid/repairs",
        "if missing.asked == ASKED_MAX:",
        "if False:",
    ),
    Mutant(
        "a requested copy is retransmitted though it may still arrive",
        "protocols/hybrid/note_exchange",
        "if not copy.arrived and copy.transmitted_at + round_trip_s <= now:",
        "if not copy.arrived:",
    ),
    Mutant(
        "the budget is ignored",
        "protocols/hybrid/bounded",
        "self._room = budget_bytes - counts_size",
        "self._room = UNBOUNDED",
    ),
    Mutant(
        "notes are not sent",
        "protocols/hybrid/ledger",
        "                if last > 0:\n",
        "                if False:\n",
    ),
    Mutant(
        "queries are not answered",
        "protocols/hybrid/note_exchange",
        "            if found is not None:\n",
        "            if False:\n",
    ),
    Mutant(
        "the answer to a query is that own entries are settled",
        "protocols/hybrid/queries",
        "        if not ledger.is_unacked(entry)\n",
        "",
    ),
    Mutant(
        "the answer to a query is that inherited entries are settled",
        "protocols/hybrid/queries",
        "entries = [entry for entry in question.entries if _knows_settled(ledger, entry)]",
        "entries = question.entries",
    ),
    Mutant(
        "the answer to a query clears the wildcards of queued copies",
        "protocols/hybrid/queries",
        "ledger.last_released(asking) if",
        "ledger.state.clock if",
    ),
    Mutant(
        "a clear that overtakes its wildcard is forgotten",
        "protocols/hybrid/ledger",
        "            part.cleared[target] = number\n",
        "            pass\n",
    ),
    Mutant(
        "the ack of a copy does not settle its entries for the target",
        "protocols/hybrid/ledger",
        "                if entry.target == target:\n                    self.mark_settled",
        "                if False:\n                    self.mark_settled",
    ),
    Mutant(
        "only the process that reported an entry is asked",
        "protocols/hybrid/queries",
        "if unsettled.asked > ASKED_ALONE:",
        "if False:",
    ),
    Mutant(
        "a copy is not retransmitted before the earlier copies that it lists are acked",
        "protocols/hybrid/lost_frames",
        "        if is_due or is_first or is_held_in_vain(algorithm.ledger, copy):\n",
        "        if is_due or is_first or is_held_in_vain(algorithm.ledger, copy):\n"
        "            ledger = algorithm.ledger\n"
        "            if ledger is not None:\n"
        "                own = getattr(copy, 'own', [])\n"
        "                earlier = [e for e in own if e.number < copy.number]\n"
        "                if any(ledger.is_unacked(e) for e in earlier):\n"
        "                    continue\n",
    ),
)

ALL_NODE_MUTANTS = (
    TRANSPORT_MUTANTS + OVERLAY_MUTANTS + GROUP_MUTANTS + NODE_MUTANTS + ROOM_MUTANTS
)
"""The mutants of nodes; their modules are named from the package, not from the core."""

MUTANTS = HYBRID_MUTANTS + BOUNDED_MUTANTS + REMOVAL_MUTANTS + ALL_NODE_MUTANTS
