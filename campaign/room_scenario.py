"""Random scenarios of rooms: nodes that join, write, leave and fail."""

from dataclasses import dataclass, replace
from random import Random

__all__ = ["RoomAction", "RoomScenario", "draw_room_scenario"]

KINDS = (
    "kill",
    "leave",
    "remove",
    "partition",
    "pause",
    "loss",
    "slow_reader",
    "power",
)
"""The kinds of actions, in addition to joins and messages."""
PROTOCOLS = ("bounded", "bounded", "hybrid", "hybrid-basic")
SIZES = (0, 0, 0, 0, 2_000, 40_000)
SNAPSHOT_BYTES = (0, 0, 0, 0, 50_000, 50_000, 50_000, 500_000)


@dataclass(frozen=True, slots=True)
class RoomAction:
    """An action at a given time; an action that is impossible then has no effect."""

    at_s: float
    kind: str
    node: str
    room: str = ""
    target: str = ""
    seconds: float = 0.0
    size: int = 0


@dataclass(frozen=True, slots=True)
class RoomScenario:
    """A run: its nodes, its rooms, its network and its actions."""

    seed: int
    protocol: str
    keyed: bool
    names: tuple[str, ...]
    rooms: tuple[str, ...]
    journals: bool
    loss: float
    duplicate: float
    delay_s: float
    jitter_s: float
    silence_limit_s: float
    snapshot_bytes: int
    """The bytes that each snapshot has in addition to its content."""
    actions: tuple[RoomAction, ...]

    def with_actions(self, actions: list[RoomAction]) -> "RoomScenario":
        """Return the scenario with other actions."""
        return replace(self, actions=tuple(actions))


def draw_room_scenario(seed: int) -> RoomScenario:
    """Draw a scenario from a seed."""
    random = Random(seed)
    names = tuple(f"n{index}" for index in range(random.choice((2, 3, 3, 4, 4, 5, 6))))
    rooms = ("r",) if random.random() < 0.7 else ("r", "s")
    kinds = random.sample(KINDS, random.randint(0, 4))
    actions = []
    at_s = 0.0
    is_at_once = random.random() < 0.4  # All nodes start at the same time.
    for name in names:
        actions.append(RoomAction(at_s, "start", name))
        at_s += 0.0 if is_at_once else random.choice((0.0, 0.05, 0.3, 2.0))
    at_s = random.choice((0.0, 0.5, 2.0))
    for _ in range(random.randint(10, 60)):
        at_s += random.expovariate(1 / random.choice((0.01, 0.1, 0.5)))
        node = random.choice(names)
        room = random.choice(rooms)
        if kinds and random.random() < 0.15:
            target = random.choice([name for name in names if name != node])
            seconds = random.choice((0.05, 0.5, 2.0, 6.0, 20.0))
            kind = random.choice(kinds)
            actions.append(RoomAction(at_s, kind, node, room, target, seconds))
        else:
            size = random.choice(SIZES)
            actions.append(RoomAction(at_s, "write", node, room, size=size))
    return RoomScenario(
        seed=seed,
        protocol=random.choice(PROTOCOLS),
        keyed=random.random() < 0.3,
        names=names,
        rooms=rooms,
        journals=random.random() < 0.2,
        loss=random.choice((0.0, 0.0, 0.05, 0.2)),
        duplicate=random.choice((0.0, 0.1)),
        delay_s=random.choice((0.001, 0.001, 0.05)),
        jitter_s=random.choice((0.0, 0.002, 0.2)),
        silence_limit_s=random.choice((3.0, 8.0)),
        snapshot_bytes=random.choice(SNAPSHOT_BYTES),
        actions=tuple(sorted(actions, key=lambda action: action.at_s)),
    )
