"""Replay recorded traffic under every protocol that can serve it, on Spark.

It is a study like any other (:mod:`antecede.pipeline.study.study`) of one workload, the traffic,
on three networks: that of the trace, the same with loss (or without, if it has some), and
the same with longer delays; the latter two tell what would change the advice. All figures
come from the tables that the study writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecede.advise.network import Delays, find_delays, scaled, typical_delay
from antecede.advise.recommend import Figures, Recommendation, recommend
from antecede.advise.traffic import Traffic, paced, write_traffic
from antecede.core.registry import protocol, protocols
from antecede.errors import ConfigError
from antecede.pipeline.study.run import Progress, run_study
from antecede.pipeline.study.study import Study, parse_study
from antecede.report.tables import CellRow, StudyTables, read_tables
from antecede.sim.runner import check_able
from antecede.sim.workloads.program import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Advice", "Plan", "Wishes", "advise", "prepare"]

BASELINES = ("unordered", "fifo")
"""They are always run: added latency is counted from the first, and what either would
have delivered too early says whether order is needed at all."""
OTHER_LOSS = 0.01
"""What loss to try beside a network without any."""
FAR = 10.0
"""How many times as long to try delays, too."""
COPIES_WANTED = 5_000
SEEDS_MAX = 5
"""Short traffic is replayed with several seeds, but not for more copies than these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user sets; None for what the trace or the defaults say."""

    delay: str | None = None
    loss: float = 0.0
    bandwidth: float = inf
    protocols: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was measured, and what to take; :mod:`antecede.advise.table` prints it."""

    traffic: Traffic
    delays: Delays
    pause_s: float | None
    """What was put between the events of a process, where the trace has no times."""
    wishes: Wishes
    seeds: int
    left_out: tuple[str, ...]
    """Protocols that cannot serve it, or did not finish, each with the reason."""
    broken: tuple[str, ...]
    """Runs of protocols that promise causal order, in which a property was violated."""
    failed: int
    """How many runs did not finish."""
    figures: dict[str, tuple[Figures, ...]]
    """Of each network, by what it is called; the first is that of the trace."""
    recommendation: Recommendation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run; from :func:`prepare`."""

    traffic: Traffic
    delays: Delays
    pause_s: float | None
    wishes: Wishes
    left_out: tuple[str, ...]
    networks: tuple[str, ...]
    """What each network of the study is called in a sentence, in their order."""
    study: Study
    directory: Path

    @property
    def is_brief(self) -> bool:
        """Whether it is done sooner with a session for brief work."""
        return self.traffic.copies * _seeds(self.traffic) <= COPIES_WANTED


def prepare(traffic: Traffic, directory: Path, wishes: Wishes | None = None) -> Plan:
    """Write the workload, and plan the study; run it with :func:`advise`.

    Args:
        traffic: From :func:`antecede.advise.traffic.take_traffic`.
        directory: Where the workload and the study's tables are kept; on storage that all
            workers of Spark reach.
        wishes: What is set by hand.

    Raises:
        ConfigError: A wish cannot be, or the directory holds something else.
    """
    wishes = wishes if wishes is not None else Wishes()
    delays = find_delays(traffic.events, wishes.delay)
    pause_s = None if traffic.has_times else typical_delay(delays.delay)
    if pause_s is not None:
        traffic = paced(traffic, pause_s)
    names, left_out = _able(traffic, wishes.protocols)
    write_traffic(traffic, directory / "workload")
    networks = _networks(delays, wishes)
    study = _study(traffic, directory / "workload", names, list(networks.values()))
    left_out += [f"{cell.group}: {cell.too_large}" for cell in study.too_large]
    return Plan(
        traffic=traffic,
        delays=delays,
        pause_s=pause_s,
        wishes=wishes,
        left_out=tuple(left_out),
        networks=tuple(networks),
        study=study,
        directory=directory,
    )


def advise(
    spark: "SparkSession",
    plan: Plan,
    *,
    report: Callable[[Progress], None] | None = None,
) -> Advice:
    """Replay traffic, measure it, and recommend a protocol.

    Where an earlier call was interrupted, this one goes on.

    Args:
        spark: A session; see :func:`antecede.pipeline.spark.session.open_session`.
        plan: What to run.
        report: Is called now and then, for a display of progress.

    Raises:
        ConfigError: The directory cannot be written to, or holds another study.
    """
    outcome = run_study(spark, plan.study, plan.directory / "study", report=report)
    (tables,) = read_tables([plan.directory / "study"]).studies
    figures = {
        words: _figures(tables, f"network-{place}")
        for place, words in enumerate(plan.networks)
    }
    failed = [
        f"{cell} failed: {note['error']}; {note['command']}"
        for cell, note in sorted(outcome.failed.items())
    ]
    return Advice(
        traffic=plan.traffic,
        delays=plan.delays,
        pause_s=plan.pause_s,
        wishes=plan.wishes,
        seeds=_seeds(plan.traffic),
        left_out=(*plan.left_out, *failed),
        broken=outcome.broken,
        failed=len(failed),
        figures=figures,
        recommendation=recommend(figures, plan.traffic.processes),
    )


def _study(
    traffic: Traffic,
    workload: Path,
    names: Sequence[str],
    networks: Sequence[dict[str, Any]],
) -> Study:
    """Return the study that replays a workload's directory on some networks."""
    return parse_study(
        {
            "name": "advise",
            "title": "Recorded traffic under every protocol that can serve it",
            "protocols": list(names),
            "sizes": [traffic.processes],
            "seeds": _seeds(traffic),
            "messages": max(1, traffic.messages // traffic.processes),
            "workloads": {"recorded": {"workload": f"replay:{workload.absolute()}"}},
            "networks": {
                f"network-{place}": network for place, network in enumerate(networks)
            },
        }
    )


def _seeds(traffic: Traffic) -> int:
    return max(1, min(SEEDS_MAX, COPIES_WANTED // traffic.copies))


def _able(traffic: Traffic, wanted: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the protocols to run, and why others are not.

    Raise ConfigError if one that was asked for cannot serve the traffic.
    """
    workload = replay(traffic.events, traffic.processes)
    names: list[str] = []
    left_out: dict[str, list[str]] = {}
    known = wanted if wanted is not None else [info.name for info in protocols()]
    for name in dict.fromkeys((*BASELINES, *known)):
        try:
            check_able(protocol(name), workload, None)
        except ConfigError as error:
            if wanted is not None:
                raise
            left_out.setdefault(str(error).removeprefix(f"{name} has "), []).append(name)
            continue
        names.append(name)
    return names, [f"{', '.join(each)}: {why}" for why, each in left_out.items()]


def _networks(delays: Delays, wishes: Wishes) -> dict[str, dict[str, Any]]:
    """Return the networks, by what each is called in a sentence."""
    other = OTHER_LOSS if wishes.loss == 0 else 0.0
    here: dict[str, Any] = {"delay": delays.delay, "loss": wishes.loss}
    if wishes.bandwidth < inf:
        here["bandwidth"] = wishes.bandwidth
    return {
        "on this network": here,
        f"with {other:.0%} loss" if other else "without loss": {**here, "loss": other},
        f"with {FAR:g} times the delay": {**here, "delay": scaled(delays.delay, FAR)},
    }


def _figures(tables: StudyTables, network: str) -> tuple[Figures, ...]:
    """Return what the tables say of one network; a protocol without a run has none."""
    groups: dict[str, list[CellRow]] = {}
    for cell in tables.run_cells:
        if cell.network == network and cell.cell in tables.values:
            groups.setdefault(cell.protocol, []).append(cell)
    plain = groups.get("unordered")
    if plain is None:
        return ()
    base = [_mean(tables, plain, f"latency_{which}") for which in ("p50", "p99")]
    return tuple(_row(tables, name, cells, base) for name, cells in groups.items())


def _row(
    tables: StudyTables, name: str, cells: Sequence[CellRow], base: Sequence[float]
) -> Figures:
    verdicts = {verdict.run: verdict for verdict in tables.verdicts}
    judged = [verdicts[cell.cell] for cell in cells if cell.cell in verdicts]

    def mean(measure: str) -> float:
        return _mean(tables, cells, measure)

    def broken(which: str) -> int:
        return sum(each.counts[which] or 0 for each in judged)

    latency = [mean("latency_p50"), mean("latency_p99")]
    return Figures(
        protocol=name,
        network=cells[0].network,
        causal=protocol(name).capabilities.causal,
        held=len(judged) == len(cells)
        and all({*each.statuses.values()} == {"held"} for each in judged),
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
        too_early=broken("causal"),
        too_early_fifo=broken("fifo"),
        duration=mean("execution_time"),
    )


def _mean(tables: StudyTables, cells: Sequence[CellRow], measure: str) -> float:
    """Return the mean of a measure over the seeds of a group, 0 if it has none."""
    found = tables.index.get((cells[0].group, measure))
    return found.mean or 0.0 if found is not None else 0.0
