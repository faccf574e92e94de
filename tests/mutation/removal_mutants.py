"""Mutants of the removal of a peer under ``bounded``."""

from tests.mutation.mutant import Mutant

__all__ = ["REMOVAL_MUTANTS"]

REMOVAL_MUTANTS = (
    # Held copies and the lease.
    Mutant(
        "a held message is delivered though its sender was silent for a lease",
        "protocols/hybrid/received_entries",
        "if message is None or ledger.is_silent(peer.id, now):",
        "if message is None:",
    ),
    Mutant(
        "a held message stays held when its sender is heard again",
        "protocols/hybrid/note_exchange",
        "if was_silent and peer is not None and peer.is_receiving and peer.held:",
        "if False and peer is not None:",
    ),
    Mutant(
        "no copy is released when a sender that was silent is heard again",
        "protocols/hybrid/note_exchange",
        "            if ledger.copies.is_check_due:\n"
        "                self._algorithm.release(now)\n",
        "",
    ),
    Mutant(
        "an abandoned copy stays in the queue",
        "protocols/hybrid/recovery",
        "            ledger.copies.clear(ledger.peer(peer))\n",
        "",
    ),
    Mutant(
        "what is held from a peer is delivered after its lease has ended",
        "protocols/hybrid/recovery",
        "            known.held.clear()\n"
        "            if self._algorithm.ledger is not None:",
        "            if self._algorithm.ledger is not None:",
    ),
    Mutant(
        "a message waits for entries that only its former version had",
        "protocols/hybrid/gone_peers",
        "        drop_waiting(ledger, peer.id)\n    peer.hold",
        "        pass\n    peer.hold",
    ),
    Mutant(
        "a copy that is held for an abandoned copy is not retransmitted",
        "protocols/hybrid/gone_peers",
        "if entry.target == target and ledger.is_settled(entry):",
        "if False:",
    ),
    # Abandon.
    Mutant(
        "entries that name abandoned copies are not settled",
        "protocols/hybrid/recovery",
        "            ledger.mark_own_settled(known, now)\n",
        "            pass\n",
    ),
    Mutant(
        "an abandoned copy that was queued is released",
        "protocols/hybrid/recovery",
        "copy.released = True  # It must never be released.",
        "pass",
    ),
    Mutant(
        "the next message to an abandoned peer has a predecessor",
        "protocols/hybrid/recovery",
        "        known.sent = 0\n",
        "",
    ),
    # Reset of a channel.
    Mutant(
        "what was delivered before a reset of the channel does not count",
        "protocols/hybrid/gone_peers",
        "ledger.floors[source] = ledger.delivered(source)",
        "ledger.floors.pop(source, None)",
    ),
    Mutant(
        "messages are held after a reset of the channel",
        "protocols/hybrid/recovery",
        "            known.delivered = 0\n            known.held.clear()\n",
        "            known.delivered = 0\n",
    ),
    # A process that has stopped or left.
    Mutant(
        "entries with a stopped source are not settled",
        "protocols/hybrid/gone_peers",
        "            ledger.mark_pair_settled(pair, last, now)\n",
        "            pass\n",
    ),
    Mutant(
        "entries with a source that has ended are kept if they are reported later",
        "protocols/hybrid/received_entries",
        "if source in ledger.channels.ended:",
        "if False:",
    ),
    Mutant(
        "messages stay held for the copies of a stopped process",
        "protocols/hybrid/recovery",
        "self._algorithm.deliver_ready(ledger, give_up(ledger, source), None, now)",
        "pass",
    ),
    Mutant(
        "entries that a stopped process has reported are settled",
        "protocols/hybrid/gone_peers",
        "        _replace_answerer(ledger, part, NO_PROCESS)\n",
        "        for unsettled, pair in list(part.unsettled.items()):\n"
        "            ledger.mark_pair_settled(pair, unsettled.entry.number, 0.0)\n",
    ),
    Mutant(
        "a stopped process is asked about the entries that it has reported",
        "protocols/hybrid/gone_peers",
        "        _replace_answerer(ledger, part, NO_PROCESS)\n",
        "        pass\n",
    ),
    Mutant(
        "entries of a reporter that is gone count against the budget",
        "protocols/hybrid/bounded",
        "                if not found.is_reporter_gone:\n",
        "                if True:\n",
    ),
    Mutant(
        "entries of a reporter that is gone are left off",
        "protocols/hybrid/bounded",
        "if found is not None and not found.is_reported_by(target):",
        "if (\n"
        "                found is not None\n"
        "                and not found.is_reported_by(target)\n"
        "                and not found.is_reporter_gone\n"
        "            ):",
    ),
    Mutant(
        "absence settles entries of a reporter that is gone",
        "protocols/hybrid/received_entries",
        "if pair.target in covered or unsettled.is_reporter_gone:",
        "if pair.target in covered:",
    ),
)
