"""Runs one scenario, and judges it."""

import logging
from dataclasses import dataclass, field

from antecede.errors import AntecedeError
from antecede.net.faults import Faults
from campaign.actions import Actions
from campaign.cluster import Cluster
from campaign.judge import (
    count_lost_wildcards,
    find_entries,
    find_full_inboxes,
    find_losses,
    find_missing_greetings,
    find_refused_frames,
    find_repeats,
    find_residue,
)
from campaign.scenario import Scenario, draw_scenario

__all__ = ["Outcome", "Run", "run_batch", "run_scenario"]

DELIVERY_S = 60.0
"""How long after the last fault everything must be delivered."""
GREETING_S = 5.0
"""How long the last messages of all processes may take."""


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
        self.cluster = Cluster(scenario)
        self.simulation = self.cluster.simulation
        self.members = self.cluster.members

    def execute(self) -> Outcome:
        """Run the scenario, let the faults end, and verify the results."""
        simulation = self.simulation
        outcome = Outcome(self.scenario.seed)
        actions = Actions(self.cluster)
        with simulation:
            for member in self.members.values():
                self.cluster.start(member)
            for action in self.scenario.actions:
                elapsed_s = simulation.now - self.cluster.skipped
                simulation.run_for(max(0.0, action.at_s - elapsed_s))
                actions.perform(action)
                self.cluster.find_new_histories()
                outcome.state_max = max(outcome.state_max, self.state())
                outcome.violations += find_full_inboxes(self.members, simulation)
                outcome.violations += find_refused_frames(self.members, simulation)
            self.end_faults()
            simulation.run_for(DELIVERY_S)
            self.cluster.find_new_histories()
            outcome.violations += find_refused_frames(self.members, simulation)
            if count_lost_wildcards(self.cluster.living, simulation):
                self.cluster.log.count("lost wildcards")
            else:
                outcome.stuck += find_residue(self.cluster.living, simulation)
                if not outcome.stuck:
                    self.greet()
                    outcome.stuck += find_missing_greetings(self.cluster.living)
                    outcome.stuck += find_entries(self.cluster.living)
            self.judge(outcome)
            outcome.virtual_s = simulation.now
        outcome.counts = dict(self.cluster.log.counts)
        return outcome

    def state(self) -> int:
        """Return the largest number of records that a node keeps."""
        sizes = [0]
        for member in self.members.values():
            if member.node is not None and self.simulation.is_running(member.name):
                process = member.node.engine.process
                sizes.append(process.retained() + process.known_peers())
        return max(sizes)

    def end_faults(self) -> None:
        """End all faults, restart all processes, and let all be peers again."""
        cluster = self.cluster
        simulation = self.simulation
        simulation.run_for(25.0)  # Scheduled faults end.
        simulation.set_faults(Faults(delay_s=0.001, jitter_s=0.001))
        simulation.heal()
        for member in self.cluster.living:
            member.is_slow = False
            member.removed.clear()
            if member.plan.journal:
                simulation.disk(member.name).is_full = False
            cluster.resume(member.name)
            cluster.restart(member)
        simulation.run_for(0.1)
        for member in self.members.values():
            if member.is_gone:
                cluster.remove_stopped(member)
                continue
            if member.plan.journal:
                cluster.free_disk(member)
            if member.name in cluster.moved:
                cluster.announce(member.name)
            for other in cluster.living:
                if other is not member:
                    cluster.add(member, other.name)

    def greet(self) -> None:
        """Let every process send a last message to all others, twice.

        A process that has not met another one since that one began a new history learns of
        it with the first message, which is lost then. The second one must arrive.
        """
        for _ in range(2):
            for member in self.cluster.living:
                member.greeted_by.clear()
                self.simulation.spawn(member.name, member.greet())
            self.simulation.run_for(GREETING_S)

    def judge(self, outcome: Outcome) -> None:
        """Add all violations to the outcome."""
        found = outcome.violations
        log = self.cluster.log
        found += self.simulation.unhandled
        found += log.errors
        if not outcome.stuck and "lost wildcards" not in log.counts:
            found += find_losses(log, self.cluster.living)
        if self.cluster.has_forked:
            return
        try:
            verdict = self.simulation.verdict()
        except AntecedeError as error:
            found.append(f"the trace is not a valid run: {error}")
        else:
            names = self.simulation.record.display_names()
            found += [violation.format(names) for violation in verdict.violations]
            outcome.messages = verdict.messages
            outcome.deliveries = verdict.deliveries
        found += find_repeats(log)


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
