"""The command ``antecede demo``."""

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.cli.exit_codes import exit_code
from antecede.cli.inputs import local_argument
from antecede.core.config import DEFAULT_PROTOCOL

if TYPE_CHECKING:
    from antecede.demo.demo import NodeStatus
    from antecede.net.proxy import Proxy

__all__ = ["add_parser"]


def add_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Add the command ``demo``."""
    parser = commands.add_parser(
        "demo", help="run UDP nodes on this machine with network faults, and verify them"
    )

    def add(option: str, kind: type, default: float | str, description: str) -> None:
        text = f"{description}; default: {default}"
        parser.add_argument(option, type=kind, default=default, help=text)

    add("--nodes", int, 4, "number of nodes")
    add("--messages", int, 50, "messages that each node sends")
    add("--gap", float, 0.05, "mean time between two messages of a node, in seconds")
    add("--protocol", str, DEFAULT_PROTOCOL, "unicast protocol of the nodes")
    add("--loss", float, 0.1, "probability that a datagram is lost")
    add("--delay", float, 0.02, "minimum delay of a datagram, in seconds")
    add("--jitter", float, 0.05, "maximum random addition to the delay, in seconds")
    add("--duplicate", float, 0.02, "probability that a datagram arrives twice")
    add("--seed", int, 0, "seed of the faults and of the traffic")
    parser.add_argument(
        "--out", type=local_argument, help="directory to keep the traces in"
    )
    parser.add_argument(
        "--metrics",
        type=int,
        metavar="PORT",
        help="serve the metrics of the nodes at PORT, PORT+1, ...: watch the nodes with"
        " `antecede top PORT PORT+1 ...`",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from antecede.demo.demo import DemoConfig, run_demo
    from antecede.merge.merge import merge_traces
    from antecede.net.faults import Faults
    from antecede.verify.verifier import verify_trace

    faults = Faults(
        loss=options.loss,
        duplicate=options.duplicate,
        delay_s=options.delay,
        jitter_s=options.jitter,
    )
    config = DemoConfig(
        nodes=options.nodes,
        messages=options.messages,
        gap_s=options.gap,
        protocol=options.protocol,
        faults=faults,
        seed=options.seed,
        metrics_port=options.metrics,
    )
    if config.metrics_ports and not options.json:
        ports = " ".join(map(str, config.metrics_ports))
        print(f"watch the nodes with: antecede top {ports}", flush=True)
    with tempfile.TemporaryDirectory(prefix="antecede-demo-") as scratch:
        out = options.out if options.out is not None else Path(scratch)
        table = _StatusTable(live=sys.stdout.isatty() and not options.json)
        statuses = asyncio.run(run_demo(config, out, table.update))
        merged = merge_traces([out / name for name in statuses], out / "merged")
        verdict = verify_trace(merged.path)
        if options.json:
            nodes = {name: asdict(status) for name, status in statuses.items()}
            print(json.dumps({"nodes": nodes, "verdict": json.loads(verdict.to_json())}))
        else:
            table.finish(statuses)
            print(verdict)
            if options.out is not None:
                print(f"traces: {out}; antecede show {merged.path} --svg demo.svg")
        return exit_code(verdict.status)


class _StatusTable:
    """A table with the status of each node; redrawn in place if ``live``."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._lines = 0

    def update(self, statuses: "dict[str, NodeStatus]", proxy: "Proxy") -> None:
        if self._live:
            self._draw([*_rows(statuses), f"network: {dict(proxy.injector.counts)}"])

    def finish(self, statuses: "dict[str, NodeStatus]") -> None:
        self._draw(_rows(statuses))

    def _draw(self, lines: list[str]) -> None:
        up = f"\x1b[{self._lines}F\x1b[J" if self._lines else ""
        print(up + "\n".join(lines), flush=True)
        self._lines = len(lines) if self._live else 0


def _rows(statuses: "dict[str, NodeStatus]") -> list[str]:
    head = f"{'node':6}{'sent':>7}{'queued':>8}{'in flight':>11}{'retransmitted':>15}"
    rows = [f"{head}{'delivered':>11}  waiting for"]
    for name, status in statuses.items():
        peers = ", ".join(f"{peer} {count}" for peer, count in status.waiting_for.items())
        rows.append(
            f"{name:6}{status.sent:7}{status.queued:8}{status.in_flight:11}"
            f"{status.retransmitted:15}{status.delivered:11}  {peers}"
        )
    return rows
