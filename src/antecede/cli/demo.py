"""``antecede demo``, as a command."""

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.demo.demo import Stand
    from antecede.net.proxy import Proxy

__all__ = ["add_parser"]


def add_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Add the command ``demo``."""
    parser = commands.add_parser(
        "demo", help="a few live UDP nodes on this machine, with faults, judged"
    )
    parser.add_argument("--nodes", type=int, default=4, help="default: 4")
    parser.add_argument(
        "--messages", type=int, default=50, help="of each node; default: 50"
    )
    parser.add_argument(
        "--gap", type=float, default=0.05, help="mean seconds between them; default: 0.05"
    )
    parser.add_argument("--protocol", default="hybrid", help="default: hybrid")
    parser.add_argument("--loss", type=float, default=0.1, help="default: 0.1")
    parser.add_argument(
        "--delay", type=float, default=0.02, help="seconds at least; default: 0.02"
    )
    parser.add_argument(
        "--jitter", type=float, default=0.05, help="seconds on top at most; default: 0.05"
    )
    parser.add_argument(
        "--duplicate", type=float, default=0.02, help="probability; default: 0.02"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--out", type=Path, help="keep the traces in this directory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from antecede.demo.demo import Demo, play
    from antecede.merge.merge import merge_traces
    from antecede.net.proxy import Faults
    from antecede.verify.verifier import verify

    faults = Faults(
        loss=options.loss,
        duplicate=options.duplicate,
        delay_s=options.delay,
        jitter_s=options.jitter,
    )
    demo = Demo(
        nodes=options.nodes,
        messages=options.messages,
        gap_s=options.gap,
        protocol=options.protocol,
        faults=faults,
        seed=options.seed,
    )
    with tempfile.TemporaryDirectory(prefix="antecede-demo-") as scratch:
        out = options.out if options.out is not None else Path(scratch)
        table = _Table(alive=sys.stdout.isatty() and not options.json)
        stands = asyncio.run(play(demo, out, table.show))
        merged = merge_traces([out / name for name in stands], out / "merged")
        report = verify(merged.path)
        if options.json:
            nodes = {name: asdict(stand) for name, stand in stands.items()}
            print(json.dumps({"nodes": nodes, "verdict": json.loads(report.to_json())}))
        else:
            table.end(stands)
            print(report)
            if options.out is not None:
                print(f"traces: {out}; antecede show {merged.path} --svg demo.svg")
        return report.exit_code


class _Table:
    """How the nodes stand, drawn over and over on a terminal."""

    def __init__(self, *, alive: bool) -> None:
        self._alive = alive
        self._lines = 0

    def show(self, stands: "dict[str, Stand]", proxy: "Proxy") -> None:
        """Draw it, on a terminal."""
        if self._alive:
            self._draw([*_rows(stands), f"network: {dict(proxy.fate.counts)}"])

    def end(self, stands: "dict[str, Stand]") -> None:
        """Draw it for the last time, terminal or not."""
        self._draw(_rows(stands))

    def _draw(self, lines: list[str]) -> None:
        up = f"\x1b[{self._lines}F\x1b[J" if self._lines else ""
        print(up + "\n".join(lines), flush=True)
        self._lines = len(lines) if self._alive else 0


def _rows(stands: "dict[str, Stand]") -> list[str]:
    head = f"{'node':6}{'sent':>7}{'waiting':>9}{'on the way':>12}{'again':>7}"
    rows = [f"{head}{'delivered':>11}  waits on"]
    for name, stand in stands.items():
        on = ", ".join(f"{peer} {count}" for peer, count in stand.waits_on.items())
        figures = f"{stand.sent:7}{stand.waiting:9}{stand.unacked:12}"
        rows.append(f"{name:6}{figures}{stand.retransmitted:7}{stand.delivered:11}  {on}")
    return rows
