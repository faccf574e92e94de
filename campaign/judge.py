"""What a run must not do: lose, repeat, or leave something behind."""

from collections.abc import Mapping

from antecede import Node
from antecede.testing import Simulation
from campaign.application import Log, Member

__all__ = [
    "find_full_inboxes",
    "find_losses",
    "find_missing_greetings",
    "find_repeats",
    "find_residue",
]


def find_losses(log: Log) -> list[str]:
    """Return the accepted messages that were lost without a reason."""
    received = {(r.target, r.source, r.history, r.number) for r in log.received}
    found = []
    for message in log.accepted:
        for target in message.targets:
            key = (target, message.source, message.history, message.number)
            if key in received:
                continue
            if not any(
                at_s >= message.at_s - 5 and {one, other} == {message.source, target}
                for at_s, one, other in log.breaks
            ):
                found.append(
                    f"loss: {target} never received {message.source}:{message.number},"
                    f" accepted at {message.at_s:.3f} s"
                )
    return found


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


def find_residue(members: Mapping[str, Member], simulation: Simulation) -> list[str]:
    """Return what is not finished although all faults have ended."""
    found = []
    for member in members.values():
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
        others = len(members) - 1
        if len(engine.peers()) != others:
            found.append(f"{member.name} has only the peers {engine.peers()}")
        if len(engine.sessions) > others or process.known_peers() > others:
            found.append(
                f"{member.name} keeps {len(engine.sessions)} sessions and"
                f" {process.known_peers()} processes"
            )
        found += _find_rows(member, member.node)
    return found


def _find_rows(member: Member, node: Node) -> list[str]:
    """Return the rows in the journal of a node that nobody needs."""
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


def find_missing_greetings(members: Mapping[str, Member]) -> list[str]:
    """Return the last messages that did not arrive."""
    return [
        f"{member.name} did not get the last message of {other}"
        for member in members.values()
        for other in members
        if other != member.name and other not in member.greeted_by
    ]
