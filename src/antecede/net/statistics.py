"""Statistics of a node: counters and blocked messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from antecede.core.process import UNBOUNDED
from antecede.engine.engine import Engine
from antecede.engine.peer_session import ACTIVE
from antecede.engine.statistics import EngineStats
from antecede.net.runtime import NodeRuntime

__all__ = [
    "BlockedMessage",
    "NodeStats",
    "PeerStats",
    "find_blocked_messages",
    "make_stats",
    "runtime_stats",
]

Stage = Literal["queued", "in_flight", "held", "delivered"]

BLOCKED_MAX: Final = 1000
"""Default for the entries of each stage that :func:`find_blocked_messages` returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStats:
    """The state of one peer, as seen by the node."""

    state: str
    """The value of an ``antecede.engine.peer_session.SessionState``, or ``silent`` for an
    active peer that owes an answer for ``Limits.silence_s``."""
    handshake_done: bool
    """Whether the peer has answered since the node was opened."""
    round_trip_s: float | None
    """The smoothed round-trip time; None before the first measurement."""
    silent_s: float | None
    """Time since the last datagram from the peer; None before the first one."""
    backlog: int
    """Copies for the peer that are queued or in flight."""
    backlog_bytes: int
    window_full: bool
    """Whether ``send`` to the peer waits."""
    bytes_in: int
    bytes_out: int
    is_silent: bool
    """Whether an answer of the peer has been overdue for ``Limits.silence_s``."""
    congestion_window_bytes: int | None
    """The bytes that may be in flight; None without congestion control."""
    in_flight_bytes: int
    """The bytes of datagrams with messages that are not acknowledged."""
    dropped: int
    """Datagrams of the peer that were dropped: of another incarnation, or unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedMessage:
    """A message that waits for another process."""

    stage: Stage
    """``queued``: not released, because permits are missing. ``in_flight``: not acked.
    ``held``: arrived before its predecessor, so it is not delivered. ``delivered``: its
    permit is missing, and messages sent after its delivery are queued until it comes."""
    source: str
    number: int
    target: str
    waiting_for: tuple[str, ...]
    """The names of the processes that the message waits for."""
    explanation: str
    """The reason as a sentence."""

    def is_meant(self, source: str | None, number: int | None) -> bool:
        """Return whether the message has this source and number, as far as they are set."""
        return source in (None, self.source) and number in (None, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    """Counters and the current state of one node, or of one node in a room."""

    name: str
    protocol: str
    engine: EngineStats
    transmit_lost: dict[str, int]
    """Datagrams that were lost at the socket of the node, by reason: ``queue_full`` (too
    many wait until the socket accepts more), ``too_large``, or another ``error``."""
    events_dropped: int
    """Events that were dropped because an iterator was not read in time."""
    inbox: int
    """Messages that the application has not received yet."""
    queued: int
    """Copies that are not released, because permits are missing."""
    in_flight: int
    """Copies that are not acked."""
    waiting_for: dict[str, int]
    """The number of blocked messages that wait for each process."""
    peers: dict[str, PeerStats]
    rooms: "dict[str, NodeStats]" = field(default_factory=dict)
    """The statistics of the node in each of its rooms, whose members are the peers. The
    other fields do not count the messages of rooms."""


def find_blocked_messages(engine: Engine, limit: int = BLOCKED_MAX) -> list[BlockedMessage]:
    """Return up to ``limit`` messages of each stage; none for protocols without permits."""
    pending = engine.process.pending
    if pending is None:
        return []
    own = engine.name
    name_of = engine.name_of
    found: list[BlockedMessage] = []
    dependencies = engine.process.dependencies

    def add(
        stage: Stage, source: str, number: int, target: str, peers: Iterable[str], why: str
    ) -> None:
        found.append(
            BlockedMessage(
                stage=stage,
                source=source,
                number=number,
                target=target,
                waiting_for=tuple(dict.fromkeys(peers)),
                explanation=f"{source}:{number} to {target} is {why}",
            )
        )

    for number, target_id, permits in pending.queued_copies(limit):
        missing = ", ".join(f"{name_of(peer)}:{last}" for peer, last in permits)
        why = f"queued: the permits for {missing} are missing"
        peers = [name_of(peer) for peer, _ in permits]
        if not permits and dependencies is not None:
            peers = [name_of(peer) for peer in dependencies.awaited_targets()]
            names = ", ".join(peers) or "others"
            why = (
                f"queued: earlier messages to {names} may not be delivered, and to list"
                " them exceeds the budget"
            )
        add("queued", own, number, name_of(target_id), peers, why)
    for number, target_id in pending.in_flight_copies(limit):
        target = name_of(target_id)
        why = f"in flight: {target} has not acked it"
        session = engine.sessions.get(target)
        if session is not None and session.window == 0:
            why = f"in flight: the inbox of {target} is full, or it has not acked it"
        add("in_flight", own, number, target, [target], why)
    for source_id, number, predecessor in pending.held_messages(limit):
        source = name_of(source_id)
        before = f"{source}:{predecessor}" if predecessor else "none"
        why = f"held: its predecessor ({before}) has not arrived"
        if dependencies is not None:
            why += ", or an earlier message of another node to this one has not"
        add("held", source, number, own, [source], why)
    for source_id, number, _ in pending.missing_permits(limit):
        source = name_of(source_id)
        why = (
            "delivered without a permit: another process has not acked an earlier message"
            f" of {source}"
        )
        add("delivered", source, number, own, [source], why)
    return found


def runtime_stats(
    runtime: NodeRuntime, rooms: Mapping[str, NodeStats] | None = None
) -> NodeStats:
    """Return the statistics of the node that a runtime drives, with those of its rooms."""
    lost = (runtime.transmit_lost, runtime.events.dropped)
    engine = runtime.opened_engine()
    return make_stats(engine, len(runtime.inbox), lost, runtime.now_s(), rooms)


def make_stats(
    engine: Engine,
    inbox: int,
    lost: tuple[Mapping[str, int], int],
    now: float,
    rooms: Mapping[str, NodeStats] | None = None,
) -> NodeStats:
    """Return the statistics of a node.

    Args:
        engine: the engine of the node.
        inbox: the number of messages in the inbox.
        lost: the numbers of datagrams lost at the socket, by reason, and of events.
        now: the time of the host's clock.
        rooms: the statistics of its rooms, by name.
    """
    process = engine.process
    peers: dict[str, PeerStats] = {}
    for name, session in engine.sessions.items():
        path = session.path
        round_trip_s = path.losses.round_trip.smoothed_s
        peers[name] = PeerStats(
            state="silent" if session.is_silent else session.state.value,
            handshake_done=session.handshake.incarnation != 0,
            round_trip_s=round_trip_s if round_trip_s >= 0 else None,
            silent_s=now - session.heard_at if session.handshake.incarnation else None,
            backlog=process.backlog(session.id),
            backlog_bytes=process.backlog_bytes(session.id),
            window_full=session.state is ACTIVE and not engine.has_room((name,)),
            bytes_in=session.bytes_in,
            bytes_out=session.bytes_out,
            is_silent=session.is_silent,
            congestion_window_bytes=path.window if path.window < UNBOUNDED else None,
            in_flight_bytes=path.in_flight,
            dropped=engine.watch.dropped_by_peer.get(name, 0),
        )
    pending = process.pending
    waiting_for: dict[str, int] = {}
    if pending is not None:
        for id, count in pending.count_waiting().items():  # noqa: A001 (the word for it)
            name = engine.name_of(id)
            waiting_for[name] = waiting_for.get(name, 0) + count
    return NodeStats(
        name=engine.name,
        protocol=engine.info.name,
        engine=engine.stats(),
        transmit_lost=dict(lost[0]),
        events_dropped=lost[1],
        inbox=inbox,
        queued=pending.count_queued() if pending is not None else 0,
        in_flight=pending.count_in_flight() if pending is not None else 0,
        waiting_for=waiting_for,
        peers=peers,
        rooms=dict(rooms or {}),
    )
