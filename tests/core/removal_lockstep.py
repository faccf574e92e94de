"""Lockstep runs of ``bounded`` and its naive rules in which processes remove each other.

A removal of X by A has three steps, with others between them. *Cut*: the packets in flight
from A to X are dropped, and so are those that A transmits to X from now on. *Abandon*: the
lease has ended, and A abandons X, and sends nothing to it. *Reset*: X resets the channel,
and packets arrive again.

A process that *stops*, or that *leaves* when its copies are acked, takes no step any more.
After the lease, each other process abandons it, and forgoes or assumes its permits.

The lease also ends for the copies that a process holds. Either both processes of a pair
apply the rule for held copies and time passes, or the driver drops what is held.
"""

from collections.abc import Callable
from math import inf, isinf
from random import Random
from typing import Final, Protocol, cast

from antecede.core.process import ProcessId
from tests.core.bounded_runs import left_over
from tests.core.lockstep_runs import IDLE_STEPS_MAX, TICK_S, Packet, Step, Steppable
from tests.core.naive_bounded_removal import NaiveRemoval
from tests.core.test_bounded_naive import Rules

__all__ = ["REMOVAL_ACTIONS", "RemovalRules"]

REMOVAL_ACTIONS: Final = ("cut", "abandon", "reset", "stop", "leave", "tell")
LOST_WILDCARD_STEPS = 300
"""How long a run goes on if nobody can clear a wildcard, so that it is never idle."""


class Recovery(Protocol):
    """The operations of a removal."""

    def abandon(self, peer: ProcessId, now: float) -> None: ...

    def reset_channel(self, peer: ProcessId, now: float) -> None: ...

    def forgo_permits(self, peer: ProcessId, now: float) -> None: ...

    def assume_permits(self, peer: ProcessId, now: float) -> None: ...

    def drop_held(self, peer: ProcessId) -> None: ...


class Removable(Protocol):
    """A process that can remove others."""

    @property
    def recovery(self) -> Recovery: ...


class RemovalRules(Rules):
    """Pairs of processes that remove each other.

    Args:
        hold_s: The lease for held copies; infinite if the driver drops them.
        is_named: The driver sets the ids that entries use. If a process stops or leaves,
            it must: only then its id is never used again, and others may remember the end.
    """

    def __init__(
        self,
        processes: int,
        budget: int,
        naive: type[NaiveRemoval] = NaiveRemoval,
        first_id: int = 0,
        slow: int = -1,
        hold_s: float = inf,
        is_named: bool = True,
    ) -> None:
        super().__init__(processes, budget, naive, first_id, slow)
        self.hold_s = hold_s
        self.off: dict[tuple[ProcessId, ProcessId], float] = {}
        """The pairs that are cut, with the time."""
        self.abandoned: set[tuple[ProcessId, ProcessId]] = set()
        """Those of them of which the first has abandoned the second."""
        self.gone: dict[ProcessId, float] = {}
        """The processes that have stopped or left, with the time."""
        self.left: set[ProcessId] = set()
        self.untold: dict[tuple[ProcessId, ProcessId], list[str]] = {}
        """For a process and one that is gone, the operations to come."""
        self.done = dict.fromkeys(REMOVAL_ACTIONS, 0)
        for each in self.ids:
            dependencies = self.indexed[each].dependencies
            assert dependencies is not None
            for peer in self.ids:
                if peer != each and is_named:
                    dependencies.identify(peer, peer, peer)
            if not isinf(hold_s):
                dependencies.enable(hold_s)
                cast("NaiveRemoval", self.naive[each]).hold_s = hold_s

    # The inputs of a run.

    def apply(self, step: Step) -> None:
        if step.action not in REMOVAL_ACTIONS:
            super().apply(step)
            return
        random = Random(step.pick)
        alive = [each for each in self.ids if each not in self.gone]
        if step.action == "cut":
            self.cut(*random.sample(alive, 2))
        elif step.action == "abandon" and (pairs := sorted(set(self.off) - self.abandoned)):
            self.abandon(*random.choice(pairs))
        elif step.action == "reset" and self.abandoned:
            self.reset(*random.choice(sorted(self.abandoned)))
        elif step.action in ("stop", "leave") and len(alive) > 3:
            self.stop(
                random.choice(alive), is_leaving=step.action == "leave", random=random
            )
        elif step.action == "tell" and self.untold:
            self.tell(*random.choice(sorted(self.untold)))

    def send(self, source: ProcessId, targets: list[ProcessId]) -> None:
        possible = [
            target
            for target in targets
            if (source, target) not in self.abandoned
            and (target not in self.gone or len(self.untold.get((source, target), ())) == 2)
        ]
        if source not in self.gone and possible:
            super().send(source, possible)
            for target in possible:
                if target in self.gone:
                    self.give_up(source, target)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for member in self.ids:
            if member not in self.gone:
                self.input(member, lambda each: each.handle_timer(self.now))

    def compare(self, id: ProcessId) -> None:
        super().compare(id)
        self.drop(lambda p: (p.source, p.target) in self.off or p.target in self.gone)

    def drop(self, matches: Callable[[Packet], bool]) -> None:
        """Drop the packets in flight that match."""
        self.in_flight = [each for each in self.in_flight if not matches(each)]

    # Removals.

    def recover(self, id: ProcessId, change: Callable[[Recovery], None]) -> None:
        """Give both processes of a pair an input of a removal."""

        def call(each: Steppable) -> None:
            change(cast("Removable", each).recovery)

        self.input(id, call)

    def give_up(self, source: ProcessId, target: ProcessId) -> None:
        """Expect no delivery of the copies of a pair that are not delivered."""
        for copy in self.undelivered:
            if copy[:2] == (target, source):
                self.undelivered[copy] = 0

    def end_lease(self, since: float, source: ProcessId, *targets: ProcessId) -> None:
        """Let the lease end for the copies that targets hold from a source."""
        if isinf(self.hold_s):
            for target in targets:
                self.recover(target, lambda recovery: recovery.drop_held(source))
        else:
            self.wait(max(since + self.hold_s - self.now, 0.0) + TICK_S)

    def cut(self, source: ProcessId, target: ProcessId) -> None:
        if (source, target) not in self.off:
            self.off[source, target] = self.now
            self.drop(lambda p: (p.source, p.target) == (source, target))
            self.done["cut"] += 1

    def abandon(self, source: ProcessId, target: ProcessId) -> None:
        self.end_lease(self.off[source, target], source, target)
        self.abandoned.add((source, target))
        self.give_up(source, target)
        self.recover(source, lambda recovery: recovery.abandon(target, self.now))
        self.done["abandon"] += 1

    def reset(self, source: ProcessId, target: ProcessId) -> None:
        del self.off[source, target]
        self.abandoned.remove((source, target))
        self.recover(target, lambda recovery: recovery.reset_channel(source, self.now))
        self.done["reset"] += 1

    def stop(self, id: ProcessId, *, is_leaving: bool, random: Random) -> None:
        if is_leaving:
            is_acked = all(copy.is_acked for copy in self.naive[id].copies)
            if not is_acked or any(id in pair for pair in self.off):
                return
            self.left.add(id)
        self.gone[id] = self.now
        self.drop(lambda p: id in (p.source, p.target))
        self.off = {pair: at for pair, at in self.off.items() if id not in pair}
        self.abandoned &= set(self.off)
        for other in self.ids:
            if other not in self.gone:
                changes = ["abandon", "assume" if is_leaving else "forgo"]
                random.shuffle(changes)
                self.untold[other, id] = changes
            self.give_up(other, id)
        self.untold = {pair: each for pair, each in self.untold.items() if pair[0] != id}
        self.done["leave" if is_leaving else "stop"] += 1

    def tell(self, id: ProcessId, gone: ProcessId) -> None:
        """Let a process remove one that is gone, by one of the two operations."""
        if gone not in self.left:
            alive = [each for each in self.ids if each not in self.gone]
            self.end_lease(self.gone[gone], gone, *alive)
            for other in alive:
                self.give_up(gone, other)
        change = self.untold[id, gone].pop()
        if not self.untold[id, gone]:
            del self.untold[id, gone]
        if change == "abandon":
            self.recover(id, lambda recovery: recovery.abandon(gone, self.now))
        elif change == "forgo":
            self.recover(id, lambda recovery: recovery.forgo_permits(gone, self.now))
        else:
            self.recover(id, lambda recovery: recovery.assume_permits(gone, self.now))
        self.done["tell"] += 1

    # The end of a run.

    def run_until_idle(self, random: Random) -> None:
        """End all removals, and run without faults until idle; nothing may be left over.

        If a process is gone whose wildcards nobody can clear, run on for some steps only.
        """
        self.slow = -1
        for pair in sorted(self.off):
            if pair not in self.abandoned:
                self.abandon(*pair)
            self.reset(*pair)
        while self.untold:
            self.tell(*random.choice(sorted(self.untold)))
        for step in range(IDLE_STEPS_MAX):
            if self.is_wildcard_lost() and step > LOST_WILDCARD_STEPS:
                return
            if not self.step_on(random):
                self.check_idle()
                return
        raise AssertionError(f"not idle after {IDLE_STEPS_MAX} steps")

    def is_wildcard_lost(self) -> bool:
        return any(
            wildcard.reporter in self.gone
            for each in self.ids
            if each not in self.gone
            for wildcard in self.naive[each].wildcards
        )

    def step_on(self, random: Random) -> bool:
        """Let a packet arrive, or else a timer fire; return False if there is none."""
        if self.in_flight:
            super().apply(Step("arrive", random.randrange(len(self.in_flight))))
            return True
        alive = [each for each in self.ids if each not in self.gone]
        timers = [self.indexed[each].next_timer() for each in alive]
        due = min((timer for timer in timers if timer is not None), default=None)
        if due is not None:
            self.wait(max(due - self.now, 0.0))
        return due is not None

    def check_idle(self) -> None:
        wrong = {copy: count for copy, count in self.undelivered.items() if count}
        assert not wrong, f"lost, or delivered twice: {wrong}"
        for each in self.ids:
            if each in self.gone:
                continue
            naive = self.naive[each]
            # A clear may be for a message that was abandoned, and never arrives.
            left = [n for n in left_over(self.indexed[each]) if "cleared of" not in n]
            assert left == [], (each, left)
            assert not any((naive.entries, naive.wildcards, naive.missing, naive.held()))
            assert not any((naive.reported, naive.sent_wildcards, naive.owed_clears))
            assert all(copy.is_acked for copy in naive.copies)
