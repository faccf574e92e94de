"""Replay a counterexample of the model checker on a cluster.

The cluster runs the protocol as it is now, so that a repaired protocol passes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from antecede.check.counterexample import CHANGES, Story
from antecede.core.codec import encode
from antecede.core.config import Setting
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing.cluster import Cluster, Packet

__all__ = ["replay"]


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
