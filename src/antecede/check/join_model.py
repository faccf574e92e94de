"""A model of a room: real memberships over an abstract causal multicast.

The multicast delivers a message at a target as soon as all messages to this target are
delivered there that happened before it, in the view of the multicast. Every protocol that
keeps causal order delivers at such a moment or later, so the schedules of all of them are
among those of the model. Messages outside the room arrive in the order of each pair, at any
time. The application of each member is the list of messages that it has received or sent; a
snapshot is this list.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from antecede.check.join_node import (
    HISTORY,
    SETTINGS,
    Action,
    Arrival,
    JoinViolation,
    Message,
    Node,
    canonical_form,
    model_member,
)
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
    Answer,
    ChunkAck,
    Inquiry,
    MemberState,
    Offer,
    RosterEntry,
)
from antecede.group.member import CutEntry

__all__ = ["JoinConfig", "JoinModel"]

PROMPT: Final = (Inquiry, Answer, ChunkAck)
"""Messages outside the room that arrive at once: their receivers' reactions commute with
everything else."""


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """The bounds of a search."""

    members: int = 3
    newcomers: Mapping[str, str] = field(default_factory=lambda: {"x": "a"})
    """Each newcomer, and the node through which it joins; of a member ``a``, or of a
    newcomer, which must have joined before."""
    sends: Mapping[str, int] = field(default_factory=dict)
    """The number of messages that the application of each node broadcasts."""
    crashes: tuple[str, ...] = ()
    """The nodes that may crash. At most one of them crashes, at any moment."""
    timeouts: int = 0
    """The maximum number of times that a newcomer suspects a live sponsor."""


class JoinModel:
    """One state of the model; actions change it, and properties are checked on the way."""

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        names = [chr(ord("a") + index) for index in range(config.members)]
        self.nodes = {name: Node(name, 1) for name in names}
        self.messages: dict[tuple[str, int], Message] = {}
        self.channels: dict[tuple[str, str], list[bytes]] = {}
        self.causes: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
        """For each message of an application, those that happened before it."""
        self.crashed: frozenset[str] = frozenset()
        self.sends = dict(config.sends)
        self.timeouts = config.timeouts
        everyone = [
            RosterEntry(model_member(name, 1), MemberState.JOINED) for name in names
        ]
        for name, node in self.nodes.items():
            others = tuple(e for e in everyone if e.member.name != name)
            node.membership.resume(encode_control(Offer(1, others)), 0.0)
            self._settle(name)

    # Actions.

    def actions(self) -> Iterator[Action]:
        """Yield the actions that are possible."""
        for (source, number), message in self.messages.items():
            for target in message.targets:
                if self._may_deliver(source, target, message):
                    yield "deliver", source, str(number), target
        for source, target in self.channels:
            yield "control", source, target
        for name, count in self.sends.items():
            node = self.nodes.get(name)
            if count and node is not None and node.membership.is_member:
                yield "send", name
        for name, node in self.nodes.items():
            for newcomer, admission in node.snaps:
                yield "snapshot", name, newcomer, str(admission)
            for other in self.crashed:
                if other in node.peers:
                    yield "lose", name, other
        for name, sponsor in self.config.newcomers.items():
            if name not in self.nodes.keys() | self.crashed:
                node = self.nodes.get(sponsor)
                if sponsor in self.crashed or (node and node.membership.is_member):
                    yield "start", name
        for name in self._newcomers():
            if self.crashed.intersection(self.nodes[name].membership.waiting_for):
                yield "timeout", name

    def faults(self) -> Iterator[Action]:
        """Yield the possible crashes and false suspicions: a schedule may have none."""
        if not self.crashed:
            for name in self.config.crashes:
                if name in self.nodes:
                    yield "crash", name
        if self.timeouts:
            for name in self._newcomers():
                yield "suspect", name

    def _newcomers(self) -> list[str]:
        """Return the newcomers that have begun to join and are no members."""
        return [
            name
            for name in self.config.newcomers
            if name in self.nodes and not self.nodes[name].membership.is_member
        ]

    def _may_deliver(self, source: str, target: str, message: Message) -> bool:
        node = self.nodes[target]
        if source not in node.peers:
            return False
        for earlier in message.past:
            waiting = self.messages.get(earlier)
            if waiting is not None and target in waiting.targets:
                return False
        return True

    def act(self, action: Action) -> None:
        """Perform an action; raise JoinViolation if it breaks a property."""
        kind, name = action[0], action[-1]
        if kind == "deliver":
            self._deliver(action[1], int(action[2]), name)
        elif kind == "control":
            self._pass_on(action[1], name)
        elif kind == "send":
            self._send(action[1])
            name = action[1]
        elif kind == "snapshot":
            self._take_snapshot(action[1], action[2], int(action[3]))
            name = action[1]
        elif kind == "lose":
            node = self.nodes[action[1]]
            node.membership.member_lost(name, node.now)
            name = action[1]
        elif kind == "start":
            self.nodes[name] = Node(name, 1)
            self.nodes[name].membership.join(self._sponsors(name), 0.0)
        elif kind == "crash":
            self._crash(name)
            return
        else:
            node = self.nodes[name]
            self.timeouts -= kind == "suspect"
            node.now += SETTINGS.answer_timeout_s
            node.membership.handle_timer(node.now)
        self._settle(name)

    def _sponsors(self, name: str) -> list[tuple[str, str]]:
        """Return the nodes that a newcomer asks: all if its sponsor may fail."""
        sponsors = [self.config.newcomers[name]]
        if self.config.crashes or self.config.timeouts:
            sponsors = [n for n in self.nodes if n not in self.config.newcomers]
        return [(sponsor, sponsor) for sponsor in sponsors]

    def _deliver(self, source: str, number: int, target: str) -> None:
        node = self.nodes[target]
        message = self.messages[source, number]
        node.past |= message.past | {(source, number)}
        self._complete((source, number), target)
        room_message = Arrival(source, HISTORY, number, message.data)
        node.membership.receive_in_room(room_message, node.now)

    def _complete(self, key: tuple[str, int], target: str) -> None:
        message = self.messages[key]
        targets = message.targets - {target}
        if targets:
            self.messages[key] = message._replace(targets=targets)
            return
        # No process waits for this message any more: forget it.
        del self.messages[key]
        for node in self.nodes.values():
            if key in node.past:
                node.past -= {key}
                node.text = ""
        for later, message in self.messages.items():
            if key in message.past:
                self.messages[later] = message._replace(past=message.past - {key})

    def _pass_on(self, source: str, target: str) -> None:
        channel = self.channels[source, target]
        data = channel.pop(0)
        if not channel:
            del self.channels[source, target]
        node = self.nodes[target]
        node.membership.receive_control(source, data, node.now)

    def _send(self, name: str) -> None:
        node = self.nodes[name]
        self.sends[name] -= 1
        key = self._multicast(name, bytes((APPLICATION,)), node.peers)
        self.causes[key] = frozenset(node.log)
        node.log += (key,)

    def _multicast(self, name: str, data: bytes, targets: set[str]) -> tuple[str, int]:
        node = self.nodes[name]
        node.sent += 1
        key = (name, node.sent)
        alive = frozenset(targets) - self.crashed
        if alive:
            self.messages[key] = Message(data, alive, node.past)
            node.past |= {key}
        return key

    def _take_snapshot(self, name: str, newcomer: str, admission: int) -> None:
        node = self.nodes[name]
        node.snaps.discard((newcomer, admission))
        state = ",".join(f"{source}{number}" for source, number in node.log).encode()
        cut = [CutEntry(source, HISTORY, last) for source, last in node.received.items()]
        cut.append(CutEntry(name, HISTORY, node.sent))
        node.membership.snapshot_taken(newcomer, admission, state, cut, node.now)

    def _crash(self, name: str) -> None:
        self.crashed |= {name}
        del self.nodes[name]
        for key, message in list(self.messages.items()):
            if name in message.targets:
                self._complete(key, name)
        for pair in [pair for pair in self.channels if name in pair]:
            del self.channels[pair]

    # Effects.

    def _settle(self, name: str) -> None:
        """Execute the effects of a node, and pass on the messages that arrive at once."""
        names = [name]
        while names:
            acting = names.pop()
            self.nodes[acting].text = ""
            while effects := self.nodes[acting].membership.effects():
                for effect in effects:
                    self._execute(acting, effect)
            for pair, channel in list(self.channels.items()):
                if isinstance(decode_control(channel[0]), PROMPT):
                    self._pass_on(*pair)
                    names.append(pair[1])

    def _execute(self, name: str, effect: Effect) -> None:
        node = self.nodes[name]
        if isinstance(effect, SendControl):
            if effect.target in self.nodes:
                channel = self.channels.setdefault((name, effect.target), [])
                channel.append(effect.data)
        elif isinstance(effect, SendInRoom):
            if effect.target not in node.peers:
                raise JoinViolation(f"{name} sends to {effect.target}, which is no peer")
            self._multicast(name, effect.data, {effect.target})
        elif isinstance(effect, Broadcast):
            self._multicast(name, effect.data, node.peers)
        elif isinstance(effect, AddMember):
            node.peers.add(effect.member.name)
            node.membership.member_added(effect.member.name, 1, node.now)
        elif isinstance(effect, RemoveMember):
            self._remove(name, effect.name)
        elif isinstance(effect, TakeSnapshot):
            node.snaps.add((effect.newcomer, effect.admission))
        elif isinstance(effect, Restore):
            texts = effect.snapshot.decode().split(",") if effect.snapshot else []
            node.log = tuple((text[0], int(text[1:])) for text in texts)
            node.received = {entry.source: entry.number for entry in effect.cut}
            node.membership.restored(node.now)
        elif isinstance(effect, Deliver):
            self._receive(name, (effect.message.source, effect.message.number))
        elif isinstance(effect, JoinFailed):
            raise JoinViolation(f"{name} does not join: {effect.reason}")

    def _remove(self, name: str, peer: str) -> None:
        self.nodes[name].peers.discard(peer)
        for key, message in list(self.messages.items()):
            if key[0] == peer and name in message.targets:
                self._complete(key, name)

    def _receive(self, name: str, key: tuple[str, int]) -> None:
        node = self.nodes[name]
        text = f"{key[0]}{key[1]}"
        if key in node.log:
            raise JoinViolation(f"{name} receives {text} twice")
        for cause in self.causes[key] - set(node.log):
            if cause[0] not in self.crashed:
                raise JoinViolation(
                    f"{name} receives {text} before {cause[0]}{cause[1]},"
                    " which happened before it"
                )
        node.log += (key,)
        node.received[key[0]] = key[1]

    # Properties of the last states.

    def check_end(self) -> None:
        """Raise JoinViolation unless all nodes are members and have all messages."""
        everyone = sorted(self.nodes)
        missing = {*self.config.newcomers} - self.crashed - self.nodes.keys()
        if missing:
            raise JoinViolation(f"{min(missing)} never begins to join")
        expected = {key for key in self.causes if key[0] in self.nodes}
        for name, node in self.nodes.items():
            membership = node.membership
            if not membership.is_member:
                waiting = ", ".join(membership.waiting_for)
                raise JoinViolation(f"{name} waits for {waiting} for ever")
            if membership.members != everyone:
                raise JoinViolation(f"{name} has the members {membership.members}")
            lost = expected - {*node.log}
            if lost:
                source, number = min(lost)
                raise JoinViolation(f"{name} misses {source}{number}")
        for (source, number), message in self.messages.items():
            if source in self.nodes:
                target = min(message.targets)
                raise JoinViolation(f"{source}{number} never arrives at {target}")

    def fingerprint(self) -> bytes:
        """Return a hash of the state."""
        state = (
            [(name, self.nodes[name].canonical()) for name in sorted(self.nodes)],
            self.messages,
            self.channels,
            self.causes,
            self.crashed,
            self.sends,
            self.timeouts,
        )
        return blake2b(repr(canonical_form(state)).encode(), digest_size=16).digest()
