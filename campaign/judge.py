"""What a run must not do: lose, repeat, or leave something behind."""

from collections.abc import Mapping

from antecede.testing import Simulation
from campaign.application import Log, Member

__all__ = ["find_losses", "find_repeats", "find_residue"]


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
        if len(engine.sessions) > others:
            found.append(f"{member.name} keeps {len(engine.sessions)} sessions")
    return found
