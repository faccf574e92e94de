"""Simulate a run from a scenario, and verify it or write its trace."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from antecede.core.config import DEFAULT_BUDGET_BYTES, ProcessConfig
from antecede.core.process import UNBOUNDED
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError
from antecede.sim.churn import Churn
from antecede.sim.delay import parse_delay
from antecede.sim.distribution import parse_distribution
from antecede.sim.network import Network
from antecede.sim.overlays import make_overlay
from antecede.sim.probe import Probe, Sample, parse_probe
from antecede.sim.runner import RunSummary, run
from antecede.sim.simulator import Simulator
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.program import Program
from antecede.sim.workloads.synthetic import Pace
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import Verdict, verify_events

if TYPE_CHECKING:
    from antecede.trace.store import StorePath
    from antecede.trace.writer import RunWriter

__all__ = ["Scenario", "SimulationResult", "record_scenario", "simulate", "simulate_to"]

DEFAULT_POLICY: Final = RetransmissionPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The parameters of a run, in the notation of the command line."""

    protocol: str = "hybrid"
    """A protocol of the registry."""
    processes: int = 10
    messages: int = 20
    """The number of messages of each process, without replies."""
    workload: str = "uniform"
    """A workload of :mod:`antecede.sim.workloads.catalogue`, with its parameters."""
    gap: str = "exponential:0.05"
    """The seconds from a send to the next, a distribution."""
    payload_bytes: str = "0"
    """The bytes of a payload, a distribution."""
    service_time: str = "0"
    """The seconds of the job that a delivered message starts, a distribution."""
    service_share: float = 0.0
    """The share of messages that start a job."""
    delay: str = "exponential:0.05"
    """The propagation delay in seconds, a distribution or ``geographic:ACROSS``."""
    bandwidth: float = inf
    """Bytes per second out of each process."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reliable: bool = False
    """Run without the link layer: the network loses no frame, and keeps the order of each
    pair of processes for the protocols that assume it."""
    first_timeout_s: float = DEFAULT_POLICY.initial_s
    """The retransmission timeout before the first round trip is measured. Set it where
    round trips are known to be short."""
    budget_bytes: float = DEFAULT_BUDGET_BYTES
    """For ``bounded``: how many bytes a message may carry beside what it carries under
    ``hybrid``; infinite for no bound."""
    overlay: str = ""
    """The overlay of protocols that use links (:mod:`antecede.sim.overlays`); if empty,
    every process has links to all others."""
    probe: str = ""
    """The samples to take (:mod:`antecede.sim.probe`)."""
    silent_members: int = 0
    """The number of processes, the last ones, that crash. No process removes them."""
    silent_from_s: float = 1.0
    """When they crash."""
    seed: int = 0
    until_s: float = inf
    """The virtual time at which to stop."""

    def make_workload(self) -> Workload:
        """Make the workload, for one run; raise ConfigError if it is not valid."""
        pace = Pace(
            gap=parse_distribution(self.gap),
            payload_bytes=parse_distribution(self.payload_bytes),
            service_time=parse_distribution(self.service_time),
            service_share=self.service_share,
            seed=self.seed,
        )
        return make_workload(self.workload, self.processes, self.messages, pace)

    def make_network(self) -> Network:
        """Make the network; raise ConfigError if a value is out of range."""
        if self.silent_members < 0:
            raise ConfigError(
                f"silent_members must be at least 0, got {self.silent_members}"
            )
        silent = range(self.processes - self.silent_members, self.processes)
        return Network(
            delay=parse_delay(self.delay),
            bandwidth=self.bandwidth,
            loss=self.loss,
            duplicate=self.duplicate,
            reorder=self.reorder,
            crashes=tuple((process, self.silent_from_s) for process in silent),
        )

    def make_config(self) -> ProcessConfig:
        """Make the configuration of every process; raise ConfigError if it is not valid.

        Only protocols that use links get an overlay.
        """
        first_s = self.first_timeout_s
        policy = RetransmissionPolicy(
            initial_s=first_s, minimum_s=min(DEFAULT_POLICY.minimum_s, first_s)
        )
        if not self.budget_bytes >= 0:
            raise ConfigError(f"budget_bytes must be at least 0, got {self.budget_bytes}")
        config = ProcessConfig(
            reliable=self.reliable,
            policy=policy,
            budget_bytes=int(min(self.budget_bytes, UNBOUNDED)),
        )
        if not protocol(self.protocol).capabilities.overlay:
            return config
        return make_overlay(self.overlay, config, processes=self.processes, seed=self.seed)

    def make_probe(self) -> Probe | None:
        """Make the probe, None if there is none; raise ConfigError if it is not valid."""
        return parse_probe(self.probe)

    def command(self) -> str:
        """Return the command that runs this scenario."""
        words = ["antecede simulate"]
        for key, value in asdict(self).items():
            if value is True:
                words.append(f"--{key}")
            elif value != getattr(Scenario(), key):
                words.append(f"--{key.removesuffix('_s').replace('_', '-')} {value}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """A finished run."""

    scenario: Scenario
    summary: RunSummary
    history: tuple[Event, ...]
    """Every event, in the order of virtual time."""
    verdict: Verdict
    """The verdict of the oracle."""
    samples: tuple[Sample, ...] = ()
    """The samples of the probe."""


def simulate(
    scenario: Scenario | None = None,
    *,
    network: Network | None = None,
    workload: Workload | str | None = None,
    config: ProcessConfig | None = None,
    churn: Churn | None = None,
    on_progress: Callable[[Simulator], None] | None = None,
    **parameters: str | float,
) -> SimulationResult:
    """Run a scenario in memory, and verify it by the oracle.

    Args:
        scenario: The scenario; None if it is given by ``parameters``.
        network: A network in place of the scenario's, for faults that it cannot express.
        workload: A workload in place of the scenario's; a string is a parameter.
        config: The configuration of every process, in place of the scenario's.
        churn: Joins, leaves and changes of links.
        on_progress: Called every now and then, for a display of progress.
        parameters: Fields of :class:`Scenario`, in place of ``scenario``.
    """
    if isinstance(workload, str):
        parameters["workload"] = workload
        workload = None
    if scenario is None:
        scenario = Scenario(**cast("dict[str, Any]", parameters))
    elif parameters:
        raise ConfigError("give a scenario or its parameters, not both")
    recorder = MemoryRecorder()
    probe = scenario.make_probe()
    summary = run(
        scenario.protocol,
        workload if workload is not None else scenario.make_workload(),
        network if network is not None else scenario.make_network(),
        EventCounter(recorder),
        seed=scenario.seed,
        config=config if config is not None else scenario.make_config(),
        churn=churn,
        until_s=scenario.until_s,
        on_progress=on_progress,
        probe=probe,
    )
    return SimulationResult(
        scenario=scenario,
        summary=summary,
        history=tuple(recorder.events),
        verdict=verify_events(
            recorder.events,
            complete=summary.complete,
            processes=scenario.processes if workload is None else workload.processes,
        ),
        samples=() if probe is None else tuple(probe.samples),
    )


def simulate_to(
    directory: "str | Path | StorePath",
    scenario: Scenario,
    on_progress: Callable[[Simulator], None] | None = None,
    *,
    name: str | None = None,
) -> RunSummary:
    """Run a scenario and write its trace to a directory or URI in bounded memory.

    The name of the run is ``name``, or made from its protocol and seed. The samples of the
    probe are in ``samples.parquet`` beside the events.
    Verify it afterwards with :func:`antecede.verify.verifier.verify_trace`. Needs the extra
    ``antecede[trace]``.
    """
    from antecede.trace.writer import TraceWriter

    name = name if name is not None else f"{scenario.protocol}-{scenario.seed}"
    return record_scenario(
        lambda: TraceWriter(directory, name), scenario, on_progress, name=name
    )


def record_scenario(
    open_writer: "Callable[[], RunWriter]",
    scenario: Scenario,
    on_progress: Callable[[Simulator], None] | None = None,
    *,
    name: str,
) -> RunSummary:
    """Run a scenario, and write its events and samples.

    Args:
        open_writer: Returns the writer; it is called if the scenario is valid.
        scenario: The scenario.
        on_progress: Called every now and then, for a display of progress.
        name: The name of the run.
    """
    from antecede.trace.run_info import RunInfo

    workload = scenario.make_workload()
    network = scenario.make_network()
    probe = scenario.make_probe()
    with open_writer() as writer:
        summary = run(
            scenario.protocol,
            workload,
            network,
            writer.observer,
            seed=scenario.seed,
            config=scenario.make_config(),
            until_s=scenario.until_s,
            on_progress=on_progress,
            probe=probe,
        )
        if probe is not None:
            _write_samples(writer, name, probe.samples)
        writer.close(
            RunInfo(
                run=name,
                protocol=scenario.protocol,
                seed=scenario.seed,
                complete=summary.complete,
                processes=workload.processes,
                command=f"{scenario.command()} --out DIR",
                parameters={k: str(v) for k, v in asdict(scenario).items()},
                names=workload.names if isinstance(workload, Program) else {},
            )
        )
    return summary


def _write_samples(writer: "RunWriter", run_name: str, samples: Sequence[Sample]) -> None:
    import pyarrow as pa

    from antecede.trace.schema import SAMPLES_SCHEMA

    rows = [{"run": run_name, **asdict(sample)} for sample in samples]
    writer.write_samples(pa.Table.from_pylist(rows, SAMPLES_SCHEMA))
