"""Run a protocol on a workload in virtual time."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.registry import ProtocolInfo, protocol
from antecede.errors import ConfigError
from antecede.sim.churn import Churn
from antecede.sim.network import Network, check_processes
from antecede.sim.probe import Probe
from antecede.sim.simulator import Simulator
from antecede.sim.workloads.workload import Workload
from antecede.trace.recorders import EventCounter

__all__ = ["RunSummary", "check_capabilities", "run"]

EVENTS_PER_REPORT = 50_000
"""The number of events between two calls of ``on_progress``."""
AFTERMATH_S = 120.0
"""The maximum virtual time that a run continues after the last crash or leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The counts and mean times of a run."""

    protocol: str
    seed: int
    complete: bool
    """Whether the run ended by itself, without a time limit, a crash or a leave."""
    events: int
    """The number of events of the simulator."""
    duration_s: float
    """The virtual time of the last event, except faults and timers without effect."""
    copies: int
    """Copies of messages for processes other than their source."""
    sender_wait_s: float | None
    """The mean time from send to release over all copies; None unless the run is
    complete."""
    wire_s: float | None
    """The mean time from release to the first arrival, with retransmissions; for relayed
    messages, to the delivery."""
    receiver_wait_s: float | None
    """The mean time from the first arrival to delivery."""
    control_frames: int
    """Frames without a message."""
    control_bytes: int
    """The bytes of those frames."""
    retransmissions: int
    """Frames with a message that the same process had transmitted before."""
    relays: int
    """Frames with a message that a process forwarded for its source."""
    dropped_frames: int
    """Frames that the network lost."""
    payload_bytes: int
    """The payload in all frames."""
    metadata_bytes: int
    """All other bytes in all frames."""

    @property
    def metadata_bytes_per_copy(self) -> float:
        """The metadata per copy, with control frames and retransmissions."""
        return self.metadata_bytes / self.copies if self.copies else 0.0


def run(
    name: str,
    workload: Workload,
    network: Network,
    observer: EventCounter,
    *,
    seed: int = 0,
    config: ProcessConfig | None = None,
    churn: Churn | None = None,
    until_s: float = inf,
    on_progress: Callable[[Simulator], None] | None = None,
    probe: Probe | None = None,
) -> RunSummary:
    """Run a protocol on a workload over a network, until no events remain.

    Args:
        name: A protocol of the registry.
        workload: The messages to send; a workload serves one run.
        network: The behaviour of the network, and the faults of processes.
        observer: Is passed every event; a new one.
        seed: The seed of the network's random numbers.
        config: The configuration of every process. The number of processes is that of the
            workload; without a seed, the configuration gets that of the run.
        churn: Joins, leaves and changes of links, for a broadcast protocol with dynamic
            membership.
        until_s: The virtual time at which to stop.
        on_progress: Called every EVENTS_PER_REPORT events.
        probe: The samples to take.

    Raises: ConfigError: The protocol lacks a capability that the workload needs, or the
    network, the churn or the overlay names a process that does not exist.
    """
    info = protocol(name)
    capabilities = info.capabilities
    check_capabilities(info, workload, churn)
    check_processes(network, workload.processes)
    churn = churn if churn is not None else Churn()
    churn.check_processes(workload.processes)
    churn.check_crashes(network.crashes)
    if not until_s >= 0:
        raise ConfigError(f"until_s must be at least 0, got {until_s}")
    # Processes retransmit to those that crashed without end, and to those that left for
    # several timeouts.
    ends = [at_s for _, at_s in network.crashes] + [leave.at_s for leave in churn.leaves]
    if ends:
        until_s = min(until_s, max(ends) + AFTERMATH_S)
    config = _complete_config(config, workload.processes, churn, seed)
    if config.reliable:
        network = _reliable(network, fifo=not capabilities.reordering)
    if probe is not None and ends:
        raise ConfigError("a probe cannot be used in a run with crashes or leaves")
    processes = [info.make(ProcessId(i), config) for i in range(workload.processes)]
    simulator = Simulator(
        processes if probe is None else probe.wrap(processes),
        network,
        workload,
        observer,
        seed,
        churn,
        capabilities.relays,
        capabilities.broadcast,
    )
    with _without_garbage_collection():
        if probe is not None:
            _run_probe(probe, processes, simulator, until_s, on_progress)
        _run_until(simulator, until_s, on_progress)
        if probe is not None:
            probe.end(simulator.now)
    return _summarize(name, seed, simulator, observer)


def _complete_config(
    config: ProcessConfig | None, processes: int, churn: Churn, seed: int
) -> ProcessConfig:
    """Return the configuration with the number of processes, the seed and the links."""
    config = config if config is not None else ProcessConfig()
    if churn or config.links is not None:
        links = churn.initial_links(config.links, processes)
        newcomers = frozenset([join.process for join in churn.joins])
        config = replace(config, links=links, newcomers=newcomers)
    return replace(config, processes=processes, seed=config.seed if config.seed else seed)


def _run_probe(
    probe: Probe,
    processes: Sequence[ProcessBase],
    simulator: Simulator,
    until_s: float,
    on_progress: Callable[[Simulator], None] | None,
) -> None:
    """Run to each of the probe's times, and take its samples."""
    for time in probe.times:
        if time > until_s:
            break
        _run_until(simulator, time, on_progress)
        simulator.unfinished = False  # The run continues.
        probe.observe(time, processes)


def _run_until(
    simulator: Simulator,
    until_s: float,
    on_progress: Callable[[Simulator], None] | None,
) -> None:
    while simulator.run(until_s, EVENTS_PER_REPORT):
        if on_progress is not None:
            on_progress(simulator)


def _summarize(
    name: str, seed: int, simulator: Simulator, observer: EventCounter
) -> RunSummary:
    sums = simulator.latencies
    copies = sums.copies

    def mean(later_s: float, earlier_s: float) -> float | None:
        if simulator.unfinished or not sums.is_complete or not copies:
            return None
        return max(0.0, (later_s - earlier_s) / copies)  # Sums are rounded.

    return RunSummary(
        protocol=name,
        seed=seed,
        complete=not simulator.unfinished,
        events=simulator.events,
        duration_s=simulator.active_s,
        copies=copies,
        sender_wait_s=mean(sums.released_s, sums.sent_s),
        wire_s=mean(sums.arrived_s, sums.released_s),
        receiver_wait_s=mean(sums.delivered_s, sums.arrived_s),
        control_frames=observer.control_frames,
        control_bytes=observer.control_bytes,
        retransmissions=observer.retransmissions,
        relays=observer.relays,
        dropped_frames=observer.dropped_frames,
        payload_bytes=observer.payload_bytes,
        metadata_bytes=observer.metadata_bytes,
    )


def check_capabilities(info: ProtocolInfo, workload: Workload, churn: Churn | None) -> None:
    """Raise ConfigError if the protocol cannot run the workload, or the churn."""
    capabilities = info.capabilities
    if workload.broadcast:
        lacks = "" if capabilities.broadcast or capabilities.multicast else "broadcast"
    elif workload.fan_out_max > 1:
        lacks = "" if capabilities.multicast else "multicast"
    else:
        lacks = "" if capabilities.unicast else "unicast"
    if lacks:
        raise ConfigError(f"{info.name} has no {lacks}, which this workload needs")
    if churn and not (capabilities.dynamic and capabilities.broadcast):
        raise ConfigError(f"{info.name} has no broadcast with dynamic membership")


def _reliable(network: Network, *, fifo: bool) -> Network:
    """Return the network of a protocol that runs without the link layer."""
    if network.loss or network.duplicate or network.partitions or network.crashes:
        raise ConfigError(
            "a reliable network cannot have losses, duplicates, partitions or crashes"
        )
    return replace(network, fifo=fifo)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector: a run makes many objects, and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
