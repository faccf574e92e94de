"""What a run must not do: lose, repeat, or leave something behind."""

from collections.abc import Mapping, Sequence

from antecede import Node
from antecede.engine.engine import Engine
from antecede.engine.peer_session import LEFT, generation_of
from antecede.testing import Simulation
from campaign.application import Log, Member

__all__ = [
    "count_lost_wildcards",
    "find_entries",
    "find_full_inboxes",
    "find_losses",
    "find_missing_greetings",
    "find_refused_frames",
    "find_repeats",
    "find_residue",
]


def find_losses(log: Log, living: Sequence[Member]) -> list[str]:
    """Return the accepted messages to living processes that were lost without a reason.

    A message is lost if its target loses its history or forgets the source, even if the
    source learns of that later.
    """
    engines = {
        member.name: member.node.engine for member in living if member.node is not None
    }
    received = {(r.target, r.source, r.history, r.number) for r in log.received}
    found = []
    for message in log.accepted:
        for target, known in message.targets.items():
            key = (target, message.source, message.history, message.number)
            if key in received or target not in engines:
                continue
            if 0 not in known and known != _state(engines[target], message.source):
                continue
            if not any(
                at_s >= message.called_s - 5 and {one, other} == {message.source, target}
                for at_s, one, other in log.breaks
            ):
                found.append(
                    f"loss: {target} never received {message.source}:{message.number},"
                    f" sent at {message.called_s:.3f} s"
                )
    return found


def _state(engine: Engine, source: str) -> tuple[int, int]:
    """Return the history of a node, and the generation of its epoch for a source."""
    session = engine.sessions.get(source)
    return engine.history, generation_of(session.epoch_out) if session is not None else 0


def find_repeats(log: Log) -> list[str]:
    """Return the messages that an application received again without a reason."""
    found = []
    seen: dict[tuple[str, str, int, int], tuple[int, bool]] = {}
    for received in log.received:
        key = (received.target, received.source, received.history, received.number)
        if key in seen:
            start, committed = seen[key]
            if committed or start == received.start:
                why = "after its commit" if committed else "within one start"
                found.append(
                    f"repeat: {received.target} received"
                    f" {received.source}:{received.number} again {why}"
                )
        earlier = seen.get(key, (0, False))[1]
        seen[key] = (received.start, received.committed or earlier)
    return found


def find_residue(living: Sequence[Member], simulation: Simulation) -> list[str]:
    """Return what is not finished although all faults have ended."""
    found = []
    for member in living:
        if not simulation.is_running(member.name) or member.node is None:
            found.append(f"{member.name} does not run")
            continue
        engine = member.node.engine
        process = engine.process
        if engine.backlog:
            blocked = member.node.blocked_messages()
            why = blocked[0].explanation if blocked else "?"
            found.append(f"{member.name} has {engine.backlog} copies not acked: {why}")
        elif process.retained():
            found.append(f"{member.name} retains {process.retained()} copies")
        pending = process.pending
        missing = pending.missing_permits(1) if pending is not None else []
        if missing:
            found.append(
                f"{member.name} misses a permit of {engine.name_of(missing[0][0])}"
            )
        held = pending.held_messages(1) if pending is not None else []
        if held:
            source, number, _ = held[0]
            found.append(f"{member.name} holds {engine.name_of(source)}:{number}")
        others = len(living) - 1
        if len(engine.peers()) != others:
            found.append(f"{member.name} has the peers {engine.peers()}")
        # A peer that was named when the node was created may return without being added.
        kept = others + sum(
            session.state is LEFT and session.is_configured
            for session in engine.sessions.values()
        )
        if len(engine.sessions) > kept or process.known_peers() > kept:
            found.append(
                f"{member.name} keeps {len(engine.sessions)} sessions and"
                f" {process.known_peers()} processes"
            )
        found += _find_rows(member, member.node)
    return found


def find_entries(living: Sequence[Member]) -> list[str]:
    """Return the entries of ``bounded`` that are left although everything is delivered.

    A process that may have nobody to ask learns that an entry is settled when it sends.
    """
    found = []
    for member in living:
        names = member.node.engine._driver.entry_names if member.node is not None else None
        if names is not None:
            count = len(names.dependencies.unsettled())
            if count:
                found.append(f"{member.name} keeps {count} entries")
    return found


def count_lost_wildcards(living: Sequence[Member], simulation: Simulation) -> int:
    """Return the number of wildcards of ``bounded`` that no process can clear.

    Messages to their targets wait until these are removed; docs/explanation/bounded.md
    names this limitation.
    """
    lost = 0
    for member in living:
        if simulation.is_running(member.name) and member.node is not None:
            dependencies = member.node.engine.process.dependencies
            lost += dependencies.count_lost_wildcards() if dependencies is not None else 0
    return lost


def _find_rows(member: Member, node: Node) -> list[str]:
    """Return the rows in the journal of a node that no process needs."""
    files = node._runtime._files
    if files is None or files.journal is None:
        return []
    saved = files.journal.state()
    histories = {peer.name: peer.history for peer in saved.peers}
    found = []
    if saved.copies:
        found.append(f"the journal of {member.name} keeps {len(saved.copies)} copies")
    former = [
        delivery
        for delivery in saved.deliveries
        if delivery.processed and delivery.history != histories.get(delivery.source)
    ]
    if former:
        found.append(f"the journal of {member.name} keeps rows of a former history")
    return found


def find_full_inboxes(members: Mapping[str, Member], simulation: Simulation) -> list[str]:
    """Return the inboxes that hold more messages than their limit."""
    found = []
    for member in members.values():
        if simulation.is_running(member.name) and member.node is not None:
            held = len(member.node._runtime.inbox)
            # Each peer may use a window that was granted before.
            bound = member.plan.inbox_messages_max + len(members) - 1
            # Messages that are redelivered after a restart need no room.
            if held > bound + member.redelivered:
                found.append(f"the inbox of {member.name} holds {held} messages")
    return found


def find_refused_frames(members: Mapping[str, Member], simulation: Simulation) -> list[str]:
    """Return the nodes that refused a frame of a peer as invalid.

    A journal that has lost commits may contain a copy, but not the permits with which the
    copy was released. The node refuses the ack of such a copy until it has the permits.
    """
    found = []
    for member in members.values():
        if member.has_forked or member.node is None:
            continue
        if simulation.is_running(member.name):
            refused = member.node.engine.stats().dropped["frame"]
            if refused:
                found.append(f"{member.name} refused {refused} frames of its peers")
    return found


def find_missing_greetings(living: Sequence[Member]) -> list[str]:
    """Return the last messages that did not arrive."""
    return [
        f"{member.name} did not get the last message of {other.name}"
        for member in living
        for other in living
        if other is not member and other.name not in member.greeted_by
    ]
