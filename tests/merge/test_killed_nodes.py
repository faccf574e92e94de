"""Merging the traces of nodes that were killed, or that were restarted with a journal."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from antecede import Node
from antecede.cli.main import main as run_command
from antecede.merge.merge import merge_traces
from antecede.verify.verifier import verify_trace

EXCHANGE = """
import asyncio, os, sys
from antecede import Node

async def main():
    first = len(sys.argv) > 1
    b = Node("b", bind="127.0.0.1:0", trace="b1" if first else "b2", journal="b.db")
    a = Node("a", bind="127.0.0.1:0", trace="a1" if first else "a2", journal="a.db")
    await a.open(), await b.open()
    a.add_peer("b", b.address), b.add_peer("a", a.address)
    for _ in range(10):
        await a.send("b", b"x")
        await (await b.receive()).commit()
    if not first:
        await a.close(), await b.close()
    os._exit(9)

asyncio.run(main())
"""


def exchange(directory: Path, *arguments: str) -> None:
    command = [sys.executable, "-c", EXCHANGE, *arguments]
    assert subprocess.run(command, cwd=directory, timeout=100).returncode == 9


def test_the_traces_of_a_restart_with_a_journal_are_merged(tmp_path: Path) -> None:
    exchange(tmp_path, "first")
    exchange(tmp_path)
    merged = merge_traces(
        [tmp_path / name for name in ("a1", "a2", "b1", "b2")], tmp_path / "m"
    )
    assert (merged.nodes, merged.restarts, merged.messages) == (2, 2, 20)
    assert verify_trace(tmp_path / "m").held


def test_the_command_merges_the_directory_of_a_killed_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exchange(tmp_path, "first")
    out = tmp_path / "m"
    assert run_command(["merge", str(out), str(tmp_path / "a1"), str(tmp_path / "b1")]) == 0
    assert "2 nodes" in capsys.readouterr().out
    assert run_command(["verify", str(out)]) == 0


def test_a_killed_node_leaves_the_events_of_all_but_the_last_second(tmp_path: Path) -> None:
    """Without a journal, nothing else flushes a trace of less than 4,096 events."""

    async def main() -> None:
        async with (
            Node("a", trace=tmp_path / "a") as a,
            Node("b", trace=tmp_path / "b") as b,
        ):
            a.add_peer("b", b.address)
            b.add_peer("a", a.address)
            await a.send("b", b"x")
            await b.receive()
            await a.flush()
            while True:
                await asyncio.sleep(0.1)
                merged = await asyncio.to_thread(
                    merge_traces, [tmp_path / "a", tmp_path / "b"], tmp_path / "m"
                )
                if merged.messages == 1:
                    return
                for path in (tmp_path / "m").iterdir():
                    path.unlink()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_events_that_the_journal_does_not_contain_are_left_out(tmp_path: Path) -> None:
    """The node was killed after the trace was flushed, and before the commit."""
    exchange(tmp_path, "first")
    exchange(tmp_path)
    paths = [tmp_path / name for name in ("a1", "a2", "b1", "b2")]
    whole = merge_traces(paths, tmp_path / "whole")
    info = (tmp_path / "a2" / "run.json").read_text()
    before = info.partition('"continues": [')[2].partition("]")[0]
    incarnation, rows = (int(word) for word in before.replace("\n", " ").split(","))
    changed = info.replace(before, f"{incarnation}, {rows - 4}")
    (tmp_path / "a2" / "run.json").write_text(changed)
    assert merge_traces(paths, tmp_path / "cut").events == whole.events - 4
