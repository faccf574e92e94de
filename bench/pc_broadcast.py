"""PC-broadcast among live nodes, beside a simulation: ``make bench-pc-broadcast``.

Some processes run nodes on loopback that join one room, with ``--processes`` and
``--nodes`` in each. Nodes join while others broadcast; some leave, and some stop without a
goodbye. Their traces are merged and verified. A socket delays what it transmits by
``--delay`` seconds, if that is not 0, and the same group is simulated with this delay.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean, median, quantiles
from typing import Any

from antecede import Limits, Node, Room, WhenSilent
from antecede.core.overlay_links import OverlayLinks
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import JoinError, LocalError
from bench.delayed_host import DelayedEventLoop

__all__ = ["Plan"]

RUN = "pc-broadcast"
ROOM = "crowd"
DOWN_S = 45.0
"""The time after which a silent neighbour is replaced; long enough for a busy machine."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a run; times are in seconds after its start."""

    processes: int = 4
    nodes: int = 50
    """The permanent nodes of each process; others join and leave during the run."""
    volatile: int = 5
    """Nodes in each process that join during the broadcasts; a third of them leaves, and a
    third stops without a goodbye."""
    broadcasts: int = 60
    exchange_s: float = 20.0
    delay_s: float = 0.0
    joined_s: float = 60.0
    """The time at which all permanent nodes should have joined."""
    settled_s: float = 100.0
    """The time of the first broadcast."""
    sent_s: float = 160.0
    """The time of the last broadcast."""
    end_s: float = 200.0
    sample_s: float = 7.0
    seed: int = 1

    @property
    def limits(self) -> Limits:
        """The limits of the nodes."""
        ping_s = max(5 / 6 * self.exchange_s, 10 * self.delay_s)
        return Limits(
            exchange_s=self.exchange_s,
            linger_s=2 * ping_s,
            ping_timeout_s=ping_s,
            silence_s=15.0,  # Even if the machine is busy.
            hello_timeout_s=0.5 + 4 * self.delay_s,
            policy=RetransmissionPolicy(
                initial_s=0.5 + 4 * self.delay_s, maximum_s=4.0 + 4 * self.delay_s
            ),
        )


@dataclass(slots=True)
class Report:
    """What the nodes of one process report."""

    sent: list[tuple[str, float]] = field(default_factory=list)
    """The name and the time of each broadcast, by its first bytes."""
    delays_s: list[float] = field(default_factory=list)
    deliveries: dict[str, list[str]] = field(default_factory=dict)
    """For each permanent node, the broadcasts that it received."""
    samples: list[tuple[float, str, list[str], int]] = field(default_factory=list)
    """Time, node, the names behind its safe links, and the number of unsafe ones."""
    not_joined: list[str] = field(default_factory=list)
    datagrams: int = 0
    processor_s: float = 0.0


class Worker:
    """The nodes of one process."""

    def __init__(
        self, plan: Plan, index: int, start_at: float, founder: str, directory: Path
    ) -> None:
        self.plan = plan
        self.index = index
        self.start_at = start_at
        self.founder = founder
        self.directory = directory
        self.random = Random(plan.seed * 1000 + index)
        self.report = Report()
        self.nodes: dict[str, Node] = {}
        self.rooms: dict[str, Room] = {}
        self.readers: list[asyncio.Task[None]] = []
        self.permanent: list[str] = []

    async def until(self, seconds: float) -> None:
        """Wait until a time of the plan."""
        await asyncio.sleep(max(self.start_at + seconds - time.time(), 0.0))

    async def open(self, name: str, *, bind: str = "127.0.0.1:0") -> None:
        """Open a node, which joins through another one of this process or the founder."""
        seeds: list[Any] = [self.founder] if name != "p0n0" else []
        if self.nodes:
            seeds = [self.random.choice(list(self.nodes.values())).address]
        node = Node(
            name,
            bind=bind,
            seeds=seeds,
            limits=self.plan.limits,
            trace=self.directory / "traces" / name,
            run=RUN,
        )
        await node.open()
        self.rooms[name] = await node.join(
            ROOM,
            protocol="pc-broadcast",
            found=name == "p0n0",
            timeout_s=self.plan.end_s - self.plan.sent_s,
            when_silent=WhenSilent.remove(DOWN_S),
        )
        self.nodes[name] = node
        self.readers.append(asyncio.create_task(self.read(name)))

    async def read(self, name: str) -> None:
        """Receive the messages of a node until it is closed."""
        async for message in self.rooms[name]:
            self.receive(name, message.data)

    def overlay(self, name: str) -> OverlayLinks:
        """Return the links of a node in the room."""
        overlay = self.rooms[name]._core.runtime.opened_engine().process.overlay
        assert overlay is not None  # The protocol has one.
        return overlay

    def receive(self, name: str, data: bytes) -> None:
        """Record a delivery."""
        message, sent_at = data.decode().split(" ")
        self.report.delays_s.append(time.time() - float(sent_at))
        if name in self.report.deliveries:
            self.report.deliveries[name].append(message)

    async def run(self) -> Report:
        """Run the nodes from the start to the end of the plan."""
        plan = self.plan
        step_s = plan.joined_s / 2 / plan.nodes
        for number in range(plan.nodes):
            if number or self.index:
                await self.until(2.0 + (number + self.index / plan.processes) * step_s)
            name = f"p{self.index}n{number}"
            bind = self.founder if name == "p0n0" else "127.0.0.1:0"
            await self.open(name, bind=bind)
            self.permanent.append(name)
            self.report.deliveries[name] = []
        sampling = asyncio.create_task(self.sample())
        await self.until(plan.settled_s)
        await asyncio.gather(self.send(), self.churn())
        await self.until(plan.end_s)
        sampling.cancel()
        for name in self.permanent:
            if self.overlay(name).is_newcomer:
                self.report.not_joined.append(name)
        await asyncio.gather(*(self.close(name, 0.0) for name in list(self.nodes)))
        self.report.processor_s = time.process_time()
        return self.report

    async def close(self, name: str, drain_s: float) -> None:
        """Close a node; without time to drain it says no goodbye."""
        node = self.nodes.pop(name)
        self.report.datagrams += node.engine.stats().datagrams_out
        await node.close(drain_s)

    async def send(self) -> None:
        """Broadcast from random nodes at random times."""
        plan = self.plan
        count = plan.broadcasts // plan.processes
        times = sorted(
            self.random.uniform(plan.settled_s, plan.sent_s) for _ in range(count)
        )
        for number, at in enumerate(times):
            await self.until(at)
            name = self.random.choice(self.permanent)
            now = time.time()
            message = f"{self.index}:{number}"
            await self.rooms[name].broadcast(f"{message} {now!r}".encode())
            self.report.sent.append((f"{name} {message}", now))

    async def churn(self) -> None:
        """Open nodes at random times; some leave later, some stop without a goodbye."""
        plan = self.plan
        span_s = plan.sent_s - plan.settled_s

        async def visit(number: int) -> None:
            name = f"p{self.index}v{number}"
            await self.until(plan.settled_s + self.random.uniform(0.0, 0.5) * span_s)
            try:
                await self.open(name)
            except JoinError as error:
                print(f"{name}: {error}")
                self.report.not_joined.append(name)
                return
            await self.until(plan.settled_s + self.random.uniform(0.6, 1.0) * span_s)
            if number % 3 == 0:
                with suppress(LocalError):
                    await self.close(name, 5.0)
            elif number % 3 == 1:
                await self.close(name, 0.0)

        await asyncio.gather(*(visit(number) for number in range(plan.volatile)))

    async def sample(self) -> None:
        """Record the links of all permanent nodes from time to time."""
        at = self.plan.joined_s
        while True:
            await self.until(at)
            for name in self.permanent:
                overlay = self.overlay(name)
                engine = self.rooms[name]._core.runtime.opened_engine()
                unsafe = set(overlay.unsafe_peers())
                safe = [engine.name_of(p) for p in overlay.peers() if p not in unsafe]
                self.report.samples.append((at, name, safe, len(unsafe)))
            at += self.plan.sample_s


def run_worker(options: argparse.Namespace) -> None:
    """Run one process of the group, and write its report."""
    directory = Path(options.directory)
    plan = Plan(**json.loads((directory / "plan.json").read_text()))
    worker = Worker(plan, options.worker, options.start_at, options.founder, directory)
    loop = (lambda: DelayedEventLoop(plan.delay_s)) if plan.delay_s else None
    with asyncio.Runner(loop_factory=loop) as runner:
        report = runner.run(worker.run())
    path = directory / f"report-{options.worker}.json"
    path.write_text(json.dumps(asdict(report)))


def run_group(plan: Plan, directory: Path, port: int) -> list[dict[str, Any]]:
    """Run all processes, and return their reports."""
    (directory / "plan.json").write_text(json.dumps(asdict(plan)))
    common = ["--directory", str(directory), "--founder", f"127.0.0.1:{port}"]
    common += ["--start-at", repr(time.time() + 5.0)]
    command = [sys.executable, "-m", "bench.pc_broadcast", *common]
    workers = [
        subprocess.Popen([*command, "--worker", str(index)])
        for index in range(plan.processes)
    ]
    try:
        for worker in workers:
            if worker.wait() != 0:
                raise SystemExit("a process of the group has failed")
    finally:
        for worker in workers:
            worker.kill()
    return [
        json.loads((directory / f"report-{index}.json").read_text())
        for index in range(plan.processes)
    ]


def describe(plan: Plan, reports: Sequence[dict[str, Any]]) -> None:
    """Print deliveries and delays."""
    sent = {
        name.split(" ")[1]: name.split(" ")[0] for r in reports for name, _ in r["sent"]
    }
    wanted = delivered = 0
    for report in reports:
        for node, messages in report["deliveries"].items():
            expected = {message for message, source in sent.items() if source != node}
            wanted += len(expected)
            delivered += len(expected & set(messages))
    delays = sorted(delay for report in reports for delay in report["delays_s"])
    permanent = plan.processes * plan.nodes
    visitors = plan.processes * plan.volatile
    print(
        f"{permanent} nodes in {plan.processes} processes, {visitors} more come and go,"
        f" {len(sent)} broadcasts, exchanges every {plan.exchange_s:g} s, delay"
        f" {plan.delay_s:g} s"
    )
    print(f"not joined: {sum(len(report['not_joined']) for report in reports)}")
    print(f"delivered to permanent nodes: {delivered} of {wanted}")
    late = quantiles(delays, n=100)[98]
    print(f"delay: median {1000 * median(delays):.1f} ms, 99 % {1000 * late:.1f} ms")
    processor_s = sum(report["processor_s"] for report in reports)
    print(
        f"datagrams: {sum(report['datagrams'] for report in reports):,}; processor time"
        f" {processor_s:.0f} s in {plan.end_s:.0f} s"
    )


def describe_links(reports: Sequence[dict[str, Any]], plan: Plan) -> None:
    """Print links and paths of the live nodes, as in figure 7 of the paper."""
    from antecede.sim.probe import mean_path

    by_time: dict[float, dict[str, tuple[list[str], int]]] = {}
    for report in reports:
        for at, name, safe, unsafe in report["samples"]:
            if plan.settled_s <= at <= plan.sent_s:
                by_time.setdefault(at, {})[name] = (safe, unsafe)
    links, unsafe_links, paths = [], [], []
    for rows in by_time.values():
        ids = {name: index for index, name in enumerate(rows)}
        safe_links = [[ids[n] for n in safe if n in ids] for safe, _ in rows.values()]
        unsafe_links.append(fmean(unsafe for _, unsafe in rows.values()))
        links.append(fmean(map(len, safe_links)) + unsafe_links[-1])
        sources = range(0, len(rows), max(len(rows) // 20, 1))
        paths.append(mean_path(safe_links, list(sources))[0])
    _print_links("live nodes", len(paths), links, unsafe_links, paths)


def _print_links(
    title: str,
    samples: int,
    links: Sequence[float],
    unsafe: Sequence[float],
    paths: Sequence[float],
) -> None:
    print(
        f"{title}: {fmean(unsafe):.3f} of {fmean(links):.1f} links unsafe, mean path"
        f" {fmean(paths):.3f} ({samples} samples)"
    )


def simulate_group(plan: Plan) -> None:
    """Print links and paths of a simulation of the same group."""
    from antecede.sim.simulate import Scenario, simulate

    limits = plan.limits
    start, period = 3 * plan.exchange_s, plan.exchange_s
    overlay = (
        f"spray:exchange_s={period},until_s={start + 5 * period},"
        f"linger_s={limits.linger_s},ping_timeout_s={limits.ping_timeout_s}"
    )
    simulation = simulate(
        Scenario(
            protocol="pc-broadcast",
            processes=plan.processes * plan.nodes,
            workload="broadcast:senders=1",
            messages=1,
            delay=str(plan.delay_s or 0.0001),
            overlay=overlay,
            probe=f"links:{start},{plan.sample_s},10",
            seed=plan.seed,
        )
    )
    values: dict[str, list[float]] = {}
    for sample in simulation.samples:
        values.setdefault(sample.measure, []).append(sample.value)
    _print_links(
        "simulation",
        len(values["links"]),
        values["links"],
        values["unsafe_links"],
        values["mean_path"],
    )


def judge(directory: Path) -> None:
    """Merge and verify the traces, and print the bytes of the frames."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from antecede.merge.merge import merge_traces
    from antecede.trace.live.reader import find_node_traces
    from antecede.verify.verifier import verify_trace

    traces = find_node_traces(sorted((directory / "traces").glob(f"*/rooms/{ROOM}")))
    merged = merge_traces(traces, directory / "merged")
    verdict = verify_trace(merged.path)
    print(f"verified {merged.events:,} events, {verdict.deliveries:,} deliveries:", end=" ")
    print(
        ", ".join(
            f"{which.value} {status.value}" for which, status in verdict.statuses.items()
        )
    )
    print(f"violations: {len(verdict.violations)}; missing: {list(merged.missing)}")
    table = pq.read_table(merged.path / "events.parquet")
    kinds = table.column("kind")
    for title, names in (("messages", ["release", "transmit"]), ("control", ["control"])):
        rows = table.filter(pc.is_in(kinds, pa_array(names)))
        size = pc.mean(rows.column("metadata_bytes")).as_py()
        print(f"frames with {title}: {rows.num_rows:,}, {size:.1f} bytes of metadata each")


def pa_array(names: list[str]) -> Any:  # noqa: ANN401 (an Arrow array has no type here)
    """Return an Arrow array of strings."""
    import pyarrow as pa

    return pa.array(names)


def main() -> None:
    """Run the group, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    plan = Plan()
    for name, value in asdict(plan).items():
        flag = f"--{name.removesuffix('_s').replace('_', '-')}"
        parser.add_argument(flag, dest=name, type=type(value), default=value)
    parser.add_argument("--port", type=int, default=23_700, help="of the founder")
    for name in ("worker", "directory", "founder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--start-at", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        options.worker = int(options.worker)
        run_worker(options)
        return
    plan = Plan(**{name: getattr(options, name) for name in asdict(plan)})
    with tempfile.TemporaryDirectory() as directory:
        reports = run_group(plan, Path(directory), options.port)
        describe(plan, reports)
        describe_links(reports, plan)
        simulate_group(plan)
        judge(Path(directory))


if __name__ == "__main__":
    main()
