"""Scenarios: everything that happens in a run, as data that can be shortened."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

__all__ = ["KINDS", "Action", "NodePlan", "Scenario", "draw_scenario"]

KINDS: Final = (
    "loss",
    "partition",
    "one_way",
    "pause",
    "kill",
    "power_off",
    "stop",
    "remove",
    "move",
    "disk_full",
    "slow",
    "hostile",
    "idle",
    "leave",
    "intruder",
    "delay",
    "depart",
    "restore",
)
"""The kinds of faults and changes that a scenario contains."""
BUDGETS: Final = (0, 8, 32, 128)
WEEK_S: Final = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node of a scenario."""

    name: str
    journal: bool
    """Restart with a journal; else every restart begins a new history."""
    sync: bool
    """The journal waits for the disk."""
    clock_start_s: float
    clock_rate: float
    commit: float
    """The share of messages that the application commits at once."""
    inbox_messages_max: int
    window_copies_max: int
    message_bytes_max: int
    adds_peers: bool
    """Add the peers at run time; else name them when the node is created."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action at a given time; an action that is impossible then has no effect."""

    at_s: float
    kind: str
    node: str
    targets: tuple[str, ...] = ()
    seconds: float = 0.0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run: its nodes, its network and its actions."""

    seed: int
    protocol: str
    budget_bytes: int
    """The budget of ``bounded``."""
    keyed: bool
    nodes: tuple[NodePlan, ...]
    loss: float
    duplicate: float
    delay_s: float
    jitter_s: float
    forget_after_s: float
    actions: tuple[Action, ...]

    @property
    def is_idle(self) -> bool:
        """Whether the nodes are idle for weeks."""
        return any(action.kind == "idle" for action in self.actions)

    def with_actions(self, actions: list[Action]) -> "Scenario":
        """Return the scenario with other actions."""
        return replace(self, actions=tuple(actions))


def draw_scenario(seed: int) -> Scenario:
    """Draw a scenario from a seed."""
    random = Random(seed)
    is_late = random.random() < 0.3
    sizes = (3, 3, 4) if is_late else (3, 3, 4, 4, 5, 6, 8)
    names = [f"n{index}" for index in range(random.choice(sizes))]
    adds_peers = random.random() < 0.25
    plans = tuple(_draw_node(random, name, adds_peers) for name in names)
    kinds = random.sample(KINDS, random.randint(0, 5))
    actions: list[Action] = []
    at_s = 0.5
    for _ in range(random.randint(10, 60)):
        at_s += random.expovariate(1 / random.choice((0.01, 0.1, 0.5)))
        if is_late and random.random() < 0.2:
            actions += _draw_late(random, names, at_s)
            at_s += random.choice((0.1, 5.0))
        elif kinds and random.random() < 0.25:
            actions += _draw_fault(random, random.choice(kinds), names, at_s)
        else:
            source = random.choice(names)
            others = [name for name in names if name != source]
            count = random.choice((1, 1, 1, 2, len(others)))
            targets = tuple(random.sample(others, count))
            size = random.choice((1, 1, 20, 20, 20, 3000, 100_000))
            actions.append(Action(at_s, "send", source, targets, size=size))
    is_slow = random.random() < 0.2
    protocol = random.choice(("hybrid", "hybrid", "hybrid", "hybrid-basic"))
    is_bounded = seed % 3 == 2
    return Scenario(
        seed=seed,
        protocol="bounded" if is_bounded else protocol,
        budget_bytes=BUDGETS[seed // 3 % len(BUDGETS)],
        keyed=random.random() < 0.3,
        nodes=plans,
        loss=random.choice((0.0, 0.0, 0.05, 0.3)),
        duplicate=random.choice((0.0, 0.1)),
        delay_s=0.1 if is_slow else 0.001,
        jitter_s=random.choice((0.0, 0.002, 0.3)),
        forget_after_s=random.choice((0.05, 15.0)),
        actions=tuple(sorted(actions, key=lambda action: action.at_s)),
    )


def _draw_node(random: Random, name: str, adds_peers: bool) -> NodePlan:
    return NodePlan(
        name=name,
        journal=random.random() < 0.6,
        sync=random.random() < 0.8,
        clock_start_s=random.choice((0.0, random.uniform(0, 5e6), random.uniform(0, 1e8))),
        clock_rate=random.choice((1.0, random.uniform(0.98, 1.02))),
        commit=random.choice((1.0, 0.5, 0.0)),
        inbox_messages_max=random.choice((2, 50, 8192)),
        window_copies_max=random.choice((1, 20, 1024)),
        message_bytes_max=random.choice((1 << 16, 1 << 20)),
        adds_peers=adds_peers,
    )


def _draw_fault(random: Random, kind: str, names: list[str], at_s: float) -> list[Action]:
    node = random.choice(names)
    others = [name for name in names if name != node]
    targets: tuple[str, ...] = (random.choice(others),)
    seconds = random.choice((0.05, 0.5, 2.0, 6.0, 20.0))
    if kind == "partition":
        targets = tuple(random.sample(others, random.randint(1, len(others))))
    elif kind == "idle":
        seconds = random.choice((3600.0, WEEK_S, 4 * WEEK_S, 10 * WEEK_S))
    fault = Action(at_s, kind, node, targets, seconds, random.randrange(1 << 16))
    if kind == "restore":  # A backup is made, and restored twice.
        again = [replace(fault, at_s=at_s + wait_s, seconds=0.05) for wait_s in (2.0, 4.0)]
        return [fault, *again]
    return [fault]


def _draw_late(random: Random, names: list[str], at_s: float) -> list[Action]:
    """Draw late datagrams from one node to another, and a change of one of them meanwhile.

    The datagrams that were transmitted before the change arrive after it. Meanwhile the
    messages of a third node, which depend on those of the first one, must wait.
    """
    source, target, other = random.sample(names, 3)
    seconds = random.choice((0.5, 2.0, 6.0))
    actions = [Action(at_s, "delay", source, (target,), seconds, random.randrange(1 << 16))]
    at_s += random.choice((0.0, 0.1, 0.5))
    kind = random.choice(("remove", "removed", "stop", "kill", "kill"))
    if kind == "removed":
        actions.append(Action(at_s, "remove", target, (source,)))
    elif kind == "kill":
        pause_s = random.choice((0.1, 0.3, 0.6))
        actions += [
            Action(at_s + index * pause_s, "kill", source, (target,), 0.05)
            for index in range(random.randint(1, 3))
        ]
    else:
        actions.append(Action(at_s, kind, source, (target,)))
    actions += [
        Action(at_s + wait_s, "send", random.choice((source, other)), (target,), size=20)
        for wait_s in (0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    ]
    return actions
