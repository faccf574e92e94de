"""Rooms over the processes of a real protocol, in a network that reorders and loses frames.

A node accepts frames of its peers in the room only, as a node of antecede does: a process
that a newcomer does not know cannot make progress towards it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.driver import drain
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.registry import protocol
from antecede.group.codec import decode_control, encode_control
from antecede.group.effects import (
    AddMember,
    Broadcast,
    Deliver,
    Effect,
    JoinFailed,
    RemoveMember,
    Restore,
    SendControl,
    SendInRoom,
    TakeSnapshot,
)
from antecede.group.frames import (
    APPLICATION,
    MemberState,
    Offer,
    RosterEntry,
    SnapshotStart,
)
from antecede.group.member import CutEntry, Member, RoomMessage
from antecede.group.membership import RoomMembership
from antecede.group.settings import MembershipSettings

__all__ = ["Arrived", "RoomCluster", "RoomNode", "member"]

HISTORY = 1
Key = tuple[str, int]


def member(name: str, admission: int = 1, incarnation: int = 1) -> Member:
    """Return a member whose address is its name."""
    return Member(name=name, address=name, incarnation=incarnation, admission=admission)


@dataclass(frozen=True)
class Arrived:
    """A delivered message."""

    source: str
    number: int
    data: bytes
    history: int = HISTORY


def _key(text: str) -> Key:
    source, number = text.split(":")
    return source, int(number)


class RoomNode:
    """A membership, a process of the protocol, and an application that keeps a log."""

    def __init__(
        self, name: str, id: ProcessId, protocol_name: str, members: Iterable[str]
    ) -> None:
        own = member(name)
        settings = MembershipSettings(join_timeout_s=1e6, answer_timeout_s=1e5)
        self.membership = RoomMembership("room", protocol_name, own, settings)
        self.process = protocol(protocol_name).make(id, ProcessConfig(processes=64))
        self.peers: dict[str, None] = {}
        self.log: list[Key] = []
        self.received: dict[str, int] = {}
        self.sent = 0
        """The last number of its process."""
        self.written = 0
        """The messages of its application."""
        self.failure = ""
        others = [RosterEntry(member(n), MemberState.JOINED) for n in members if n != name]
        if name in members:
            self.membership.resume(encode_control(Offer(1, tuple(others))), 0.0)


class RoomCluster:
    """The nodes of one room, and what is under way between them."""

    def __init__(self, protocol_name: str, members: Iterable[str], seed: int) -> None:
        self.protocol = protocol_name
        self.random = Random(seed)
        self.ids: dict[str, ProcessId] = {}
        self.nodes: dict[str, RoomNode] = {}
        self.packets: list[tuple[str, str, Frame]] = []
        self.channels: dict[tuple[str, str], list[bytes]] = {}
        self.causes: dict[Key, frozenset[Key]] = {}
        self.stalled: set[str] = set()
        """Newcomers at which snapshots do not arrive."""
        self.now = 0.0
        founders = list(members)
        for name in founders:
            self._make(name, founders)

    def _make(self, name: str, members: Iterable[str]) -> None:
        self.ids[name] = ProcessId(len(self.ids))
        self.nodes[name] = RoomNode(name, self.ids[name], self.protocol, members)
        self.settle(name)

    def start(self, name: str, sponsor: str) -> None:
        """Let a newcomer join through a member."""
        self._make(name, ())
        self.nodes[name].membership.join([(sponsor, sponsor)], self.now)
        self.settle(name)

    def broadcast(self, name: str) -> None:
        """Send a message of the application to all peers."""
        node = self.nodes[name]
        node.written += 1
        key = (name, node.written)
        self.causes[key] = frozenset(node.log)
        node.log.append(key)
        data = bytes((APPLICATION,)) + f"{name}:{node.written}".encode()
        self._send(name, data, node.peers)
        self.settle(name)

    def _send(self, name: str, data: bytes, targets: Iterable[str]) -> None:
        ids = [self.ids[target] for target in targets]
        if ids:
            self.nodes[name].sent = self.nodes[name].process.send(ids, data, self.now)
        self._drain(name)

    def _drain(self, name: str) -> None:
        names = list(self.ids)

        def transmit(out: Transmit) -> None:
            self.packets.append((name, names[out.target], out.frame))

        def deliver(delivery: Delivery) -> None:
            node = self.nodes[name]
            source = names[delivery.source]
            message = Arrived(source, delivery.number, delivery.payload)
            node.membership.receive_in_room(message, self.now)

        drain(self.nodes[name].process, deliver, transmit)

    def settle(self, name: str) -> None:
        """Execute all effects of a node."""
        node = self.nodes[name]
        while effects := node.membership.effects():
            for effect in effects:
                self._execute(name, effect)

    def _execute(self, name: str, effect: Effect) -> None:
        node = self.nodes[name]
        if isinstance(effect, SendControl):
            self.channels.setdefault((name, effect.target), []).append(effect.data)
        elif isinstance(effect, SendInRoom):
            self._send(name, effect.data, {effect.target})
        elif isinstance(effect, Broadcast):
            self._send(name, effect.data, node.peers)
        elif isinstance(effect, AddMember):
            node.peers[effect.member.name] = None
            node.membership.member_added(effect.member.name, 1, self.now)
        elif isinstance(effect, RemoveMember):
            node.peers.pop(effect.name, None)
        elif isinstance(effect, TakeSnapshot):
            state = ",".join(f"{source}:{number}" for source, number in node.log)
            cut = [CutEntry(*pair) for pair in self._cut(name)]
            node.membership.snapshot_taken(
                effect.newcomer, effect.admission, state.encode(), cut, self.now
            )
        elif isinstance(effect, Restore):
            texts = effect.snapshot.decode().split(",") if effect.snapshot else []
            node.log = [_key(text) for text in texts]
            node.received = {entry.source: entry.number for entry in effect.cut}
            node.membership.restored(self.now)
        elif isinstance(effect, Deliver):
            self._receive(node, effect.message)
        elif isinstance(effect, JoinFailed):
            node.failure = effect.reason

    def _cut(self, name: str) -> list[tuple[str, int, int]]:
        node = self.nodes[name]
        numbers = node.received | {name: node.sent}
        return [(source, HISTORY, number) for source, number in numbers.items()]

    def _receive(self, node: RoomNode, message: RoomMessage) -> None:
        key = _key(message.data[1:].decode())
        assert key not in node.log, f"{key} twice"
        missing = self.causes[key] - set(node.log)
        assert not missing, f"{key} before {missing}"
        node.log.append(key)
        node.received[message.source] = message.number

    # The network.

    def deliver_some(self, loss: float = 0.0) -> bool:
        """Let one packet or control message arrive; return False if there is none."""
        pairs = [pair for pair in self.channels if not self._is_stalled(pair)]
        count = len(self.packets) + len(pairs)
        if count == 0:
            return False
        index = self.random.randrange(count)
        if index < len(self.packets):
            source, target, frame = self.packets.pop(index)
            if self.random.random() >= loss and source in self.nodes[target].peers:
                process = self.nodes[target].process
                process.receive(self.ids[source], frame, self.now)
                self._drain(target)
        else:
            target = self.deliver_control(*pairs[index - len(self.packets)])
        self.settle(target)
        return True

    def deliver_control(self, source: str, target: str) -> str:
        """Let the next message outside the room arrive, and return its target."""
        channel = self.channels[source, target]
        data = channel.pop(0)
        if not channel:
            del self.channels[source, target]
        self.nodes[target].membership.receive_control(source, data, self.now)
        self.settle(target)
        return target

    def _is_stalled(self, pair: tuple[str, str]) -> bool:
        frame = decode_control(self.channels[pair][0])
        return pair[1] in self.stalled and isinstance(frame, SnapshotStart)

    def pass_time(self) -> None:
        """Let the timers of the protocol run that are due next."""
        times = [node.process.next_timer() for node in self.nodes.values()]
        due = [time for time in times if time is not None]
        if not due:
            return
        self.now = max(self.now, min(due))
        for name, node in self.nodes.items():
            node.process.handle_timer(self.now)
            self._drain(name)
            self.settle(name)

    def finish(self) -> None:
        """Let everything arrive, then check that every node has every message."""
        self.run(600.0, self._is_complete)
        assert self._is_complete(), {
            name: (node.membership.waiting_for, sorted(set(self.causes) - {*node.log}))
            for name, node in self.nodes.items()
        }

    def run(self, seconds: float, until: Callable[[], bool]) -> None:
        """Let everything arrive and timers run, for a time of the protocol at most."""
        end = self.now + seconds
        while self.now < end and not until():
            if not self.deliver_some():
                self.pass_time()

    def _is_complete(self) -> bool:
        names = sorted(self.nodes)
        return all(
            node.membership.members == names and {*node.log} == {*self.causes}
            for node in self.nodes.values()
        )
