"""The application of a campaign: what each process sends, receives and remembers."""

import asyncio
from dataclasses import dataclass, field, replace
from random import Random

from antecede import Limits, Message, Node
from antecede.core.process import NEVER
from antecede.engine.peer_session import generation_of
from antecede.errors import AntecedeError, StorageError
from antecede.testing import Simulation
from campaign.scenario import NodePlan, Scenario

__all__ = ["PORT", "Accepted", "Log", "Member", "Received", "run_intruder"]

PORT = 9000
GREETING = b"\x00 hello to all"
BURST = 5
"""The number of messages in one call of ``send_many``: small messages to one target."""
BURST_BYTES_MAX = 1000
LIMITS = Limits(lease_s=2.0)
KEY = bytes(range(32))
OTHER_KEY = bytes(32)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that a node has accepted from its application."""

    source: str
    history: int
    number: int
    targets: dict[str, tuple[int, int]]
    """The history and the generation of each target that the source knew before; zeros if
    it knew none."""
    called_s: float
    """When the application called ``send``, which may have waited."""


@dataclass(slots=True)
class Received:
    """A message that an application has received."""

    target: str
    start: int
    """The number of the start of the target."""
    source: str
    history: int
    number: int
    committed: bool = False


@dataclass(slots=True)
class Log:
    """What all applications have seen of a run; it survives every fault."""

    accepted: list[Accepted] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    breaks: list[tuple[float, str, str]] = field(default_factory=list)
    """When, and between which two names, messages may have been given up."""
    errors: list[str] = field(default_factory=list)
    """Errors that no application should see."""
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str) -> None:
        """Count a fault that took effect."""
        self.counts[kind] = self.counts.get(kind, 0) + 1


class Member:
    """One process of a campaign, over all its starts."""

    def __init__(
        self, plan: NodePlan, scenario: Scenario, simulation: Simulation, log: Log
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self.node: Node | None = None
        self.starts = 0
        self.is_slow = False
        self.has_forked = False
        """The journal has lost commits that others have seen the effects of."""
        self.is_gone = False
        """The process has ended for good."""
        self.gone: set[str] = set()
        """The peers that this process knows to have ended for good."""
        self.seen_leaving: set[str] = set()
        """The peers in ``gone`` that announced their end to this process, and need not be
        removed."""
        self.backup: tuple[int, dict[str, bytes]] = (0, {})
        """The history and the files of the journal at some time."""
        self.removed: set[str] = set()
        """The peers that this process has removed and not added again."""
        self.redelivered = 0
        """How many messages were in the inbox when the node was opened."""
        self.greeted_by: set[str] = set()
        """The peers whose last message was received."""
        self._scenario = scenario
        self._simulation = simulation
        self._log = log
        self._random = Random(scenario.seed * 1000 + int(plan.name[1:]))

    async def main(self) -> None:
        """Run the process: open a node, and receive until it is closed."""
        self.starts += 1
        node = self._make_node()
        while True:
            try:
                await node.open()
                break
            except StorageError:  # The disk is full.
                await asyncio.sleep(1)
                node = self._make_node()
        self.redelivered = len(node._runtime.inbox)
        if self.plan.adds_peers and not node.engine.sessions:
            for name, address in self._peers().items():
                node.add_peer(name, address)
        self.node = node
        start = self.starts
        async for message in node:
            self._receive(node, message, start)
            while self.is_slow:  # noqa: ASYNC110 (an event belongs to one event loop)
                await asyncio.sleep(0.2)
        await asyncio.Event().wait()

    def _make_node(self) -> Node:
        scenario, plan = self._scenario, self.plan
        return Node(
            self.name,
            bind=f"{self.name}:{PORT}",
            peers={} if plan.adds_peers else self._peers(),
            protocol=scenario.protocol,
            budget_bytes=scenario.budget_bytes,
            key=KEY if scenario.keyed else None,
            insecure=True,
            limits=replace(
                LIMITS,
                forget_after_s=scenario.forget_after_s,
                inbox_messages_max=plan.inbox_messages_max,
                window_copies_max=plan.window_copies_max,
                message_bytes_max=plan.message_bytes_max,
                # Weeks without messages would take too long with keep-alives.
                keep_alive_s=NEVER if scenario.is_idle else 1.0,
            ),
            journal=f"{self.name}.db" if plan.journal else None,
            journal_sync=plan.sync,
        )

    def _peers(self) -> dict[str, str]:
        return {
            other.name: f"{other.name}:{PORT}"
            for other in self._scenario.nodes
            if other.name != self.name and other.name not in self.removed | self.gone
        }

    def _receive(self, node: Node, message: Message, start: int) -> None:
        received = Received(
            self.name, start, message.source, message.history, message.number
        )
        self._log.received.append(received)
        if message.data == GREETING:
            self.greeted_by.add(message.source)
        if self._random.random() < self.plan.commit:
            self._simulation.spawn(self.name, self._commit(message, received))
        if message.data[:1] > b"\x00" and self._random.random() < 0.6:
            peers = node.peers
            if peers:
                data = bytes([message.data[0] - 1])
                target = self._random.choice(peers)
                self._simulation.spawn(self.name, self.send((target,), data))

    async def _commit(self, message: Message, received: Received) -> None:
        try:
            await message.commit()
        except AntecedeError:
            return
        received.committed = True

    async def send(self, targets: tuple[str, ...], data: bytes) -> None:
        """Send a message, and record that it was accepted."""
        node = self.node
        if node is None:
            return
        is_broadcast = len(targets) == len(self._scenario.nodes) - 1
        called_s = self._simulation.now
        before = set(node.peers)
        sessions = node.engine.sessions
        known = {
            name: (session.history, generation_of(session.epoch_in))
            for name, session in sessions.items()
        }
        try:
            if is_broadcast:
                numbers = [await node.broadcast(data)]
                targets = tuple(name for name in node.peers if name in before)
            elif len(targets) == 1:
                burst = BURST if 1 < len(data) < BURST_BYTES_MAX else 1
                numbers = await node.send_many(targets[0], [data] * burst)
            else:
                numbers = [await node.multicast(targets, data)]
        except AntecedeError as error:
            self._log.count("refused sends")
            if is_broadcast and "is not a peer" in str(error):
                self._log.errors.append(f"a broadcast of {self.name} raised: {error}")
            return
        history = node.engine.history
        to = {name: known.get(name, (0, 0)) for name in targets}
        self._log.accepted += [
            Accepted(self.name, history, number, to, called_s) for number in numbers
        ]

    async def greet(self) -> None:
        """Send a last message to all peers."""
        others = tuple(
            other.name for other in self._scenario.nodes if other.name != self.name
        )
        await self.send(others, GREETING)


async def run_intruder(scenario: Scenario, name: str) -> None:
    """Run a node that has the name of a member, but another key."""
    peers = {
        plan.name: f"{plan.name}:{PORT}" for plan in scenario.nodes if plan.name != name
    }
    node = Node(
        name,
        bind=f"intruder:{PORT}",
        peers=peers,
        key=OTHER_KEY,
        protocol=scenario.protocol,
    )
    await node.open()
    while True:
        await node.broadcast(b"\x03 forged", wait=False)
        await asyncio.sleep(0.3)
