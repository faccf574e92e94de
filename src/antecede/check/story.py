"""A counterexample as a story: numbered steps, a file to replay, a run to draw.

The file holds the steps by what happens, with frames as their bytes, so that it can be
replayed on the protocol as it is now (:func:`replay`), in the cluster of
:mod:`antecede.testing`, and judged by the oracle.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antecede.check.checker import Checked
from antecede.check.model import Model, members
from antecede.check.removal import ABANDON, RENEW, STOP, WAIVE
from antecede.check.space import ARRIVE, DUPLICATE, FIRE, LOSE, SEND, Action
from antecede.core.contract import Process, ProcessId
from antecede.core.encoding import encode
from antecede.core.registry import protocol
from antecede.core.setting import Setting
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing.cluster import Cluster, Packet

__all__ = ["Story", "load_story", "replay", "tell"]

WORDS = {
    SEND: "send",
    ARRIVE: "arrive",
    LOSE: "lose",
    DUPLICATE: "duplicate",
    FIRE: "fire",
    ABANDON: "abandon",
    RENEW: "renew",
    STOP: "stop",
    WAIVE: "waive",
}


CHANGES = {
    "abandon": "process {who} lets go of process {peer}",
    "renew": "process {who} learns that process {peer} begins anew",
    "stop": "process {who} is said to have stopped",
    "waive": "process {who} waives the permits of process {peer}",
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """A schedule, and the property that it breaks."""

    protocol: str
    processes: int
    reliable: bool
    """Whether the processes run without the link layer."""
    property: str
    steps: tuple[dict[str, object], ...]
    """What happens, in order; see :func:`tell`."""
    lease: bool = True
    """What was given up does not come late."""
    mistaken: bool = False
    """Who is said to have stopped goes on."""

    def to_json(self) -> str:
        """Write it down for :func:`load_story`."""
        return json.dumps(
            {
                "protocol": self.protocol,
                "processes": self.processes,
                "reliable": self.reliable,
                "property": self.property,
                "lease": self.lease,
                "mistaken": self.mistaken,
                "steps": self.steps,
            },
            indent=2,
        )

    def lines(self) -> list[str]:
        """Tell it in numbered lines."""
        return [f"{i:3}. {_line(step)}" for i, step in enumerate(self.steps, 1)]


def tell(checked: Checked) -> Story:
    """Make the story of a violation."""
    assert checked.violation is not None
    bound = checked.bound
    schedule = checked.violation.schedule
    return Story(
        protocol=bound.protocol,
        processes=bound.processes,
        reliable=not (bound.losses or bound.duplicates),
        property=checked.violation.property,
        lease=bound.lease,
        mistaken=bound.mistaken,
        steps=tuple(_step(checked.model, action) for action in schedule),
    )


def _step(model: Model, action: Action) -> dict[str, object]:
    step: dict[str, object] = {"do": WORDS[action.kind], "process": action.place}
    if action.kind == SEND:
        step["targets"] = members(action.what)
    elif action.kind in (ABANDON, RENEW, WAIVE):
        step["peer"] = action.what
    elif action.kind not in (FIRE, STOP):
        packet = model.packets[action.what]
        step["source"] = packet.source
        step["frame"] = encode([packet.frame]).hex()
        step["shown"] = str(packet.frame)
    return step


def _line(step: dict[str, object]) -> str:
    who, what = step["process"], step["do"]
    if what == "send":
        return f"process {who} sends to {step['targets']}"
    if what == "fire":
        return f"a timer of process {who} fires"
    if what in CHANGES:
        return CHANGES[str(what)].format(who=who, peer=step.get("peer"))
    deed = {"arrive": "arrives", "lose": "is lost", "duplicate": "is duplicated"}
    return f"{step['shown']} from {step['source']} to {who} {deed[str(what)]}"


def load_story(path: Path) -> Story:
    """Read a story from its file, or raise ConfigError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Story(
            protocol=str(found["protocol"]),
            processes=int(found["processes"]),
            reliable=bool(found["reliable"]),
            property=str(found["property"]),
            steps=tuple([dict(step) for step in found["steps"]]),
            lease=bool(found.get("lease", True)),
            mistaken=bool(found.get("mistaken", False)),
        )
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} holds no story of a check: {error!r}") from error


def replay(story: Story, make: Callable[[ProcessId], Process] | None = None) -> Cluster:
    """Play a story on a cluster and return it: ask for its verdict, or its history.

    Unless it ends stuck, what is in flight then arrives too: what was delivered too early
    shows when that which should have come first is delivered.

    Raise ConfigError if the story is not possible, as when the protocol has changed.
    """
    setting = Setting(processes=story.processes, reliable=story.reliable)
    broadcast = make is None and not protocol(story.protocol).capabilities.unicast
    cluster = Cluster(story.protocol, story.processes, setting=setting, make=make)
    removal = _Removal(cluster, lease=story.lease, mistaken=story.mistaken)
    # As in the checker, each process has its own clock, which its timers alone move.
    clocks = [0.0] * story.processes
    for number, step in enumerate(story.steps, 1):
        place = step.get("process")
        if not isinstance(place, int) or place not in range(story.processes):
            raise ConfigError(f"step {number} names no process: {step}")
        cluster.now = clocks[place]
        try:
            with removal.kept_off():
                if step["do"] in CHANGES:
                    removal.play(place, step)
                else:
                    _play(cluster, place, step, broadcast=broadcast)
        except (KeyError, TypeError, ValueError, LocalError) as error:
            raise ConfigError(f"step {number} is not possible: {error!r}") from error
        clocks[place] = cluster.now
    cluster.now = max(clocks)
    if removal.has_begun:
        while story.property != "live" and cluster.in_flight:
            with removal.kept_off():
                cluster.arrive()
    elif story.property != "live":
        cluster.settle()
    return cluster


class _Removal:
    """Who has let go of whom, and what is therefore lost."""

    def __init__(self, cluster: Cluster, *, lease: bool, mistaken: bool) -> None:
        self._cluster = cluster
        self._lease = lease
        self._mistaken = mistaken
        self._off: set[tuple[int, int]] = set()
        self._stopped: set[int] = set()
        self.has_begun = False

    def play(self, place: int, step: Mapping[str, object]) -> None:
        """Carry out a step by which a process lets go of another."""
        self.has_begun = True
        if step["do"] == "stop":
            if not self._mistaken:
                self._stopped.add(place)
                self._lose(
                    lambda packet: (
                        packet.target == place or (self._lease and packet.source == place)
                    )
                )
            return
        peer = step["peer"]
        if not isinstance(peer, int):
            raise ValueError(f"no peer: {peer!r}")
        if step["do"] == "abandon":
            self._off.add((place, peer))
            if self._lease:
                self._lose(lambda packet: (packet.source, packet.target) == (place, peer))
            self._cluster.abandon(place, peer)
        elif step["do"] == "renew":
            self._off.discard((peer, place))
            self._cluster.renew(place, peer)
        else:
            self._cluster.waive(place, peer)

    @contextmanager
    def kept_off(self) -> Iterator[None]:
        """Lose what is transmitted meanwhile to who has stopped, or was let go of.

        Once that has begun, what a process refuses is dropped.
        """
        before = list(self._cluster.in_flight)
        try:
            yield
        except PeerError:
            if not self.has_begun:
                raise
        known = {id(packet) for packet in before}
        self._lose(lambda packet: id(packet) not in known and self._is_off(packet))

    def _is_off(self, packet: Packet) -> bool:
        pair = (packet.source, packet.target)
        return packet.target in self._stopped or pair in self._off

    def _lose(self, which: Callable[[Packet], bool]) -> None:
        flying = self._cluster.in_flight
        for index in range(len(flying) - 1, -1, -1):
            if which(flying[index]):
                self._cluster.lose(index)


def _play(
    cluster: Cluster, place: int, step: Mapping[str, object], *, broadcast: bool
) -> None:
    if step["do"] == "send" and broadcast:
        cluster.broadcast(place)
    elif step["do"] == "send":
        targets = step["targets"]
        if not isinstance(targets, Sequence):
            raise ValueError(f"no targets: {targets!r}")
        cluster.send(place, [int(target) for target in targets])
    elif step["do"] == "fire":
        cluster.fire(place)
    else:
        _handle_packet(cluster, place, step)


def _handle_packet(cluster: Cluster, place: int, step: Mapping[str, object]) -> None:
    handle = {
        "arrive": cluster.arrive,
        "lose": cluster.lose,
        "duplicate": cluster.duplicate,
    }[str(step["do"])]
    for index, packet in enumerate(cluster.in_flight):
        if (
            packet.target == place
            and packet.source == step["source"]
            and encode([packet.frame]).hex() == step["frame"]
        ):
            handle(index)
            return
    raise ValueError("nothing like that is in flight")
