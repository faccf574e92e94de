"""One simulated run from a handful of parameters, judged, and written down if asked."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, cast

from antecede.core.config import Setting
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError
from antecede.sim.churn import Churn
from antecede.sim.delay import parse_delay
from antecede.sim.distribution import parse_distribution
from antecede.sim.network import Network
from antecede.sim.overlays import make_overlay
from antecede.sim.probe import Probe, Sample, parse_probe
from antecede.sim.runner import Outcome, run
from antecede.sim.simulator import Loop
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.synthetic import Pace, Workload
from antecede.trace.event import Event
from antecede.trace.recorders import Recorder
from antecede.verify.oracle import Verdict, judge

__all__ = ["Scenario", "Simulation", "simulate", "simulate_to"]

DEFAULT_POLICY: Final = RetransmissionPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated, in the words of the command line."""

    protocol: str = "hybrid"
    """By its name in the registry."""
    processes: int = 10
    messages: int = 20
    """How many messages each process sends of its own accord."""
    workload: str = "uniform"
    """A workload of :mod:`antecede.sim.workloads.catalogue`, perhaps with parameters."""
    gap: str = "exponential:0.05"
    """The seconds from a send to the next, a distribution."""
    size: str = "0"
    """The payload's bytes, a distribution."""
    job: str = "0"
    """The seconds of the job that a delivered message asks for, a distribution."""
    job_share: float = 0.0
    """The share of messages that ask for a job."""
    delay: str = "exponential:0.05"
    """The seconds that a frame takes, a distribution or ``geographic:ACROSS``."""
    bandwidth: float = inf
    """Bytes per second out of each process."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reliable: bool = False
    """Leave the link layer out: the network loses nothing, and keeps the order of each
    pair for the protocols that assume so."""
    first_timeout_s: float = DEFAULT_POLICY.initial_s
    """How long a process waits for an answer before it has had one: the time-out of what is
    lost first. Set it where round trips are known to be short."""
    overlay: str = ""
    """The links that messages travel along, for the protocols that use links: an overlay
    of :mod:`antecede.sim.overlays`, or else everybody has links to all others."""
    sample: str = ""
    """What to note about the processes beside their events: :mod:`antecede.sim.probe`."""
    seed: int = 0
    until_s: float = inf
    """The virtual time at which to stop at the latest."""

    def make_workload(self) -> Workload:
        """Make the workload, which serves one run; raise ConfigError if it cannot be."""
        pace = Pace(
            gap=parse_distribution(self.gap),
            size=parse_distribution(self.size),
            job=parse_distribution(self.job),
            job_share=self.job_share,
            seed=self.seed,
        )
        return make_workload(self.workload, self.processes, self.messages, pace)

    def make_network(self) -> Network:
        """Make the network; raise ConfigError if a value is out of range."""
        return Network(
            delay=parse_delay(self.delay),
            bandwidth=self.bandwidth,
            loss=self.loss,
            duplicate=self.duplicate,
            reorder=self.reorder,
        )

    def make_setting(self) -> Setting:
        """Make what every process is told; raise ConfigError if there is no such overlay.

        Protocols that use no links get none, and nor does their setting.
        """
        first_s = self.first_timeout_s
        policy = RetransmissionPolicy(
            initial_s=first_s, minimum_s=min(DEFAULT_POLICY.minimum_s, first_s)
        )
        setting = Setting(reliable=self.reliable, policy=policy)
        if not protocol(self.protocol).capabilities.overlay:
            return setting
        return make_overlay(self.overlay, setting, processes=self.processes, seed=self.seed)

    def make_probe(self) -> Probe | None:
        """Make what notes the samples, None for none; raise ConfigError if it cannot."""
        return parse_probe(self.sample)

    def command(self) -> str:
        """Return the command that runs this scenario again."""
        words = ["antecede simulate"]
        for key, value in asdict(self).items():
            if value is True:
                words.append(f"--{key}")
            elif value != getattr(Scenario(), key):
                words.append(f"--{key.removesuffix('_s').replace('_', '-')} {value}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A finished run."""

    scenario: Scenario
    outcome: Outcome
    history: tuple[Event, ...]
    """Every event, in the order of virtual time."""
    verdict: Verdict
    """What the oracle says."""
    samples: tuple[Sample, ...] = ()
    """What the scenario's probe noted."""


def simulate(
    scenario: Scenario | None = None,
    *,
    network: Network | None = None,
    workload: Workload | str | None = None,
    setting: Setting | None = None,
    churn: Churn | None = None,
    report: Callable[[Loop], None] | None = None,
    **parameters: str | float,
) -> Simulation:
    """Run a scenario in memory and judge it by the oracle.

    Args:
        scenario: What to run; None if it is given by ``parameters``.
        network: In place of the scenario's, for faults that have no words there.
        workload: In place of the scenario's; a word is the scenario's own.
        setting: What every process is told, for what has no words in the scenario.
        churn: Who comes and goes.
        report: Is called now and then, for a display of progress.
        parameters: The fields of :class:`Scenario`, in place of one.
    """
    if isinstance(workload, str):
        parameters["workload"] = workload
        workload = None
    if scenario is None:
        scenario = Scenario(**cast("dict[str, Any]", parameters))
    elif parameters:
        raise ConfigError("give a scenario or its parameters, not both")
    recorder = Recorder()
    probe = scenario.make_probe()
    outcome = run(
        scenario.protocol,
        workload if workload is not None else scenario.make_workload(),
        network if network is not None else scenario.make_network(),
        recorder,
        seed=scenario.seed,
        setting=setting if setting is not None else scenario.make_setting(),
        churn=churn,
        until_s=scenario.until_s,
        report=report,
        probe=probe,
    )
    return Simulation(
        scenario=scenario,
        outcome=outcome,
        history=tuple(recorder.events),
        verdict=judge(
            recorder.events,
            complete=outcome.complete,
            processes=scenario.processes if workload is None else workload.processes,
        ),
        samples=() if probe is None else tuple(probe.samples),
    )


def simulate_to(
    directory: Path,
    scenario: Scenario,
    report: Callable[[Loop], None] | None = None,
    *,
    name: str | None = None,
) -> Outcome:
    """Run a scenario and stream its trace to ``directory``; memory stays bounded.

    The run is called ``name``, or after its protocol and seed. What its probe noted is in
    ``samples.parquet`` beside the events.
    Verify it afterwards with :func:`antecede.verify.verifier.verify`. Needs the extra
    ``antecede[trace]``.
    """
    from antecede.trace.reader import RunInfo
    from antecede.trace.writer import TraceWriter

    workload = scenario.make_workload()
    network = scenario.make_network()
    probe = scenario.make_probe()
    name = name if name is not None else f"{scenario.protocol}-{scenario.seed}"
    with TraceWriter(directory, name) as writer:
        outcome = run(
            scenario.protocol,
            workload,
            network,
            writer.recorder,
            seed=scenario.seed,
            setting=scenario.make_setting(),
            until_s=scenario.until_s,
            report=report,
            probe=probe,
        )
        if probe is not None:
            _write_samples(directory, name, probe.samples)
        writer.close(
            RunInfo(
                run=name,
                protocol=scenario.protocol,
                seed=scenario.seed,
                complete=outcome.complete,
                processes=workload.processes,
                command=f"{scenario.command()} --out DIR",
                parameters={k: str(v) for k, v in asdict(scenario).items()},
            )
        )
    return outcome


def _write_samples(directory: Path, run_name: str, samples: Sequence[Sample]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from antecede.trace.schema import SAMPLES_NAME, SAMPLES_SCHEMA

    rows = [{"run": run_name, **asdict(sample)} for sample in samples]
    pq.write_table(pa.Table.from_pylist(rows, SAMPLES_SCHEMA), directory / SAMPLES_NAME)
