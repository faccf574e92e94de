"""Mutants of engine, sessions and journal, and the seeds that catch them.

``python -m campaign.mutants`` applies each mutant to a copy of the source tree, runs seeds
until one fails, and prints what was found.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutation.mutants import Mutant

__all__ = ["MUTANTS"]

ROOT = Path(__file__).parent.parent
SEEDS = 3000

MUTANTS = (
    Mutant(
        "a removal waits for no lease",
        "engine/departures",
        "return max(now, transmitted_at + self._lease_s)",
        "return now",
    ),
    Mutant(
        "a removal does not start another epoch",
        "engine/departures",
        "        session.epoch_out += 1\n",
        "",
    ),
    Mutant(
        "a removal does not abandon copies",
        "engine/departures",
        "        recovery.abandon(session.id, now)\n",
        "",
    ),
    Mutant(
        "abandoned copies stay in the journal",
        "engine/departures",
        "        self._journal.discard_copies(session)\n",
        "",
    ),
    Mutant(
        "the permits of a stopped peer are forgone without a lease",
        "engine/departures",
        "            ends = now + self._lease_s\n",
        "            ends = now\n",
    ),
    Mutant(
        "the permits of a stopped peer are never forgone",
        "engine/departures",
        "        self._recovery.forgo_permits(id, now)\n",
        "",
    ),
    Mutant(
        "forgone permits are not recorded in the journal",
        "engine/departures",
        "        self._journal.forgo_permits(name, history)\n",
        "",
    ),
    Mutant(
        "the permits of a former history are forgone at once",
        "engine/departures",
        "self._permit_leases.append((now + self._lease_s, former, name, history))",
        "self._permit_leases.append((now, former, name, history))",
    ),
    Mutant(
        "a BYE does not stand for missing permits",
        "engine/departures",
        "            recovery.assume_permits(session.id, now)\n",
        "",
    ),
    Mutant(
        "a higher epoch does not reset the channel",
        "engine/histories",
        "        recovery.reset_channel(session.id, now)\n",
        "",
    ),
    Mutant(
        "another generation does not abandon copies",
        "engine/histories",
        "            self._departures.abandon(session, now)\n",
        "",
    ),
    Mutant(
        "frames for an earlier epoch of the receiver are used",
        "engine/histories",
        "if received.epoch_echo not in (-1, session.epoch_out):",
        "if False:",
    ),
    Mutant(
        "a new history does not abandon the copies to the former one",
        "engine/histories",
        "            recovery.abandon(former, now)\n",
        "",
    ),
    Mutant(
        "a new history keeps the process id of the former one",
        "engine/histories",
        "            self._table.add_id(session)\n",
        "",
    ),
    Mutant(
        "an outdated journal is not noticed",
        "engine/histories",
        "        if introduction is not None and self._is_outdated(session, introduction):",
        "        if False:",
    ),
    Mutant(
        "messages that were not transmitted hide an outdated journal",
        "engine/restore",
        "saved.clock if is_met else peer.number_before",
        "saved.clock",
    ),
    Mutant(
        "a peer that was added later does not reveal an outdated journal",
        "engine/membership",
        "session.number_before = self.table.forgotten_number",
        "session.number_before = self._recovery.last_number() if self._recovery else 0",
    ),
    Mutant(
        "a forgotten peer seems to know more than the node",
        "engine/departures",
        "max(self._table.forgotten_number, number)",
        "0",
    ),
    # The comparison of epochs alone is not missed: a node raises its epoch one lease after
    # it has transmitted the last frame of the epoch before, so a frame of a lower epoch is
    # also older than the lease. A datagram without frames changes nothing but the window,
    # and packet numbers order windows. So both are taken out.
    Mutant(
        "a datagram may be older than the lease, and of a lower epoch",
        "engine/session_layer",
        "        if not 0 <= age_ms < self._lease_ms:\n",
        "        if received.incarnation == handshake.incarnation:\n"
        "            epoch = max(epoch, session.epoch_in)\n"
        "        if False:\n",
    ),
    Mutant(
        "a datagram may be older than the lease",
        "engine/session_layer",
        "if not 0 <= age_ms < self._lease_ms:",
        "if False:",
    ),
    Mutant(
        "an incarnation that is not the latest is accepted",
        "engine/session_layer",
        "            and running_at - TIMESTAMP_RESOLUTION_S <= handshake.met_at\n",
        "            and False\n",
    ),
    # The list of retired incarnations alone is not missed: a retired incarnation had
    # stopped before the current one was met, so its datagrams echo timestamps of earlier
    # times only, and the comparison with that time refuses them. So both are taken out.
    Mutant(
        "a former incarnation is accepted, however long ago it was running",
        "engine/handshake",
        "        self._start(incarnation, now)\n",
        "        self.retired.clear()\n        self._start(incarnation, -NEVER)\n",
    ),
    Mutant(
        "missing permits are not restored",
        "engine/restore",
        "        missing.append((ids[key], delivery.number))\n",
        "",
    ),
    Mutant(
        "restored copies depend on no delivery",
        "engine/restore",
        "dependencies = sum(1 for seq in seqs if seq < copy.seq)",
        "dependencies = 0",
    ),
    Mutant(
        "the last numbers sent are restored without the copies",
        "engine/restore",
        "(peer, max(sent, last.get(peer, 0)), delivered, permitted)",
        "(peer, sent, delivered, permitted)",
    ),
    Mutant(
        "the epoch of a peer is not restored",
        "engine/peer_table",
        "        session.epoch_in = saved.epoch_in\n",
        "",
    ),
    Mutant(
        "the own epoch is not restored",
        "engine/peer_table",
        "        session.epoch_out = saved.epoch_out\n",
        "",
    ),
    Mutant(
        "the history of a peer is not restored",
        "engine/peer_table",
        "        session.history = saved.history\n",
        "",
    ),
    Mutant(
        "the state of a peer is not restored",
        "engine/peer_table",
        "        session.restore_state(saved.state)\n",
        "",
    ),
    Mutant(
        "changed sessions are not recorded",
        "engine/journal_recorder",
        "            writer.record_peer(session, recovery.channel_numbers(session.id))\n",
        "            pass\n",
    ),
    Mutant(
        "deliveries are not recorded",
        "engine/deliveries",
        "                writer.record_delivered(\n"
        "                    name, history, delivery.number, payload,"
        " needs_permit\n                )\n",
        "                pass\n",
    ),
    Mutant(
        "sent messages are not recorded",
        "engine/process_driver",
        "            writer.record_sent(number, targets, payload)\n",
        "            pass\n",
    ),
    Mutant(
        "datagrams leave before their commit",
        "net/runtime",
        "            commits.start(partial(self._transmit_committed, engine, datagrams))\n",
        "            udp.transmit(datagrams)\n"
        "            commits.start(partial(self._transmit_committed, engine, ()))\n",
    ),
    Mutant(
        "send returns before the commit",
        "net/commits",
        "        if self._journal.is_dirty:\n            waiting = self._next",
        "        if self._journal.is_dirty:\n            return\n"
        "            waiting = self._next",
    ),
    Mutant(
        "the number of the last message is not saved",
        "net/journal",
        "            self._record(\"UPDATE meta SET value = ? WHERE key = 'clock'\","
        " (self._clock,))\n",
        "",
    ),
    Mutant(
        "one copy too many is deleted with an ack",
        "net/journal",
        '"DELETE FROM outbox WHERE target = ? AND number <= ?", (name, acked))',
        '"DELETE FROM outbox WHERE target = ? AND number <= ?", (name, acked + 1))',
    ),
    Mutant(
        "commits of messages are not recorded",
        "net/journal",
        '            "UPDATE inbox SET processed = 1"\n'
        '            " WHERE source = ? AND history = ? AND message_number = ?",\n',
        '            "UPDATE inbox SET processed = processed"\n'
        '            " WHERE source = ? AND history = ? AND message_number = ?",\n',
    ),
    Mutant(
        "messages to a peer that must answer first are dropped for good",
        "engine/transmitter",
        "        else:\n            self._layer.timers.schedule_hello(session, now)\n",
        "        else:\n            outbox.clear()\n",
    ),
    Mutant(
        "the next message after an abandonment has a predecessor in the journal",
        "net/journal",
        "        self._last_sent[target] = 0\n",
        "",
    ),
    Mutant(
        "the addresses of peers are not restored",
        "net/engine_factory",
        "engine.set_address(name, resolve_peer(socket, name, address), now)\n",
        "pass\n",
    ),
    Mutant(
        "timestamps have 32 bits",
        "engine/datagram",
        "    return int(now * 1000)\n",
        "    return int(now * 1000) & 0xFFFFFFFF\n",
    ),
    Mutant(
        "the rows of a former history stay in the journal",
        "net/journal",
        'DELETE FROM inbox {condition} AND processed", key)\n',
        'DELETE FROM inbox {condition} AND 0", key)\n',
    ),
    Mutant(
        "a message may be larger than its target accepts",
        "engine/sender",
        "            elif size > session.message_bytes_max:\n",
        "            elif False:\n",
    ),
    Mutant(
        "a full inbox grants room",
        "engine/flow_control",
        "        return self._capacity - self.polled - self.unpolled - self._reserved\n",
        "        return self._capacity\n",
    ),
    Mutant(
        "a broadcast that waits keeps its targets",
        "net/node",
        "to = Targets(is_broadcast=True)\n",
        "to = Targets(names=tuple(self.peers))\n",
    ),
    Mutant(
        "a HELLO of a new epoch is not followed",
        "engine/session_layer",
        "        if not is_bound or introduction.epoch > session.epoch_in:\n",
        "        if not is_bound:\n",
    ),
    Mutant(
        "the rest of a message goes to a target that restarted",
        "net/blocked_sends",
        "            if ended:\n",
        "            if False:\n",
    ),
    Mutant(
        "an earlier history of a peer is accepted",
        "engine/session_layer",
        "if is_later(session.history, history) or (",
        "if (",
    ),
    # bounded.
    Mutant(
        "entries are not recorded in the journal (bounded)",
        "engine/journal_recorder",
        "            record(named, identity(target)[0], number, peer)\n",
        "",
    ),
    Mutant(
        "a new generation keeps the names (bounded)",
        "engine/histories",
        "                session.names.reset(session.history)\n",
        "                pass\n",
    ),
    Mutant(
        "held messages of a former history stay (bounded)",
        "engine/histories",
        "            recovery.drop_held(former)",
        "            pass",
    ),
    Mutant(
        "ended sources are not found (bounded)",
        "engine/ended_sources",
        "                self._entry_names.dependencies.end_source(id, now)\n",
        "",
    ),
    Mutant(
        "messages are held for ever (bounded)",
        "core/protocols/hybrid/ledger",
        "return self.hold_s < NEVER and now - self.peer(id).heard_at > self.hold_s",
        "return False",
    ),
    Mutant(
        "deliveries that another message causes are not recorded (bounded)",
        "engine/deliveries",
        "                    self._journal.session_changed(session)\n",
        "                    pass\n",
    ),
)


def find_seed(mutant: Mutant, directory: Path, first: int, seeds: int) -> str:
    """Return the seed that catches a mutant, and what it found; empty if none does."""
    source = directory / "src"
    shutil.copytree(
        ROOT / "src", source, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    path = source / "antecede" / f"{mutant.module}.py"
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: the text to replace does not occur once")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    program = (
        "from campaign.run import run_scenario\n"
        "from campaign.scenario import draw_scenario\n"
        f"for seed in range({first}, {first + seeds}):\n"
        "    outcome = run_scenario(draw_scenario(seed))\n"
        "    if outcome.failed:\n"
        "        print(seed, (outcome.violations + outcome.stuck)[0][:150])\n"
        "        break\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip()[-150:]


def main() -> int:
    """Print every mutant, and what caught it."""
    parser = argparse.ArgumentParser(prog="python -m campaign.mutants", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many to try")
    parser.add_argument("--only", default="", help="mutants whose names contain this")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.name]

    def hunt(mutant: Mutant) -> tuple[Mutant, str]:
        with tempfile.TemporaryDirectory() as directory:
            found = find_seed(mutant, Path(directory), arguments.first, arguments.seeds)
            return mutant, found

    survivors = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in as_completed([pool.submit(hunt, mutant) for mutant in chosen]):
            mutant, caught = done.result()
            survivors += not caught
            print(f"{mutant.name}\n    {caught or 'NOT CAUGHT'}", flush=True)
    print(f"{len(chosen)} mutants, {len(chosen) - survivors} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
