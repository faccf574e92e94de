"""Replay recorded traffic under every protocol that supports it, on Spark.

The replays are a study (:mod:`antecede.pipeline.study.study`) of one workload, the traffic,
on three networks: that of the trace, the same with loss (or without, if it has some), and
the same with longer delays; the latter two show what would change the advice. All costs
come from the tables that the study writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecede.advise.network import Delays, scaled
from antecede.advise.recommend import ProtocolCost, Recommendation, recommend
from antecede.advise.recordings import average_messages, paced_traffic
from antecede.advise.traffic import RecordedTraffic, write_traffic
from antecede.core.registry import protocol, protocols
from antecede.errors import ConfigError
from antecede.pipeline.study.run import Progress, run_study
from antecede.pipeline.study.study import Study, parse_study
from antecede.report.tables import CellRow, StudyTables, read_tables
from antecede.sim.runner import check_capabilities
from antecede.sim.workloads.program import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Advice", "AdviceOptions", "Plan", "advise", "network_costs", "prepare"]

BASELINES = ("unordered", "fifo")
"""Always run: added latency is relative to the first, and their early deliveries show
whether the traffic needs causal order at all."""
OTHER_LOSS = 0.01
"""The loss to try if the network has none."""
LONGER_DELAY = 10.0
"""The factor of the longer delays to try."""
COPIES_WANTED = 5_000
SEEDS_MAX = 5
"""Short traffic is replayed with several seeds, up to this number of copies in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceOptions:
    """The user's settings; None to use the trace or the defaults."""

    delay: str | None = None
    loss: float = 0.0
    bandwidth: float = inf
    protocols: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The replays to run; from :func:`prepare`."""

    traffic: RecordedTraffic
    delays: Delays
    pause_s: float | None
    """The pause between the events of a process, if the trace has no times."""
    options: AdviceOptions
    skipped: tuple[str, ...]
    """Protocols that do not support the traffic, each with the reason."""
    networks: tuple[str, ...]
    """The phrase for each network of the study, in their order; the first is that of the
    trace."""
    study: Study
    directory: Path

    @property
    def seeds(self) -> int:
        """The number of replays of each protocol on each network."""
        return _seeds(self.traffic)

    @property
    def is_short(self) -> bool:
        """Whether a session that starts fast finishes sooner."""
        return self.traffic.copies * self.seeds <= COPIES_WANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The measured costs and the recommendation; :mod:`antecede.advise.table` prints it."""

    plan: Plan
    failed: tuple[str, ...]
    """Runs that failed, each with its error and the command to replay it."""
    violated: tuple[str, ...]
    """Runs with a violated property, of protocols that guarantee causal order."""
    costs: dict[str, tuple[ProtocolCost, ...]]
    """The costs on each network, by its phrase; the first is that of the trace."""
    recommendation: Recommendation | None


def prepare(
    traffic: RecordedTraffic, directory: Path, options: AdviceOptions | None = None
) -> Plan:
    """Write the workload, and plan the study; run it with :func:`advise`.

    Args:
        traffic: From :func:`antecede.advise.traffic.extract_traffic`.
        directory: The directory for the workload and the study's tables, on storage that
            all workers of Spark reach.
        options: The user's settings.

    Raises:
        ConfigError: An option is invalid, or the directory contains other traffic.
    """
    options = options if options is not None else AdviceOptions()
    traffic, delays, pause_s = paced_traffic(traffic, options.delay)
    names, skipped = _supported(traffic, options.protocols)
    write_traffic(traffic, directory / "workload")
    networks = _networks(delays, options)
    study = _study(traffic, directory / "workload", names, list(networks.values()))
    skipped += [f"{cell.group}: {cell.too_large}" for cell in study.too_large]
    return Plan(
        traffic=traffic,
        delays=delays,
        pause_s=pause_s,
        options=options,
        skipped=tuple(skipped),
        networks=tuple(networks),
        study=study,
        directory=directory,
    )


def advise(
    spark: "SparkSession",
    plan: Plan,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> Advice:
    """Replay the traffic, measure the replays, and recommend a protocol.

    If an earlier call was interrupted, this one continues it.

    Args:
        spark: A session; see :func:`antecede.pipeline.spark.session.open_session`.
        plan: The replays to run.
        on_progress: Is called periodically.

    Raises:
        ConfigError: The directory belongs to another study.
        StorageError: The directory is not writable.
    """
    directory = plan.directory / "study"
    outcome = run_study(spark, plan.study, directory, on_progress=on_progress)
    (tables,) = read_tables([directory]).studies
    costs = {
        phrase: network_costs(tables, f"network-{i}")
        for i, phrase in enumerate(plan.networks)
    }
    return Advice(
        plan=plan,
        failed=tuple(
            f"{cell} failed: {details['error']}; {details['command']}"
            for cell, details in sorted(outcome.failed.items())
        ),
        violated=outcome.violated,
        costs=costs,
        recommendation=recommend(costs, plan.traffic.processes),
    )


def _study(
    traffic: RecordedTraffic,
    workload: Path,
    names: Sequence[str],
    networks: Sequence[dict[str, Any]],
) -> Study:
    """Return the study that replays a workload's directory on some networks."""
    return parse_study(
        {
            "name": "advise",
            "title": "Recorded traffic under every protocol that supports it",
            "protocols": list(names),
            "processes": [traffic.processes],
            "seeds": _seeds(traffic),
            "messages": average_messages(traffic),
            "workloads": {"recorded": {"workload": f"replay:{workload.absolute()}"}},
            "networks": {f"network-{i}": network for i, network in enumerate(networks)},
        }
    )


def _seeds(traffic: RecordedTraffic) -> int:
    return max(1, min(SEEDS_MAX, COPIES_WANTED // traffic.copies))


def _supported(
    traffic: RecordedTraffic, wanted: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the protocols to run, and the reasons why others are skipped.

    Raises:
        ConfigError: A protocol of ``wanted`` does not support the traffic.
    """
    workload = replay(traffic.events, traffic.processes)
    names: list[str] = []
    skipped: dict[str, list[str]] = {}
    known = wanted if wanted is not None else [info.name for info in protocols()]
    for name in dict.fromkeys((*BASELINES, *known)):
        try:
            check_capabilities(protocol(name), workload, None)
        except ConfigError as error:
            if wanted is not None:
                raise
            skipped.setdefault(str(error).removeprefix(f"{name} has "), []).append(name)
            continue
        names.append(name)
    return names, [f"{', '.join(each)}: {reason}" for reason, each in skipped.items()]


def _networks(delays: Delays, options: AdviceOptions) -> dict[str, dict[str, Any]]:
    """Return the networks, by the phrase for each."""
    loss = OTHER_LOSS if options.loss == 0 else 0.0
    recorded: dict[str, Any] = {"delay": delays.delay, "loss": options.loss}
    if options.bandwidth < inf:
        recorded["bandwidth"] = options.bandwidth
    longer = scaled(delays.delay, LONGER_DELAY)
    return {
        "on this network": recorded,
        f"with {loss:.0%} loss" if loss else "without loss": {**recorded, "loss": loss},
        f"with {LONGER_DELAY:g} times the delay": {**recorded, "delay": longer},
    }


def network_costs(tables: StudyTables, network: str) -> tuple[ProtocolCost, ...]:
    """Return the costs of all protocols with a finished run on one network."""
    groups: dict[str, list[CellRow]] = {}
    for cell in tables.run_cells:
        if cell.network == network and cell.cell in tables.values:
            groups.setdefault(cell.protocol, []).append(cell)
    unordered = groups.get("unordered")
    if unordered is None:
        return ()
    base = [_mean(tables, unordered, f"latency_{which}") for which in ("p50", "p99")]
    return tuple(_cost(tables, name, cells, base) for name, cells in groups.items())


def _cost(
    tables: StudyTables, name: str, cells: Sequence[CellRow], base: Sequence[float]
) -> ProtocolCost:
    by_run = {verdict.run: verdict for verdict in tables.verdicts}
    # All runs: one that violates a guarantee is not measured, and has a verdict.
    same = (name, cells[0].network)
    runs = [run.cell for run in tables.run_cells if (run.protocol, run.network) == same]
    verdicts = [by_run[run] for run in runs if run in by_run]

    def mean(measure: str) -> float:
        return _mean(tables, cells, measure)

    def violations(which: str) -> int:
        return sum(verdict.counts[which] or 0 for verdict in verdicts)

    latency = [mean("latency_p50"), mean("latency_p99")]
    return ProtocolCost(
        protocol=name,
        network=cells[0].network,
        causal=protocol(name).capabilities.causal,
        held=all(cell.cell in by_run for cell in cells)
        and all({*verdict.statuses.values()} == {"held"} for verdict in verdicts),
        runs=len(cells),
        copies=round(len(cells) * mean("copies")),
        latency_p50=latency[0],
        latency_p99=latency[1],
        added_p50=latency[0] - base[0],
        added_p99=latency[1] - base[1],
        metadata_bytes=mean("metadata_bytes_mean"),
        metadata_total=mean("metadata_bytes_total"),
        control_frames=mean("control_frames"),
        sender_buffer=mean("sender_buffer_max"),
        receiver_buffer=mean("receiver_buffer_max"),
        too_early=violations("causal"),
        too_early_fifo=violations("fifo"),
        duration=mean("execution_time"),
    )


def _mean(tables: StudyTables, cells: Sequence[CellRow], measure: str) -> float:
    """Return the mean of a measure over the seeds of a group, 0 if it is undefined."""
    found = tables.index.get((cells[0].group, measure))
    return found.mean or 0.0 if found is not None else 0.0
