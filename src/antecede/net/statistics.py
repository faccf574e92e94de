"""What is going on in a node: figures, what waits on whom, and OpenMetrics text."""

from dataclasses import dataclass
from typing import Final

from antecede.core.protocols.hybrid.state import HybridState
from antecede.engine.engine import Engine, EngineStats
from antecede.engine.peer_session import ACTIVE, STATES

__all__ = [
    "NodeStats",
    "PeerStats",
    "Waiting",
    "make_metrics",
    "make_stats",
    "make_waiting",
]

WAITING_MAX: Final = 1000
"""How many entries :func:`make_waiting` returns of each kind, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStats:
    """One peer, as the node sees it."""

    state: str
    """``active``, ``leaving``, ``gone`` or ``left``."""
    met: bool
    """The handshake is done: it has been there."""
    round_trip_s: float | None
    """The smoothed round trip; None before anything was measured."""
    silent_s: float | None
    """How long nothing has come from it; None if nothing ever has."""
    backlog: int
    """Copies for it that wait here or are not acked."""
    backlog_bytes: int
    window_full: bool
    """``send`` to it waits."""
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A message that is not where it should be yet, and what it waits for."""

    what: str
    """``release``: it waits here for permits. ``ack``: it is on its way. ``deliver``: it
    has come before its predecessor. ``permit``: it was delivered, and what is sent after
    it waits for its source's permit."""
    source: str
    number: int
    target: str
    on: tuple[str, ...]
    """Whom it waits for."""
    why: str
    """The same in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    """What a node has done so far, and what is under way."""

    name: str
    protocol: str
    engine: EngineStats
    inbox: int
    """Messages that the application has not taken yet."""
    waiting: int
    """Copies that wait for permits."""
    unacked: int
    """Copies that are on their way."""
    waits_on: dict[str, int]
    """Whom copies and permits wait for, and how many."""
    peers: dict[str, PeerStats]


def make_waiting(engine: Engine, limit: int = WAITING_MAX) -> list[Waiting]:
    """Return what waits, and on whom; nothing for protocols that cannot tell."""
    process = engine.process
    if not isinstance(process, HybridState):
        return []
    own = engine.name
    name_of = engine.name_of
    found: list[Waiting] = []
    for number, target_id, permits in process.waiting_copies(limit):
        target = name_of(target_id)
        owed = [f"{name_of(who)}'s for its message {mine}" for who, mine in permits]
        found.append(
            Waiting(
                what="release",
                source=own,
                number=number,
                target=target,
                on=tuple(dict.fromkeys(name_of(who) for who, _ in permits)),
                why=f"{own}:{number} to {target} waits for permits: {', '.join(owed)}",
            )
        )
    for number, target_id in process.unacked_copies(limit):
        target = name_of(target_id)
        why = f"{own}:{number} is on its way; {target} has not acked it"
        found.append(
            Waiting(
                what="ack", source=own, number=number, target=target, on=(target,), why=why
            )
        )
    for source_id, number, predecessor in process.early_messages(limit):
        source = name_of(source_id)
        before = f"{source}:{predecessor}" if predecessor else "none"
        why = f"{source}:{number} has come; the one before it, {before}, has not"
        found.append(
            Waiting(
                what="deliver",
                source=source,
                number=number,
                target=own,
                on=(source,),
                why=why,
            )
        )
    for source_id, number, _ in process.missing_permits(limit):
        source = name_of(source_id)
        why = (
            f"{source}:{number} was delivered; its permit is missing, because a message of"
            f" {source} before it is not acked by another process"
        )
        found.append(
            Waiting(
                what="permit",
                source=source,
                number=number,
                target=own,
                on=(source,),
                why=why,
            )
        )
    return found


def make_stats(engine: Engine, inbox: int, now: float) -> NodeStats:
    """Return what a node has done so far."""
    process = engine.process
    peers: dict[str, PeerStats] = {}
    for name, remote in engine.remotes.items():
        trip = process.round_trip_s(remote.id)
        peers[name] = PeerStats(
            state=STATES[remote.state],
            met=remote.incarnation != 0,
            round_trip_s=trip if trip >= 0 else None,
            silent_s=now - remote.heard_at if remote.incarnation else None,
            backlog=process.backlog(remote.id),
            backlog_bytes=process.backlog_bytes(remote.id),
            window_full=remote.state == ACTIVE and not engine.has_room((name,)),
            bytes_in=remote.bytes_in,
            bytes_out=remote.bytes_out,
        )
    waiting = make_waiting(engine)
    waits_on: dict[str, int] = {}
    for entry in waiting:
        for name in entry.on:
            waits_on[name] = waits_on.get(name, 0) + 1
    return NodeStats(
        name=engine.name,
        protocol=engine.info.name,
        engine=engine.stats(),
        inbox=inbox,
        waiting=sum(entry.what == "release" for entry in waiting),
        unacked=sum(entry.what == "ack" for entry in waiting),
        waits_on=waits_on,
        peers=peers,
    )


def make_metrics(stats: NodeStats) -> str:
    """Return the figures as OpenMetrics text, for a scrape."""
    node = f'node="{_escaped(stats.name)}"'
    lines: list[str] = []

    def family(name: str, kind: str, meaning: str) -> None:
        lines.append(f"# TYPE antecede_{name} {kind}")
        lines.append(f"# HELP antecede_{name} {meaning}")

    def counter(name: str, meaning: str, value: int) -> None:
        family(name, "counter", meaning)
        lines.append(f"antecede_{name}_total{{{node}}} {value}")

    engine = stats.engine
    counter("sent", "Messages that the application has sent.", engine.sent)
    counter("released", "Copies transmitted for the first time.", engine.released)
    counter("retransmitted", "Copies transmitted again.", engine.retransmitted)
    counter("delivered", "Messages handed to the application.", engine.delivered)
    counter("control_frames", "Frames that carry no message.", engine.control_frames)
    counter("datagrams_in", "Datagrams received.", engine.datagrams_in)
    counter("datagrams_out", "Datagrams transmitted.", engine.datagrams_out)
    family("dropped", "counter", "What was refused, by reason.")
    lines += [
        f'antecede_dropped_total{{{node},reason="{reason}"}} {count}'
        for reason, count in engine.dropped.items()
    ]
    for name, meaning, value in (
        ("inbox", "Messages that the application has not taken yet.", stats.inbox),
        ("waiting", "Copies that wait for permits.", stats.waiting),
        ("unacked", "Copies that are on their way.", stats.unacked),
    ):
        family(name, "gauge", meaning)
        lines.append(f"antecede_{name}{{{node}}} {value}")
    family("waits_on", "gauge", "How much waits for a peer.")
    lines += [
        f'antecede_waits_on{{{node},peer="{_escaped(peer)}"}} {count}'
        for peer, count in stats.waits_on.items()
    ]
    family("round_trip_seconds", "gauge", "The smoothed round trip.")
    lines += [
        f'antecede_round_trip_seconds{{{node},peer="{_escaped(name)}"}} {peer.round_trip_s}'
        for name, peer in stats.peers.items()
        if peer.round_trip_s is not None
    ]
    family("backlog", "gauge", "Copies for a peer that wait or are not acked.")
    lines += [
        f'antecede_backlog{{{node},peer="{_escaped(name)}"}} {peer.backlog}'
        for name, peer in stats.peers.items()
    ]
    return "\n".join([*lines, "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
