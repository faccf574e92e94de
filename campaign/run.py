"""Runs one scenario, and judges it."""

import contextlib
import logging
from dataclasses import dataclass, field
from functools import partial
from random import Random

from antecede.errors import AntecedeError, StorageError
from antecede.net.faults import Faults
from antecede.testing import Simulation
from campaign.application import PORT, Log, Member, run_intruder
from campaign.judge import find_losses, find_repeats, find_residue
from campaign.scenario import Action, Scenario, draw_scenario

__all__ = ["Outcome", "Run", "run_batch", "run_scenario"]

SETTLE_S = 60.0
"""How long after the last fault everything must be delivered."""


QUIET_S = 30.0
"""How long no datagram must be transmitted before weeks pass."""


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    seed: int
    violations: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    messages: int = 0
    deliveries: int = 0
    virtual_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    state_max: int = 0
    """The most copies, peers and messages that a node kept at once."""

    @property
    def failed(self) -> bool:
        """Whether the run was wrong in any way."""
        return bool(self.violations or self.stuck)


class Run:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.log = Log()
        faults = Faults(
            loss=scenario.loss,
            duplicate=scenario.duplicate,
            delay_s=scenario.delay_s,
            jitter_s=scenario.jitter_s,
        )
        self.faults = faults
        self.simulation = Simulation(scenario.seed, faults)
        self.members = {
            plan.name: Member(plan, scenario, self.simulation, self.log)
            for plan in scenario.nodes
        }
        self.random = Random(scenario.seed + 1)
        self.has_forked = False
        """A node has lost commits that others have seen the effects of."""

    def execute(self) -> Outcome:
        """Run the scenario, let the faults end, and judge."""
        simulation = self.simulation
        outcome = Outcome(self.scenario.seed)
        with simulation:
            for member in self.members.values():
                self.start(member)
            for action in self.scenario.actions:
                simulation.run_for(max(0.0, action.at_s - (simulation.now - self.skipped)))
                self.perform(action)
                outcome.state_max = max(outcome.state_max, self.state())
            self.end_faults()
            simulation.run_for(SETTLE_S)
            self.judge(outcome)
            outcome.virtual_s = simulation.now
        outcome.counts = dict(self.log.counts)
        return outcome

    skipped = 0.0
    """Seconds of idleness, which the times of the actions do not include."""

    def start(self, member: Member) -> None:
        plan = member.plan
        self.simulation.start(
            member.name,
            member.main,
            daemon=True,
            clock_start_s=plan.clock_start_s,
            clock_rate=plan.clock_rate,
        )

    def state(self) -> int:
        """Return the largest number of records that a node keeps."""
        sizes = [0]
        for member in self.members.values():
            if member.node is not None and self.simulation.is_running(member.name):
                process = member.node.engine.process
                sizes.append(process.retained() + process.known_peers())
        return max(sizes)

    # Actions.

    def perform(self, action: Action) -> None:
        """Do what an action says, if it is possible now."""
        member = self.members[action.node]
        is_running = self.simulation.is_running(action.node) and member.node is not None
        if action.kind == "send":
            if is_running:
                data = bytes([3]) + bytes(action.size - 1)
                self.simulation.spawn(action.node, member.send(action.targets, data))
            return
        handle = getattr(self, f"do_{action.kind}")
        if handle(action, member, is_running):
            self.log.count(action.kind)

    def later(self, seconds: float, function: object, *arguments: object) -> None:
        """Call a method of the simulation later."""
        assert callable(function)
        self.simulation.call_later(seconds, lambda: function(*arguments))

    def do_loss(self, action: Action, member: Member, is_running: bool) -> bool:
        links = [(action.node, target) for target in action.targets]
        worse = Faults(loss=0.9, delay_s=0.05, jitter_s=0.5, bytes_per_s=20_000)
        self.simulation.set_faults(worse, links)
        self.later(action.seconds, self.simulation.set_faults, self.faults, links)
        return True

    def do_partition(self, action: Action, member: Member, is_running: bool) -> bool:
        self.simulation.partition([action.node], action.targets)
        self.later(action.seconds, self.simulation.heal)
        return True

    def do_one_way(self, action: Action, member: Member, is_running: bool) -> bool:
        self.simulation.block(action.node, action.targets[0])
        self.later(action.seconds, self.simulation.heal)
        return True

    def do_pause(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.pause(action.node)
        self.later(action.seconds, self.resume, action.node)
        return True

    def resume(self, name: str) -> None:
        if self.simulation.is_running(name):
            self.simulation.resume(name)

    def do_kill(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.kill(action.node)
        self.history_ends(member, keeps=member.plan.journal)
        self.later(action.seconds, self.restart, member)
        return True

    def do_power_off(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.power_off(action.node)
        keeps = member.plan.journal and member.plan.sync
        self.history_ends(member, keeps=keeps)
        if member.plan.journal and not member.plan.sync:
            self.has_forked = True
        self.later(action.seconds, self.restart, member)
        return True

    def restart(self, member: Member) -> None:
        if not self.simulation.is_running(member.name):
            member.node = None
            self.start(member)

    def history_ends(self, member: Member, *, keeps: bool) -> None:
        """Record that messages from and to a process may be lost now."""
        if not keeps:
            for other in self.members:
                self.log.breaks.append((self.simulation.now, member.name, other))

    def do_stop(self, action: Action, member: Member, is_running: bool) -> bool:
        """Stop a process for good; one of the same name starts without its journal."""
        if not is_running:
            return False
        self.simulation.kill(action.node)
        self.history_ends(member, keeps=False)
        if member.plan.journal:
            self.simulation.disk(action.node).erase()
        for other in self.members.values():
            if other is not member and self.simulation.is_running(other.name):
                self.simulation.spawn(other.name, self.remove(other, member.name, True))
        self.later(max(action.seconds, 3.0), self.restart, member)
        return True

    def do_remove(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        peer = action.targets[0]
        self.simulation.spawn(action.node, self.remove(member, peer, False))
        return True

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

    def do_leave(self, action: Action, member: Member, is_running: bool) -> bool:
        """Close a node; it is started again later."""
        if not is_running or member.node is None:
            return False
        node = member.node
        self.history_ends(member, keeps=member.plan.journal)

        async def leave() -> None:
            with contextlib.suppress(StorageError):
                await node.close(2.0)
            self.simulation.call_later(0, lambda: self.left(member))

        self.simulation.spawn(action.node, leave())
        self.later(3.0 + action.seconds, self.restart, member)
        return True

    def left(self, member: Member) -> None:
        self.history_ends(member, keeps=member.plan.journal)
        if self.simulation.is_running(member.name):
            self.simulation.kill(member.name)

    def do_move(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.move(action.node)
        self.later(action.seconds, self.announce, action.node)
        return True

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

    def do_disk_full(self, action: Action, member: Member, is_running: bool) -> bool:
        if not member.plan.journal:
            return False
        disk = self.simulation.disk(action.node)
        disk.is_full = True
        self.later(action.seconds, self.free_disk, member)
        return True

    def free_disk(self, member: Member) -> None:
        self.simulation.disk(member.name).is_full = False
        node = member.node
        if node is not None and self.simulation.is_running(member.name):
            try:
                node.address  # noqa: B018 (raises if the journal has failed)
            except AntecedeError:
                self.simulation.kill(member.name)
                self.restart(member)

    def do_slow(self, action: Action, member: Member, is_running: bool) -> bool:
        member.is_slow = True
        self.later(action.seconds, setattr, member, "is_slow", False)
        return True

    def do_hostile(self, action: Action, member: Member, is_running: bool) -> bool:
        """Inject datagrams: replayed, changed, or random; only replayed without a key."""
        network = self.simulation.network
        captured = list(network.captured)
        if not captured:
            return False
        for _ in range(5):
            source, target, datagram = self.random.choice(captured)
            how = self.random.randrange(3) if self.scenario.keyed else 0
            if how == 1:
                changed = bytearray(datagram)
                changed[self.random.randrange(len(changed))] ^= 1 + self.random.randrange(
                    255
                )
                datagram = bytes(changed)
            elif how == 2:
                datagram = self.random.randbytes(self.random.randrange(200))
            network.inject(source, target, datagram)
        return True

    def do_intruder(self, action: Action, member: Member, is_running: bool) -> bool:
        """Run a node with the name of a member and another key for a while."""
        if not self.scenario.keyed or self.simulation.is_running("intruder"):
            return False
        main = partial(run_intruder, self.scenario, action.node)
        self.simulation.start("intruder", main, daemon=True)
        self.later(action.seconds, self.simulation.kill, "intruder")
        return True

    def do_idle(self, action: Action, member: Member, is_running: bool) -> bool:
        """Let weeks pass, if the nodes are quiet; retransmissions would take too long."""
        simulation = self.simulation
        simulation.run_for(QUIET_S)
        self.skipped += QUIET_S
        datagrams = simulation.network.injector.counts["all"]
        simulation.run_for(QUIET_S)
        self.skipped += QUIET_S
        if simulation.network.injector.counts["all"] > datagrams:
            return False
        simulation.run_for(action.seconds)
        self.skipped += action.seconds
        return True

    def end_faults(self) -> None:
        """End all faults, restart all processes, and let all be peers again."""
        simulation = self.simulation
        simulation.run_for(25.0)  # What is scheduled to end, ends.
        simulation.set_faults(Faults(delay_s=0.001, jitter_s=0.001))
        simulation.heal()
        for member in self.members.values():
            member.is_slow = False
            member.removed.clear()
            if member.plan.journal:
                simulation.disk(member.name).is_full = False
            self.resume(member.name)
            self.restart(member)
        simulation.run_for(0.1)
        for member in self.members.values():
            if member.plan.journal:
                self.free_disk(member)
            self.announce(member.name)
            for other in self.members:
                if other != member.name:
                    self.add(member, other)

    # Judgement.

    def judge(self, outcome: Outcome) -> None:
        """Add everything that is wrong to the outcome."""
        found = outcome.violations
        found += self.simulation.unhandled
        if not self.has_forked:
            try:
                verdict = self.simulation.verdict()
            except AntecedeError as error:
                found.append(f"the trace is no run: {error}")
            else:
                names = self.simulation.record.display_names()
                found += [violation.format(names) for violation in verdict.violations]
                outcome.messages = verdict.messages
                outcome.deliveries = verdict.deliveries
            found += find_repeats(self.log)
        outcome.stuck += find_residue(self.members, self.simulation)
        if not outcome.stuck and not self.has_forked:
            found += find_losses(self.log)


def run_scenario(scenario: Scenario) -> Outcome:
    """Run a scenario; an exception of the simulation is a violation, too."""
    logging.disable(logging.CRITICAL)
    run = Run(scenario)
    try:
        return run.execute()
    except Exception as error:
        outcome = Outcome(scenario.seed)
        outcome.violations.append(f"{type(error).__name__}: {error}")
        return outcome


def run_batch(first: int, count: int) -> list[Outcome]:
    """Run consecutive seeds."""
    return [run_scenario(draw_scenario(seed)) for seed in range(first, first + count)]
