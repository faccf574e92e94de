"""Mutants of the overlay of nodes: names, announcements, and links that lost frames."""

from tests.mutation.mutant import Mutant

__all__ = ["OVERLAY_MUTANTS"]

OVERLAY_MUTANTS = (
    Mutant(
        "a link stays safe although frames on it were dropped",
        "core/link",
        "                self._inner.segments_dropped(channel.id, now)\n",
        "",
    ),
    Mutant(
        "a link with dropped frames keeps its place among the safe ones",
        "core/protocols/pc_broadcast/pc_broadcast",
        "            self.disconnect(peer, now)\n"
        "            self._add_link(peer, NO_PROCESS, now)\n",
        "            pass\n",
    ),
    Mutant(
        "dropped definitions are not repeated",
        "core/overlay/named_overlay",
        "        self._defined.pop(peer, None)\n",
        "",
    ),
    Mutant(
        "a history is not part of the identity of a process",
        "core/overlay/directory",
        "id = self._ids.get((name, history))",
        "id = next((each for (known, _), each in self._ids.items() if known == "
        "name), None)",
    ),
    Mutant(
        "the ids of a peer are taken for own ids",
        "core/overlay/named_overlay",
        "self._inner.receive(source, translated(frame, known.own), now)",
        "self._inner.receive(source, frame, now)",
    ),
    Mutant(
        "a newcomer of a group without history is not welcomed",
        "core/protocols/pc_broadcast/pc_broadcast",
        "            self._links.safe[peer] = None\n"
        "            if peer in self._links.newcomers:\n",
        "            self._links.safe[peer] = None\n            if False:\n",
    ),
    Mutant(
        "an announcement for another node is accepted",
        "engine/announcements",
        "if body[:RECEIVER_BYTES] != self._name_hash or sender == self._own_hash:",
        "if sender == self._own_hash:",
    ),
    Mutant(
        "an announcement is answered",
        "engine/overlay_sessions",
        "            if len(self._table.sessions) - sum(met) < STRANGERS_MAX:\n"
        "                self._add(name, address, now)\n",
        "            added = self._add(name, address, now)\n"
        "            if added is not None:\n"
        "                self._layer.timers.schedule_hello(added, now)\n",
    ),
    Mutant(
        "a neighbour is down because it was idle",
        "engine/overlay_sessions",
        "    return max(now - session.suspected_at, 0.0)\n",
        "    return now - session.heard_at\n",
    ),
    Mutant(
        "a peer that is down keeps its links",
        "engine/overlay_sessions",
        "        self._driver.process.disconnect(id, now)\n"
        "        self._driver.drain(now)\n",
        "",
    ),
    Mutant(
        "frames of a former history are taken for the new one",
        "engine/overlay_sessions",
        "            self._table.set_id(session, own)\n            if",
        "            if",
    ),
    Mutant(
        "the message of another node is delivered in the name of this one",
        "engine/deliveries",
        "name, history = self._directory.identity(source)",
        "name, history = self._layer.name, self._layer.history",
    ),
)
