"""The application of a campaign of rooms, which checks the messages that it receives.

A *life* is the time of a node in a room between a join and its end: a restart, a removal or
leaving. An application numbers the messages of a life, and its state has the number of the
last one of each life. A message contains the state of its sender. So its receiver detects
missing, duplicate and early messages at once.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from antecede import Limits, Message, Node, WhenSilent
from antecede.errors import AntecedeError
from antecede.net.rooms.room import Room
from antecede.testing import Simulation
from campaign.room_scenario import RoomScenario

__all__ = ["LifeLog", "RoomMember"]

PORT = 9000
KEY = bytes(range(32))
LIMITS = Limits(lease_s=2.0, keep_alive_s=1.0)
SEEDS = 2
"""The number of nodes that are the seeds of the others."""
RETRY_S = 1.0


@dataclass(slots=True)
class LifeLog:
    """The observations of all applications in a run."""

    sent: dict[str, int] = field(default_factory=dict)
    """The number of messages that each life has sent."""
    ended: set[str] = field(default_factory=set)
    """The lives that have ended: other nodes may lack some of their messages."""
    doubled: list[str] = field(default_factory=list)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    """The life of a receiver, that of a sender, and what was missed."""
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    received: int = 0

    def count(self, kind: str) -> None:
        """Count an event."""
        self.counts[kind] = self.counts.get(kind, 0) + 1


class Place:
    """One node in one room: its life there, and its state."""

    def __init__(self, member: "RoomMember", room: str) -> None:
        self.member = member
        self.room = room
        self.state: dict[str, int] = {}
        self.life = ""
        self.joined: Room | None = None
        self.is_slow = False
        self.is_writing = asyncio.Lock()

    def begin(self, state: dict[str, int]) -> None:
        """Begin another life with a state."""
        member = self.member
        self.end()
        member.lives += 1
        self.life = f"{self.room}/{member.name}/{member.lives}"
        self.state = dict(state)
        member.log.sent[self.life] = 0

    def end(self) -> None:
        """End the life, if there is one."""
        if self.life:
            self.member.log.ended.add(self.life)

    def snapshot(self) -> bytes:
        """Return the state."""
        self.member.log.count("snapshots")
        return json.dumps(self.state).encode() + bytes(self.member.scenario.snapshot_bytes)

    def restore(self, snapshot: bytes) -> None:
        """Begin another life with the state of another application."""
        self.member.log.count("restored")
        self.begin(json.loads(snapshot.rstrip(b"\0")))

    async def write(self, size: int) -> None:
        """Send the next message of this life to all."""
        room, log = self.joined, self.member.log
        if room is None:
            return
        async with self.is_writing:
            if self.member.name not in room.members:
                return  # It joins again, and begins another life.
            life = self.life
            log.sent[life] += 1
            number = log.sent[life]
            data = json.dumps([life, number, self.state]).encode() + b" " * size
            self.state[life] = number
            try:
                await room.broadcast(data)
            except AntecedeError as error:
                if life == self.life and self.member.name in room.members:
                    log.errors.append(f"{life} cannot broadcast: {error}")

    def receive(self, message: Message) -> None:
        """Check a message against the state, and add it."""
        log = self.member.log
        log.received += 1
        life, number, state = json.loads(message.data)
        known = self.state.get(life, 0)
        if number <= known:
            log.doubled.append(f"{self.life} gets {life}:{number} twice")
        elif number > known + 1:
            log.missed.append((self.life, life, f"got {number} after {known}"))
        self.state[life] = max(number, known)
        for other, last in state.items():
            if self.state.get(other, 0) < last and other != life:
                found = (self.life, other, f"{life}:{number} came before {other}:{last}")
                log.missed.append(found)


class RoomMember:
    """One process, over all its starts."""

    def __init__(
        self, name: str, scenario: RoomScenario, simulation: Simulation, log: LifeLog
    ) -> None:
        self.name = name
        self.scenario = scenario
        self.simulation = simulation
        self.log = log
        self.lives = 0
        self.node: Node | None = None
        self.places: dict[str, Place] = {}

    async def main(self) -> None:
        """Run the process: join all rooms, and receive."""
        scenario = self.scenario
        seeds = [name for name in scenario.names[:SEEDS] if name != self.name]
        self.end_lives()
        self.places = {room: Place(self, room) for room in scenario.rooms}
        node = Node(
            self.name,
            bind=f"{self.name}:{PORT}",
            seeds=[f"{seed}:{PORT}" for seed in seeds],
            key=KEY if scenario.keyed else None,
            insecure=True,
            limits=LIMITS,
            journal=f"{self.name}.db" if scenario.journals else None,
        )
        self.node = node
        await node.open()
        async with asyncio.TaskGroup() as group:
            for place in self.places.values():
                group.create_task(self._stay(node, place))

    async def _stay(self, node: Node, place: Place) -> None:
        """Join a room, and again after leaving it."""
        while True:
            options: dict[str, Any] = {
                "protocol": self.scenario.protocol,
                "when_silent": WhenSilent.remove(self.scenario.silence_limit_s),
                "timeout_s": 20.0,
                "snapshot": place.snapshot,
                "restore": place.restore,
            }
            try:
                room = await node.join(place.room, **options)
            except AntecedeError:
                self.log.count("joins that failed")
                await asyncio.sleep(RETRY_S)
                continue
            if not place.life or place.life in self.log.ended:
                place.begin({})  # It has founded the room.
                self.log.count("founded")
            place.joined = room
            async for message in room:
                place.receive(message)
                while place.is_slow:  # noqa: ASYNC110 (an event belongs to one event loop)
                    await asyncio.sleep(0.1)
            place.end()
            place.joined = None
            await asyncio.sleep(RETRY_S)

    async def leave(self, room: str) -> None:
        """Leave a room; the process joins it again later."""
        place = self.places[room]
        async with place.is_writing:
            joined = place.joined
            if joined is not None:
                self.log.count("leave")
                place.end()
                await joined.leave(2.0)

    async def remove(self, room: str, target: str) -> None:
        """Remove another member."""
        joined = self.places[room].joined
        if joined is not None and target in joined.members and self.name in joined.members:
            self.log.count("remove")
            await joined.remove(target)

    def end_lives(self) -> None:
        """Note that the process has ended."""
        for place in self.places.values():
            place.end()
