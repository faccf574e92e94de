"""Mutants of loss recovery and congestion control."""

from tests.mutation.mutant import Mutant

__all__ = ["TRANSPORT_MUTANTS"]

TRANSPORT_MUTANTS = (
    Mutant(
        "a lost frame is not reported",
        "engine/loss_recovery",
        "self._driver.report_lost(packet.peer, frames, packet.sent_at, now)",
        "pass",
    ),
    Mutant(
        "a datagram is acknowledged although a message in it was dropped",
        "engine/process_driver",
        'is REMOVING else "inbox"] += 1\n                is_complete = False\n',
        'is REMOVING else "inbox"] += 1\n',
    ),
    Mutant(
        "a datagram is lost as soon as a later one is acknowledged",
        "engine/loss_detection",
        "if largest - number < threshold and packet.sent_at + delay_s > now:",
        "if False:",
    ),
    Mutant(
        "no datagram is lost before a probe timeout",
        "engine/loss_detection",
        "if largest - number < threshold and packet.sent_at + delay_s > now:",
        "if True:",
    ),
    Mutant(
        "no datagram is lost because it is old",
        "engine/loss_detection",
        "                self._loss_at = packet.sent_at + delay_s\n",
        "",
    ),
    Mutant(
        "probe timeouts do not double",
        "engine/loss_detection",
        "if self.probes > 0:",
        "if False:",
    ),
    Mutant(
        "an acknowledgement does not end the doubling",
        "engine/loss_detection",
        "        self.probes = 0\n        if newest",
        "        if newest",
    ),
    Mutant(
        "no probe is transmitted",
        "engine/path",
        "        self._probe_datagrams = PROBED_PACKETS\n"
        "        self.wants_answer = True\n",
        "",
    ),
    Mutant(
        "a late packet does not raise the thresholds",
        "engine/loss_detection",
        "                self.packet_threshold = threshold\n",
        "",
    ),
    Mutant(
        "control frames are probed for ever",
        "engine/loss_detection",
        "return self.probes >= CONTROL_PROBES_MAX and",
        "return False and",
    ),
    Mutant(
        "the delay of the peer counts as a round trip",
        "engine/round_trip",
        "            adjusted_s -= ack_delay_s\n",
        "            pass\n",
    ),
    Mutant(
        "the window does not bound the bytes in flight",
        "engine/path",
        "self.in_flight + datagram_bytes > controller.window:",
        "False:",
    ),
    Mutant(
        "lost bytes stay in flight",
        "engine/path",
        "                self.in_flight -= packet.size\n",
        "",
    ),
    Mutant(
        "the window is checked only at the start of a flush",
        "engine/transmitter",
        "if has_messages and not session.path.has_room(now):",
        "if False:",
    ),
    Mutant(
        "a loss does not reduce the window",
        "engine/path",
        "            self.controller.on_lost(last_at, now)\n",
        "",
    ),
    Mutant(
        "persistent congestion does not collapse the window",
        "engine/path",
        "                self.controller.on_persistent_congestion()\n",
        "",
    ),
    Mutant(
        "each loss of a round trip reduces the window",
        "engine/cubic",
        "        if sent_at <= self._recovery_at:\n            return\n        window",
        "        window",
    ),
    Mutant(
        "the window grows while it is not used",
        "engine/congestion",
        "if sent_at <= self._recovery_at or not is_limited:",
        "if sent_at <= self._recovery_at:",
    ),
    Mutant(
        "an idle path keeps its window",
        "engine/path",
        "                self.controller.on_idle()\n",
        "                pass\n",
    ),
    Mutant(
        "a held message ignores a window that has shrunk",
        "engine/outbox",
        "if windows is not None and not windows.allows(id, key[1], is_again):",
        "if False:",
    ),
    Mutant(
        "acks wait for room on the path",
        "engine/outbox",
        "            if key == NO_KEY:\n                others.append(frame)\n",
        "            if key == NO_KEY:\n",
    ),
    Mutant(
        "no ack block is due for frames that need no answer",
        "engine/acknowledgements",
        "            self.due = now + ACK_DELAY_MAX_S\n",
        "            self.due = NEVER\n",
    ),
    Mutant(
        "an acknowledgement of unknown packets is used",
        "engine/loss_recovery",
        "if acks.largest > session.last_packet:",
        "if False:",
    ),
    Mutant(
        "a lost copy is transmitted again although it was transmitted since",
        "core/protocols/hybrid/lost_frames",
        "        and copy.transmitted_at <= sent_at\n",
        "",
    ),
    Mutant(
        "a lost permit is not transmitted again",
        "core/protocols/hybrid/lost_frames",
        "    elif isinstance(frame, Permit):\n        algorithm.permit(peer)\n",
        "    elif isinstance(frame, Permit):\n        pass\n",
    ),
    Mutant(
        "a lost ack is not transmitted again",
        "core/protocols/hybrid/lost_frames",
        "            ack = Ack(peer.delivered, peer.delivered)\n"
        "            algorithm.transmits.append(Transmit(id, ack))\n",
        "            pass\n",
    ),
    Mutant(
        "a message to other targets overtakes the pending bundle",
        "engine/sender",
        "        self.hand_over(now)\n        ids: list[ProcessId] = []\n",
        "        ids: list[ProcessId] = []\n",
    ),
    Mutant(
        "the pending bundle waits while a datagram is received",
        "engine/engine",
        "        self._sender.hand_over(now)\n        received = self._layer",
        "        received = self._layer",
    ),
    Mutant(
        "the pending bundle waits while timers expire",
        "engine/engine",
        "        self._sender.hand_over(now)\n        self._deadlines",
        "        self._deadlines",
    ),
    Mutant(
        "messages join a bundle for another target",
        "engine/bundle",
        "            or target != self.target\n",
        "",
    ),
    Mutant(
        "the messages of a bundle have the numbers after it",
        "engine/deliveries",
        "        number = last - len(parts)\n",
        "        number = last - 1\n",
    ),
    Mutant(
        "a bundle takes one number",
        "core/protocols/hybrid/algorithm",
        "        state.clock += count\n",
        "        state.clock += 1\n",
    ),
    Mutant(
        "a bundle counts as one message in the window of the sender",
        "core/protocols/hybrid/state",
        "        peer.backlog += copy.count\n",
        "        peer.backlog += 1\n",
    ),
    Mutant(
        "a bundle counts as one message in the receive window",
        "core/protocols/hybrid/algorithm",
        "        peer.released += copy.count\n",
        "        peer.released += 1\n",
    ),
    Mutant(
        "a bundle uses the room of one message",
        "engine/deliveries",
        "self._flow.record_deliveries(session, len(parts))",
        "self._flow.record_deliveries(session, 1)",
    ),
    Mutant(
        "a size has failed after one lost probe",
        "engine/path_mtu",
        "        if self._tries < PROBES_MAX:",
        "        if False:",
    ),
    Mutant(
        "a probe that was lost counts as acknowledged",
        "engine/path_mtu",
        "            self._failed = self.candidate\n            self._choose(now)\n",
        "            self.probe_acknowledged(now)\n",
    ),
    Mutant(
        "a black hole is not noticed",
        "engine/path_mtu",
        "if self._lost >= BLACK_HOLE_LOSSES and",
        "if False and",
    ),
    Mutant(
        "every third lost large datagram is a black hole",
        "engine/path_mtu",
        "        if sent_at <= self._carried_at:\n            return\n",
        "",
    ),
    Mutant(
        "failed sizes are never tried again",
        "engine/path",
        "            mtu.try_again()\n",
        "            pass\n",
    ),
    Mutant(
        "a size that the socket refused is used again",
        "engine/path_mtu",
        "            self.size = self.base\n        self._choose",
        "            pass\n        self._choose",
    ),
    Mutant(
        "fragments are cut for the largest datagram",
        "engine/engine",
        "body_bytes_max = bounds.base_bytes -",
        "body_bytes_max = bounds.datagram_bytes_max -",
    ),
    Mutant(
        "a lost probe counts as congestion",
        "engine/transmitter",
        "path.record_sent(number, session.id, NO_FRAMES, len(datagram), False, now)",
        "path.record_sent(number, session.id, NO_FRAMES, len(datagram), True, now)",
    ),
)
