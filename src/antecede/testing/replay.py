"""Replay a counterexample of the model checker on a cluster.

The cluster runs the current version of the protocol, so that a corrected protocol passes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from antecede.check.counterexample import REMOVAL_STEPS, SILENCE_STEPS, Counterexample
from antecede.check.inputs import drop_held
from antecede.core.codec import encode
from antecede.core.config import ProcessConfig
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing.cluster import Cluster, Packet
from antecede.verify.oracle import Property, Violation

__all__ = ["replay", "violations_in"]


def replay(
    counterexample: Counterexample, make: Callable[[ProcessId], Process] | None = None
) -> Cluster:
    """Run the steps of a counterexample on a cluster, and return the cluster.

    Unless the counterexample violates liveness, the packets in flight at its end arrive as
    well, because a message that was delivered too early is a violation only once the
    message before it is delivered.

    Args:
        counterexample: The steps to run.
        make: Makes a process that is not in the registry.

    Raises:
        ConfigError: A step is not possible, for example because the protocol has changed.
    """
    processes = counterexample.processes
    config = ProcessConfig(
        processes=processes,
        reliable=counterexample.reliable,
        budget_bytes=counterexample.budget_bytes,
    )
    broadcast = make is None and not protocol(counterexample.protocol).capabilities.unicast
    cluster = Cluster(counterexample.protocol, processes, config=config, make=make)
    removal = _Removal(
        cluster,
        lease=counterexample.lease,
        false_suspicion=counterexample.false_suspicion,
    )
    # As in the checker, each process has its own clock, which only its timers advance.
    clocks = [0.0] * processes
    for number, step in enumerate(counterexample.steps, 1):
        process = step.get("process")
        if not isinstance(process, int) or process not in range(processes):
            raise ConfigError(f"step {number} has no valid process: {step}")
        cluster.now = clocks[process]
        try:
            with removal.filtering():
                if step["do"] in REMOVAL_STEPS or step["do"] in SILENCE_STEPS:
                    removal.run_step(process, step)
                else:
                    _run_step(cluster, process, step, broadcast=broadcast)
        except (KeyError, TypeError, ValueError, LocalError) as error:
            raise ConfigError(f"step {number} is not possible: {error!r}") from error
        clocks[process] = cluster.now
    cluster.now = max(clocks)
    if removal.has_begun:
        while counterexample.property != "liveness" and cluster.in_flight:
            with removal.filtering():
                cluster.arrive()
    elif counterexample.property != "liveness":
        cluster.run_until_idle()
    return cluster


def violations_in(cluster: Cluster, counterexample: Counterexample) -> list[Violation]:
    """Return the violations of a replayed run that its counterexample is about.

    If the counterexample names undelivered copies, those that it does not name are not
    violations: causal order forbids their delivery while a process is silent.
    """
    return [
        violation
        for violation in cluster.verdict().violations
        if violation.property is not Property.LIVENESS
        or not counterexample.undelivered
        or f"{violation.message} to {violation.process}" in counterexample.undelivered
    ]


class _Removal:
    """The removals and silences of a replay, and the packets dropped because of them."""

    def __init__(self, cluster: Cluster, *, lease: bool, false_suspicion: bool) -> None:
        self._cluster = cluster
        self._lease = lease
        self._false_suspicion = false_suspicion
        self._off: set[tuple[int, int]] = set()
        self._stopped: set[int] = set()
        self.has_begun = False

    def run_step(self, process: int, step: Mapping[str, object]) -> None:
        """Run a step of a removal or a silence."""
        self.has_begun = True
        if step["do"] == "silence":
            self._stopped.add(process)
            self._drop(lambda packet: packet.target == process)
            return
        if step["do"] == "return":
            self._stopped.remove(process)
            return
        if step["do"] == "stop":
            if not self._false_suspicion:
                self._stopped.add(process)
                self._drop(
                    lambda packet: (
                        packet.target == process
                        or (self._lease and packet.source == process)
                    )
                )
                for other in range(len(self._cluster.processes)):
                    if self._lease and other != process:
                        drop_held(self._cluster.processes[other], ProcessId(process))
            return
        peer = step["peer"]
        if not isinstance(peer, int):
            raise ValueError(f"peer must be a process, got {peer!r}")
        if step["do"] == "abandon":
            self._off.add((process, peer))
            if self._lease:
                self._drop(lambda packet: (packet.source, packet.target) == (process, peer))
                drop_held(self._cluster.processes[peer], ProcessId(process))
            self._cluster.abandon(process, peer)
        elif step["do"] == "reset":
            self._off.discard((peer, process))
            self._cluster.reset_channel(process, peer)
        else:
            self._cluster.forgo_permits(process, peer)

    @contextmanager
    def filtering(self) -> Iterator[None]:
        """Drop the packets of this context to processes that no longer accept them.

        After the first removal or silence, frames that a process refuses are dropped, too.
        """
        before = list(self._cluster.in_flight)
        try:
            yield
        except PeerError:
            if not self.has_begun:
                raise
        known = {id(packet) for packet in before}
        self._drop(lambda packet: id(packet) not in known and self._is_off(packet))

    def _is_off(self, packet: Packet) -> bool:
        pair = (packet.source, packet.target)
        return packet.target in self._stopped or pair in self._off

    def _drop(self, condition: Callable[[Packet], bool]) -> None:
        in_flight = self._cluster.in_flight
        for index in range(len(in_flight) - 1, -1, -1):
            if condition(in_flight[index]):
                self._cluster.drop(index)


def _run_step(
    cluster: Cluster, process: int, step: Mapping[str, object], *, broadcast: bool
) -> None:
    if step["do"] == "send" and broadcast:
        cluster.broadcast(process)
    elif step["do"] == "send":
        targets = step["targets"]
        if not isinstance(targets, Sequence):
            raise ValueError(f"targets must be a list, got {targets!r}")
        cluster.send(process, [int(target) for target in targets])
    elif step["do"] == "fire":
        cluster.fire(process)
    else:
        _handle_packet(cluster, process, step)


def _handle_packet(cluster: Cluster, process: int, step: Mapping[str, object]) -> None:
    handle = {
        "arrive": cluster.arrive,
        "drop": cluster.drop,
        "duplicate": cluster.duplicate,
    }[str(step["do"])]
    for index, packet in enumerate(cluster.in_flight):
        if (
            packet.target == process
            and packet.source == step["source"]
            and encode([packet.frame]).hex() == step["frame"]
        ):
            handle(index)
            return
    raise ValueError("no such packet is in flight")
