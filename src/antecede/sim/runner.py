"""Run a protocol on a workload in virtual time."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from antecede.core.config import Setting
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.registry import ProtocolInfo, protocol
from antecede.errors import ConfigError
from antecede.sim.churn import Churn
from antecede.sim.network import Network, check_processes
from antecede.sim.probe import Probe
from antecede.sim.simulator import Loop
from antecede.sim.workloads.synthetic import Workload
from antecede.trace.recorders import Tally

__all__ = ["Outcome", "check_able", "run"]

EVENTS_PER_REPORT = 50_000
"""How many events pass between two reports of progress."""
AFTERMATH_S = 120.0
"""How long a run goes on after the last crash or leave, if nothing else ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run went."""

    protocol: str
    seed: int
    complete: bool
    """It went on until nothing was left to do; else a bound, or a crash, cut it short."""
    events: int
    """How many happenings the loop went through."""
    duration_s: float
    """The virtual time at which something happened last, idle timers aside."""
    copies: int
    """Copies of messages sent to other processes."""
    sender_wait_s: float | None
    """The mean from send to release, over all copies; None if the run is not complete."""
    wire_s: float | None
    """The mean from release to the first arrival, retransmissions included; where messages
    are relayed, to their delivery."""
    receiver_wait_s: float | None
    """The mean from the first arrival to delivery."""
    control_frames: int
    """Frames without a message."""
    control_bytes: int
    """The bytes of those frames."""
    retransmissions: int
    """Copies of messages transmitted again."""
    relays: int
    """Times that a process passed on a message of another."""
    dropped_frames: int
    """Frames that the network lost."""
    payload_bytes: int
    """The payload in all frames."""
    metadata_bytes: int
    """Everything else in all frames."""

    @property
    def metadata_bytes_per_copy(self) -> float:
        """What a copy cost beside its payload, control frames and repeats included."""
        return self.metadata_bytes / self.copies if self.copies else 0.0


def run(
    name: str,
    workload: Workload,
    network: Network,
    recorder: Tally,
    *,
    seed: int = 0,
    setting: Setting | None = None,
    churn: Churn | None = None,
    until_s: float = inf,
    report: Callable[[Loop], None] | None = None,
    probe: Probe | None = None,
) -> Outcome:
    """Run a protocol on a workload over a network, until everything is at rest.

    Args:
        name: The protocol, by its name in the registry.
        workload: What the processes do; a workload serves one run.
        network: What happens to frames and processes.
        recorder: What gets to see every event; a new one.
        seed: What the network's random numbers depend on.
        setting: What every process is told; the number of processes is the workload's,
            and without a seed of its own it gets the run's.
        churn: Who comes and goes, for a broadcast protocol with dynamic membership.
        until_s: The virtual time at which to stop at the latest.
        report: Is called now and then, for a display of progress.
        probe: What to note about the processes on the way.

    Raises:
        ConfigError: The protocol cannot serve the workload, or the network, the churn or
            the overlay names a process that there is not.
    """
    info = protocol(name)
    able = info.capabilities
    check_able(info, workload, churn)
    check_processes(network, workload.processes)
    churn = churn if churn is not None else Churn()
    churn.check_processes(workload.processes)
    churn.check_crashes(network.crashes)
    if not until_s >= 0:
        raise ConfigError(f"the end must be a time of at least 0, got {until_s}")
    # Nobody stops trying to reach those who are gone.
    gone = [at_s for _, at_s in network.crashes] + [leave.at_s for leave in churn.leaves]
    if gone:
        until_s = min(until_s, max(gone) + AFTERMATH_S)
    setting = setting if setting is not None else Setting()
    if churn or setting.links is not None:
        links = churn.links_at_first(setting.links, workload.processes)
        newcomers = frozenset([join.process for join in churn.joins])
        setting = replace(setting, links=links, newcomers=newcomers)
    setting = replace(
        setting, processes=workload.processes, seed=setting.seed if setting.seed else seed
    )
    if setting.reliable:
        network = _reliable(network, fifo=not able.reordering)
    members = [info.make(ProcessId(i), setting) for i in range(workload.processes)]
    driven = members if probe is None else probe.wrap(members)
    loop = Loop(
        driven, network, workload, recorder, seed, churn, able.relays, able.broadcast
    )
    if probe is not None and gone:
        raise ConfigError("nothing can be sampled where processes crash or leave")
    with _resting_collector():
        if probe is not None:
            _observe(probe, members, loop, until_s, report)
        _go_on(loop, until_s, report)
        if probe is not None:
            probe.end(loop.now)
    return _outcome(name, seed, loop, recorder)


def _observe(
    probe: Probe,
    members: Sequence[ProcessBase],
    loop: Loop,
    until_s: float,
    report: Callable[[Loop], None] | None,
) -> None:
    """Go from one of the probe's moments to the next."""
    for moment in probe.moments:
        if moment > until_s:
            break
        _go_on(loop, moment, report)
        loop.unfinished = False  # It goes on after this.
        probe.observe(moment, members)


def _go_on(loop: Loop, until_s: float, report: Callable[[Loop], None] | None) -> None:
    while loop.run(until_s, EVENTS_PER_REPORT):
        if report is not None:
            report(loop)


def _outcome(name: str, seed: int, loop: Loop, recorder: Tally) -> Outcome:
    waits = loop.waits
    copies = waits.copies

    def mean(later_s: float, earlier_s: float) -> float | None:
        """Sums tell a mean only if every copy went all the way."""
        if loop.unfinished or not waits.whole or not copies:
            return None
        return max(0.0, (later_s - earlier_s) / copies)  # Sums are rounded.

    return Outcome(
        protocol=name,
        seed=seed,
        complete=not loop.unfinished,
        events=loop.events,
        duration_s=loop.active_s,
        copies=copies,
        sender_wait_s=mean(waits.released_s, waits.sent_s),
        wire_s=mean(waits.arrived_s, waits.released_s),
        receiver_wait_s=mean(waits.delivered_s, waits.arrived_s),
        control_frames=recorder.control_frames,
        control_bytes=recorder.control_bytes,
        retransmissions=recorder.retransmissions,
        relays=recorder.relays,
        dropped_frames=recorder.dropped_frames,
        payload_bytes=recorder.payload_bytes,
        metadata_bytes=recorder.metadata_bytes,
    )


def check_able(info: ProtocolInfo, workload: Workload, churn: Churn | None) -> None:
    """Raise ConfigError if the protocol cannot serve the workload, or the churn."""
    able = info.capabilities
    if workload.broadcast:
        lacks = "" if able.broadcast or able.multicast else "broadcast"
    elif workload.fan_out_max > 1:
        lacks = "" if able.multicast else "multicast"
    else:
        lacks = "" if able.unicast else "unicast"
    if lacks:
        raise ConfigError(f"{info.name} has no {lacks}, which this workload needs")
    if churn and not (able.dynamic and able.broadcast):
        raise ConfigError(f"{info.name} has no broadcast with members that come and go")


def _reliable(network: Network, *, fifo: bool) -> Network:
    """Return the network that a protocol gets without the link layer."""
    if network.loss or network.duplicate or network.partitions or network.crashes:
        raise ConfigError(
            "a network declared reliable cannot lose or duplicate frames, be cut or crash"
        )
    return replace(network, fifo=fifo)


@contextmanager
def _resting_collector() -> Iterator[None]:
    """Let the garbage collector rest: a run makes no cycles, only very many objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
