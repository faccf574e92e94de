"""``antecede verify --follow`` in a process of its own, while others record."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antecede import Node
from antecede.cli.main import main
from antecede.core.process import Delivery
from antecede.core.process_id import ProcessId
from antecede.trace.live.writer import NodeTraceWriter


@contextmanager
def following(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run the command in another process, and end it."""
    command = [sys.executable, "-m", "antecede", "verify", "--follow", *map(str, arguments)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_violation_is_printed_while_the_nodes_record(tmp_path: Path) -> None:
    names = ("ann", "bob", "cat")
    writers = [NodeTraceWriter(tmp_path / name, name, id=i) for i, name in enumerate(names)]
    for own, writer in enumerate(writers):
        for other, name in enumerate(names):
            if other != own:
                writer.set_name(other, name)
    ann, bob, cat = (writer.observer for writer in writers)
    ann.sent(0, 1, [2], 1.0)
    ann.sent(0, 2, [1], 2.0)
    bob.delivered(1, Delivery(ProcessId(0), 2, b""), 3.0)
    bob.sent(1, 1, [2], 4.0)
    cat.delivered(2, Delivery(ProcessId(1), 1, b""), 5.0)
    with following(tmp_path) as child:
        for writer in writers:
            writer.flush()
        cat.delivered(2, Delivery(ProcessId(0), 1, b""), 6.0)
        writers[2].flush()
        assert child.stdout is not None
        assert child.stdout.readline() == (
            "causal: cat delivered bob:1 before ann:1, which happened before it:"
            " ann:1 -> ann:2 -> bob:1\n"
        )
        assert not list(tmp_path.glob("*/events.parquet"))
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 1, errors
    assert output.splitlines() == [
        "live: 3 messages, 3 deliveries",
        "  causal         violated (1)",
        "  fifo           unknown: no violation so far among 3 deliveries",
        "  no-duplication unknown: no violation so far among 3 deliveries",
        "  no-creation    unknown: no violation so far among 3 deliveries",
        "  liveness       not judged: 0 copies undelivered",
    ]
    for writer in writers:
        writer.close()


async def exchange(directory: Path) -> None:
    """Let two nodes exchange messages, and record them."""
    async with (
        Node("ann", trace=directory / "ann") as ann,
        Node("bob", trace=directory / "bob") as bob,
    ):
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        for _ in range(20):
            await ann.send("bob", b"question")
            await bob.receive()
            await bob.send("ann", b"answer")
            await ann.receive()
    # Both have delivered everything, and have closed their traces.


def test_a_finished_run_of_nodes_is_held(tmp_path: Path) -> None:
    with following(tmp_path, "--until-finished", "--json") as child:
        asyncio.run(exchange(tmp_path))
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 0, (output, errors)
    summary = json.loads(output)
    assert (summary["messages"], summary["deliveries"]) == (40, 40)
    assert set(summary["statuses"].values()) == {"held"}
    assert (summary["missing"], summary["unsent"], summary["undelivered"]) == (0, 0, 0)


def test_a_process_without_a_trace_leaves_its_messages_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeTraceWriter(tmp_path / "ann", "ann") as writer:
        writer.set_name(1, "bob")
        writer.observer.delivered(0, Delivery(ProcessId(1), 1, b""), 1.0)
    assert main(["verify", "--follow", "--until-finished", str(tmp_path)]) == 4
    output = capsys.readouterr().out
    assert (
        "no-creation    unknown: no violation so far among 0 deliveries, 1 undecided"
        in output
    )
    assert "given up: 0 missing events, 1 sends; 0 events were late" in output


def test_the_restart_of_a_node_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for start in ("first", "second"):
        with NodeTraceWriter(tmp_path / start, "ann", started=float(len(start))):
            pass
    assert main(["verify", "--follow", str(tmp_path)]) == 4
    assert "ann was restarted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["missing"], "no such directory"),
        ([".", "--watermark", "0"], "--watermark must be greater than 0"),
        (["s3://bucket/run"], "--follow reads directories on this machine"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--follow", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_options_of_following_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "run", "--until-finished"]) == 2
    assert "--until-finished needs --follow" in capsys.readouterr().err
