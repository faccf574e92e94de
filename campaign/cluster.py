"""The processes of a run, and what can happen to each of them."""

import contextlib
from random import Random

from antecede import Node
from antecede.engine.peer_session import LEFT
from antecede.errors import AntecedeError, StorageError
from antecede.net.faults import Faults
from antecede.testing import Simulation
from campaign.application import PORT, Log, Member
from campaign.scenario import Scenario

__all__ = ["Cluster"]


class Cluster:
    """The processes of a run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.log = Log()
        self.faults = Faults(
            loss=scenario.loss,
            duplicate=scenario.duplicate,
            delay_s=scenario.delay_s,
            jitter_s=scenario.jitter_s,
        )
        self.simulation = Simulation(scenario.seed, self.faults)
        self.members = {
            plan.name: Member(plan, scenario, self.simulation, self.log)
            for plan in scenario.nodes
        }
        self.random = Random(scenario.seed + 1)
        self.moved: set[str] = set()
        """The processes whose address has changed."""
        self.skipped = 0.0
        """Seconds of idleness, which the times of the actions do not include."""
        self._histories: dict[str, tuple[int, int]] = {}

    @property
    def has_forked(self) -> bool:
        """Whether a node has lost commits that others have seen the effects of."""
        return any(member.has_forked for member in self.members.values())

    @property
    def living(self) -> list[Member]:
        """The processes that have not ended for good."""
        return [member for member in self.members.values() if not member.is_gone]

    def start(self, member: Member) -> None:
        """Start a process."""
        plan = member.plan
        self.simulation.start(
            member.name,
            member.main,
            daemon=True,
            clock_start_s=plan.clock_start_s,
            clock_rate=plan.clock_rate,
        )

    def later(self, seconds: float, function: object, *arguments: object) -> None:
        """Call a function later."""
        assert callable(function)
        self.simulation.call_later(seconds, lambda: function(*arguments))

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        if self.simulation.is_running(name):
            self.simulation.resume(name)

    def send_before_end(self, member: Member, to: str) -> None:
        """Let a process send to one peer, and then to another, before it ends.

        The first datagram may arrive last: permits, leases and epochs must keep the order.
        """
        others = [name for name in self.members if name not in (member.name, to)]
        for target in (to, self.random.choice(others)):
            self.simulation.spawn(member.name, member.send((target,), b"\x03"))
        self.simulation.run_for(0.001)

    def restart(self, member: Member) -> None:
        """Start a process again if it does not run."""
        if not member.is_gone and not self.simulation.is_running(member.name):
            member.node = None
            self.start(member)

    def history_ends(self, member: Member, *, keeps: bool) -> None:
        """Record that messages from and to a process may be lost now.

        A process that is to end for good, and is killed while it leaves, is not restarted.
        """
        if not keeps or member.is_gone:
            member.seen_leaving.clear()
            for other in self.members:
                self.log.breaks.append((self.simulation.now, member.name, other))

    def find_new_histories(self) -> None:
        """Record the nodes that have begun a new history, because theirs was outdated."""
        for member in self.members.values():
            node = member.node
            if node is not None and self.simulation.is_running(member.name):
                start, history = member.starts, node.engine.history
                known = self._histories.get(member.name, (start, history))
                self._histories[member.name] = start, history
                if known[1] == history:
                    continue
                self.history_ends(member, keeps=False)
                if known[0] == start and not member.has_forked:
                    self.log.errors.append(
                        f"{member.name} began a new history although it has lost nothing"
                    )

    def notice_stop(self, member: Member) -> None:
        """Let each process learn at its own time that one has stopped for good."""
        for other in self.living:
            seconds = self.random.choice((0.0, 0.2, 2.0))
            self.later(seconds, self.remove_stopped_at, other, member)

    def remove_stopped(self, member: Member) -> None:
        """Let all other processes remove one that has stopped for good."""
        for other in self.living:
            self.remove_stopped_at(other, member)

    def remove_stopped_at(self, other: Member, member: Member) -> None:
        """Let a process remove one that has stopped for good and has not said so."""
        node = other.node
        if other is member or node is None or not self.simulation.is_running(other.name):
            return
        if member.is_gone:
            other.gone.add(member.name)
            session = node.engine.sessions.get(member.name)
            if session is not None and session.state is LEFT:
                # A node with a full disk cannot commit the BYE: it fails, does not ack it,
                # and knows nothing of it after its restart.
                if other.plan.journal and self.simulation.disk(other.name).is_full:
                    return
                other.seen_leaving.add(member.name)
        if other.has_forked or member.name not in other.seen_leaving:
            self.simulation.spawn(other.name, self.remove(other, member.name, True))

    async def remove(self, member: Member, peer: str, stopped: bool) -> None:
        """Remove a peer, and add it again later."""
        node = member.node
        if node is None or (not stopped and peer not in node.peers):
            return
        if stopped and self.simulation.is_running(peer):
            return  # It was started again before this process learned that it had stopped.
        member.removed.add(peer)
        try:
            await node.remove_peer(peer, stopped=stopped)
        except AntecedeError:
            return
        self.log.breaks.append((self.simulation.now, member.name, peer))
        self.simulation.spawn(member.name, member.send(tuple(node.peers), b"\x03"))
        if not self.members[peer].is_gone:
            self.simulation.call_later(
                self.random.choice((0.1, 3.0, 20.0)), lambda: self.add(member, peer)
            )

    def add(self, member: Member, peer: str) -> None:
        """Add a peer again."""
        member.removed.discard(peer)
        node = member.node

        async def call() -> None:
            if node is None or peer in node.peers or self.members[peer].is_gone:
                return
            self.log.breaks.append((self.simulation.now, member.name, peer))
            try:
                node.add_peer(peer, f"{peer}:{PORT}")
            except AntecedeError:
                self.simulation.call_later(3.0, lambda: self.add(member, peer))

        if node is not None and self.simulation.is_running(member.name):
            self.simulation.spawn(member.name, call())

    async def leave(self, member: Member, node: Node) -> None:
        """Close a node, and end its process."""
        with contextlib.suppress(StorageError):
            await node.close(2.0)
        self.simulation.call_later(0, lambda: self.left(member))

    def left(self, member: Member) -> None:
        """End the process of a node that was closed."""
        self.history_ends(member, keeps=member.plan.journal)
        if self.simulation.is_running(member.name):
            self.simulation.kill(member.name)

    def announce(self, moved: str) -> None:
        """Tell all processes the new address of one."""
        for member in self.members.values():
            if member.name != moved and moved not in member.removed:
                self.simulation.spawn(member.name, self.set_address(member, moved))

    async def set_address(self, member: Member, moved: str) -> None:
        node = member.node
        if node is not None and moved in node.peers:
            with contextlib.suppress(AntecedeError):
                node.add_peer(moved, f"{moved}:{PORT}")

    def free_disk(self, member: Member) -> None:
        """Give a disk room again, and restart a node that has failed meanwhile."""
        self.simulation.disk(member.name).is_full = False
        node = member.node
        if node is not None and self.simulation.is_running(member.name):
            try:
                node.address  # noqa: B018 (raises if the journal has failed)
            except AntecedeError:
                self.simulation.kill(member.name)
                self.restart(member)
