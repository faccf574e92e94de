"""The processes of a run, and what can happen to each of them."""

import contextlib
from random import Random

from antecede.errors import AntecedeError
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
        self.has_forked = False
        """A node has lost commits that others have seen the effects of."""
        self.moved: set[str] = set()
        """The processes whose address has changed."""
        self.skipped = 0.0
        """Seconds of idleness, which the times of the actions do not include."""

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

    def restart(self, member: Member) -> None:
        """Start a process again if it does not run."""
        if not self.simulation.is_running(member.name):
            member.node = None
            self.start(member)

    def history_ends(self, member: Member, *, keeps: bool) -> None:
        """Record that messages from and to a process may be lost now."""
        if not keeps:
            for other in self.members:
                self.log.breaks.append((self.simulation.now, member.name, other))

    async def remove(self, member: Member, peer: str, stopped: bool) -> None:
        """Remove a peer, and add it again later."""
        node = member.node
        if node is None or peer not in node.peers:
            return
        member.removed.add(peer)
        try:
            await node.remove_peer(peer, stopped=stopped)
        except AntecedeError:
            return
        self.log.breaks.append((self.simulation.now, member.name, peer))
        self.log.breaks.append((self.simulation.now, peer, member.name))
        self.simulation.call_later(
            self.random.choice((0.1, 3.0, 20.0)), lambda: self.add(member, peer)
        )

    def add(self, member: Member, peer: str) -> None:
        """Add a peer again."""
        member.removed.discard(peer)
        node = member.node
        now = self.simulation.now
        self.log.breaks += [(now, member.name, peer), (now, peer, member.name)]

        async def call() -> None:
            if node is not None and peer not in node.peers:
                try:
                    node.add_peer(peer, f"{peer}:{PORT}")
                except AntecedeError:
                    self.simulation.call_later(3.0, lambda: self.add(member, peer))

        if node is not None and self.simulation.is_running(member.name):
            self.simulation.spawn(member.name, call())

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
