"""Runs one scenario of rooms, and verifies the results."""

import logging

from antecede.errors import AntecedeError
from antecede.net.faults import Faults
from antecede.testing import Simulation
from campaign.room_member import LifeLog, RoomMember
from campaign.room_scenario import RoomAction, RoomScenario, draw_room_scenario
from campaign.run import Outcome

__all__ = ["RoomRun", "run_room_batch", "run_room_scenario"]

SETTLE_S = 150.0
"""The time after the last fault within which all nodes must be members again."""
LAST_S = 10.0
"""The maximum time for the delivery of the last messages."""


class RoomRun:
    """One run of a scenario."""

    def __init__(self, scenario: RoomScenario) -> None:
        self.scenario = scenario
        self.faults = Faults(
            loss=scenario.loss,
            duplicate=scenario.duplicate,
            delay_s=scenario.delay_s,
            jitter_s=scenario.jitter_s,
        )
        self.simulation = Simulation(scenario.seed, self.faults)
        self.log = LifeLog()
        self.members = {
            name: RoomMember(name, scenario, self.simulation, self.log)
            for name in scenario.names
        }

    def execute(self) -> Outcome:
        """Run the scenario, let the faults end, and verify the results."""
        simulation = self.simulation
        outcome = Outcome(self.scenario.seed)
        with simulation:
            for action in self.scenario.actions:
                simulation.run_for(max(0.0, action.at_s - simulation.now))
                self.perform(action)
            simulation.run_for(25.0)  # Scheduled faults end.
            simulation.set_faults(Faults(delay_s=0.001, jitter_s=0.001))
            simulation.heal()
            for member in self.members.values():
                self.restart(member)
            if self.settle():
                self.write_last()
                outcome.stuck += self.find_differences()
            elif self.is_split():
                self.log.count("split rooms")
            else:
                outcome.stuck += self.find_outsiders()
            self.judge(outcome)
            outcome.virtual_s = simulation.now
        outcome.counts = dict(self.log.counts)
        return outcome

    # Actions.

    def perform(self, action: RoomAction) -> None:
        """Perform an action, if it is possible now."""
        member = self.members[action.node]
        is_running = self.simulation.is_running(action.node)
        if action.kind == "start":
            self.simulation.start(member.name, member.main, daemon=True)
        elif action.kind in ("loss", "partition"):
            getattr(self, f"do_{action.kind}")(action)
            self.log.count(action.kind)
        elif is_running and member.places:
            getattr(self, f"do_{action.kind}")(action, member)

    def later(self, action: RoomAction, function: object, *arguments: object) -> None:
        assert callable(function)
        self.simulation.call_later(action.seconds, lambda: function(*arguments))

    def do_write(self, action: RoomAction, member: RoomMember) -> None:
        write = member.places[action.room].write(action.size)
        self.simulation.spawn(member.name, write)

    def do_leave(self, action: RoomAction, member: RoomMember) -> None:
        self.simulation.spawn(member.name, member.leave(action.room))

    def do_remove(self, action: RoomAction, member: RoomMember) -> None:
        self.simulation.spawn(member.name, member.remove(action.room, action.target))

    def do_kill(self, action: RoomAction, member: RoomMember) -> None:
        self.log.count("kill")
        self.simulation.kill(member.name)
        member.end_lives()
        self.later(action, self.restart, member)

    def do_power(self, action: RoomAction, member: RoomMember) -> None:
        self.log.count("power_off")
        self.simulation.power_off(member.name)
        member.end_lives()
        self.later(action, self.restart, member)

    def do_pause(self, action: RoomAction, member: RoomMember) -> None:
        self.log.count("pause")
        self.simulation.pause(member.name)
        self.later(action, self.resume, member)

    def do_slow_reader(self, action: RoomAction, member: RoomMember) -> None:
        self.log.count("slow_reader")
        place = member.places[action.room]
        place.is_slow = True
        self.later(action, setattr, place, "is_slow", False)

    def do_partition(self, action: RoomAction) -> None:
        others = [name for name in self.scenario.names if name != action.node]
        self.simulation.partition([action.node], others)
        self.later(action, self.simulation.heal)

    def do_loss(self, action: RoomAction) -> None:
        links = [(action.node, action.target), (action.target, action.node)]
        self.simulation.set_faults(Faults(loss=0.8, delay_s=0.05, jitter_s=0.3), links)
        self.later(action, self.simulation.set_faults, self.faults, links)

    def restart(self, member: RoomMember) -> None:
        """Resume a paused process, or restart a killed one."""
        if self.simulation.is_running(member.name):
            self.resume(member)
        else:
            self.simulation.start(member.name, member.main, daemon=True)

    def resume(self, member: RoomMember) -> None:
        if self.simulation.is_running(member.name):
            self.simulation.resume(member.name)

    # The end.

    def settle(self) -> bool:
        """Let time pass until all nodes are in all rooms; return whether they are."""
        ends = self.simulation.now + SETTLE_S
        while self.simulation.now < ends:
            self.simulation.run_for(1.0)
            if not self.find_outsiders():
                return True
        return False

    def find_outsiders(self) -> list[str]:
        """Return which nodes do not see all nodes in a room."""
        names = list(self.scenario.names)
        found = []
        for member in self.members.values():
            for room in self.scenario.rooms:
                place = member.places.get(room)
                joined = place.joined if place is not None else None
                seen = joined.members if joined is not None else []
                if seen != names:
                    found.append(f"{member.name} sees {seen} in {room}, not {names}")
        return found

    def is_split(self) -> bool:
        """Return whether a room was founded twice, by nodes that could not meet.

        Each node then agrees with the members that it sees, and the two rooms never meet.
        """
        found = False
        for room in self.scenario.rooms:
            places = [member.places[room] for member in self.members.values()]
            views = [place.joined.members for place in places if place.joined is not None]
            if len(views) < len(places):
                return False
            for view in views:
                if any(other != view and set(other) & set(view) for other in views):
                    return False
            found = found or any(view != views[0] for view in views)
        return found and self.log.counts["founded"] > len(self.scenario.rooms)

    def write_last(self) -> None:
        """Broadcast another message of every node in every room."""
        for member in self.members.values():
            for place in member.places.values():
                self.simulation.spawn(member.name, place.write(0))
        self.simulation.run_for(LAST_S)

    def find_differences(self) -> list[str]:
        """Return the messages of present lives that a member does not have."""
        found = []
        for member in self.members.values():
            for place in member.places.values():
                for life, sent in self.log.sent.items():
                    is_here = life.startswith(f"{place.room}/")
                    known = place.state.get(life, 0)
                    if is_here and life not in self.log.ended and known < sent:
                        found.append(f"{place.life} has {known} of {sent} of {life}")
        return found

    def judge(self, outcome: Outcome) -> None:
        """Add all violations to the outcome."""
        log = self.log
        found = outcome.violations
        found += self.simulation.unhandled
        found += log.errors
        found += log.doubled
        found += [
            f"{receiver}: {what}"
            for receiver, sender, what in log.missed
            if receiver not in log.ended and sender not in log.ended
        ]
        outcome.deliveries = log.received
        outcome.messages = sum(log.sent.values())
        try:
            verdict = self.simulation.verdict()
        except AntecedeError as error:
            found.append(f"the trace is not a valid run: {error}")
            return
        names = self.simulation.record.display_names()
        found += [violation.format(names) for violation in verdict.violations]


def run_room_scenario(scenario: RoomScenario) -> Outcome:
    """Run a scenario; an exception of the simulation is a violation, too."""
    logging.disable(logging.CRITICAL)
    try:
        return RoomRun(scenario).execute()
    except Exception as error:
        outcome = Outcome(scenario.seed)
        outcome.violations.append(f"{type(error).__name__}: {error}")
        return outcome


def run_room_batch(first: int, count: int) -> list[Outcome]:
    """Run consecutive seeds."""
    seeds = range(first, first + count)
    return [run_room_scenario(draw_room_scenario(seed)) for seed in seeds]
