"""The command that shows a running group, with real nodes and their endpoints."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antecede import sync
from antecede.cli import main as cli
from antecede.cli.top import CLOSE_SCREEN, OPEN_SCREEN
from antecede.errors import ConfigError
from antecede.top.endpoint import (
    EndpointReading,
    NodeReading,
    PeerReading,
    parse_metrics,
    parse_url,
)
from antecede.top.table import draw_group

Capture = pytest.CaptureFixture[str]
TIMEOUT_S = 60


@contextmanager
def pair() -> Iterator[tuple[sync.Node, sync.Node]]:
    """Open two nodes that are peers and serve metrics."""
    with sync.Node("ann", metrics=0) as ann, sync.Node("bob", metrics=0) as bob:
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        yield ann, bob


def port(node: sync.Node) -> str:
    assert node.metrics_address is not None
    return str(node.metrics_address[1])


def closed_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def cells(lines: list[str], start: str) -> list[str]:
    """Return the words of the only line that starts with a text."""
    (line,) = [line for line in lines if line.startswith(start)]
    return line.split()


def test_one_table_shows_nodes_and_links(capsys: Capture) -> None:
    """Ann sends three messages to bob; the application of bob receives one."""
    with pair() as (ann, bob):
        for _ in range(3):
            ann.send("bob", b"x")
        ann.flush()
        bob.receive()
        assert cli.main(["top", "--once", port(ann), port(bob)]) == 0
        lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 nodes"
    # Name, protocol, sent, delivered, three rates, inbox, queued, in flight. Bob dropped
    # the datagrams that came before he knew ann.
    assert cells(lines, "ann  ")[:10] == [
        "ann",
        "bounded",
        "3",
        "0",
        "-",
        "-",
        "-",
        "0",
        "0",
        "0",
    ]
    assert cells(lines, "bob  ")[:10] == [
        "bob",
        "bounded",
        "0",
        "3",
        "-",
        "-",
        "-",
        "2",
        "0",
        "0",
    ]
    assert cells(lines, "ann -> bob")[3] == "active"
    assert cells(lines, "bob -> ann")[3] == "active"
    assert lines[-1] == "no node waits"


def test_a_room_has_tables_of_its_own(capsys: Capture) -> None:
    """Cid leaves the room, which has ann and bob then."""
    with (
        sync.Node("ann", metrics=0) as ann,
        sync.Node("bob", metrics=0, seeds=[ann.address]) as bob,
        sync.Node("cid", seeds=[ann.address]) as cid,
    ):
        room = ann.join("design")
        other = bob.join("design")
        cid.join("design").close()
        other.send("ann", b"x")
        room.receive()
        assert cli.main(["top", "--once", port(ann), port(bob)]) == 0
        lines = capsys.readouterr().out.splitlines()
    at = lines.index("room design: ann, bob")
    assert cells(lines[at:], "ann  ")[1] == "bounded"
    assert cells(lines[at:], "ann -> bob")[3] == "active"
    assert cells(lines[at:], "bob -> ann")[3] == "active"
    assert cells(lines[:at], "ann -> cid")[3] == "active"  # Other rooms may use the link.


def test_waits_in_a_room_name_the_room_and_follow_its_members() -> None:
    """In the room, ann waits for bob, who waits for cid; outside, ann waits for bob."""
    silent = PeerReading(state="silent", values={"met": 1.0, "silent_seconds": 7.0})
    met = PeerReading(state="active", values={"met": 1.0})
    gone = PeerReading(state="removed", values={"met": 1.0})
    ann = NodeReading(name="ann", waiting_for={"bob": 1}, peers={"bob": met})
    ann.rooms["design"] = NodeReading(
        name="ann", waiting_for={"bob": 2}, peers={"bob": met, "dan": gone}
    )
    bob = NodeReading(name="bob")
    bob.rooms["design"] = NodeReading(
        name="bob", waiting_for={"cid": 3}, peers={"cid": silent}
    )
    nodes = {"ann": ann, "bob": bob}
    lines = draw_group([EndpointReading(url="u", read_at=0.0, nodes=nodes)])
    assert "room design: ann, bob, cid" in lines
    assert lines[-3:] == [
        "ann waits for bob (1 message)",
        "in room design, ann waits for bob (2 messages), which waits for cid (3 messages),"
        " silent for 7.0 s",
        "in room design, bob waits for cid (3 messages), silent for 7.0 s",
    ]


def test_a_node_that_does_not_answer_is_shown_and_changes_the_exit_code(
    capsys: Capture,
) -> None:
    closed = closed_port()
    with pair() as (ann, _):
        assert cli.main(["top", "--once", port(ann), str(closed)]) == 4
    out = capsys.readouterr().out
    assert out.startswith("1 nodes, 1 not answering\n")
    assert f"http://127.0.0.1:{closed}/metrics: no answer: Connection refused\n" in out


def test_what_is_not_a_node_is_shown_as_such(capsys: Capture) -> None:
    """A server that answers with a text that has no metric of a node."""
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    print(server.getsockname()[1], flush=True)\n"
        "    client, _ = server.accept()\n"
        "    client.recv(4096)\n"
        "    client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert cli.main(["top", "--once", address]) == 4
    assert "no answer: not the metrics of a node" in capsys.readouterr().out


def test_a_peer_that_was_never_met_is_named_as_the_one_to_wait_for(capsys: Capture) -> None:
    with pair() as (ann, _):
        ann.add_peer("cid", ("127.0.0.1", closed_port()))
        ann.send("cid", b"x")
        assert cli.main(["top", "--once", port(ann)]) == 0
        lines = capsys.readouterr().out.splitlines()
        ann.close(0.0)
    assert lines[-1] == "ann waits for cid (1 message), never met"
    assert cells(lines, "ann -> cid")[3:5] == ["never", "met"]


def test_json_has_the_readings(capsys: Capture) -> None:
    with pair() as (ann, _):
        ann.send("bob", b"x")
        ann.flush()
        assert cli.main(["top", "--once", "--json", port(ann)]) == 0
    (reading,) = json.loads(capsys.readouterr().out)
    node = reading["nodes"]["ann"]
    assert node["values"]["sent"] == 1
    assert node["peers"]["bob"]["state"] == "active"
    assert reading["error"] == ""


def test_a_live_table_has_rates_and_ends_with_ctrl_c() -> None:
    """On a terminal the command uses the alternate screen, and leaves it in the end."""
    with pair() as (ann, _):
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "antecede", "top", "--interval", "0.1", port(ann)]
        environment = os.environ | {"COLUMNS": "120", "LINES": "40"}
        process = subprocess.Popen(command, stdout=slave, env=environment)
        os.close(slave)
        text = b""
        while b" 0.0 " not in text:  # The first rate, which needs two readings.
            text += os.read(master, 65_536)
        process.send_signal(signal.SIGINT)
        while OPEN_SCREEN.encode() in text and CLOSE_SCREEN.encode() not in text:
            text += os.read(master, 65_536)
        assert process.wait(TIMEOUT_S) == 0
        os.close(master)
    assert text.startswith(OPEN_SCREEN.encode())
    assert text.endswith(CLOSE_SCREEN.encode())
    assert b"ann -> bob" in text


def test_without_a_terminal_tables_follow_each_other() -> None:
    with pair() as (ann, _):
        command = [sys.executable, "-m", "antecede", "top", "--interval", "0.1", port(ann)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            heads = 0
            while heads < 3:
                heads += process.stdout.readline() == "1 nodes\n"
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait(TIMEOUT_S) == 0
    assert "\x1b" not in rest


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["host"], "'host' is not the address of an endpoint"),
        (["host:port"], "is not the address of an endpoint"),
        (["99999"], "is not the address of an endpoint"),
        (["--json", "9100"], "--json needs --once"),
        (["--interval", "0", "9100"], "--interval must be 0.1 to 3600, got 0"),
    ],
)
def test_invalid_arguments_are_errors(
    arguments: list[str], error: str, capsys: Capture
) -> None:
    assert cli.main(["top", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_addresses_of_endpoints() -> None:
    assert parse_url("9100") == "http://127.0.0.1:9100/metrics"
    assert parse_url("[::1]:9100") == "http://[::1]:9100/metrics"
    assert parse_url("https://x/y") == "https://x/y"
    with pytest.raises(ConfigError):
        parse_url("a b:9100")


# The table.


def reading(
    *nodes: NodeReading, at: float = 0.0, url: str = "http://x/metrics"
) -> EndpointReading:
    return EndpointReading(url=url, read_at=at, nodes={node.name: node for node in nodes})


def test_rates_are_differences_per_second_and_a_restart_begins_at_0() -> None:
    """In two seconds ann sends 10 messages, while bob restarts and delivers 4."""
    before = reading(
        NodeReading(name="ann", values={"sent": 5, "delivered": 7, "lost": 0}),
        NodeReading(name="bob", values={"sent": 5, "delivered": 7, "lost": 0}),
    )
    after = reading(
        NodeReading(name="ann", values={"sent": 15, "delivered": 7, "lost": 1}),
        NodeReading(name="bob", values={"sent": 0, "delivered": 4, "lost": 0}),
        at=2.0,
    )
    lines = draw_group([after], [before])
    assert cells(lines, "ann")[1:6] == ["15", "7", "5.0", "0.0", "0.5"]
    assert cells(lines, "bob")[1:6] == ["0", "4", "0.0", "2.0", "0.0"]


def test_a_wait_is_followed_to_the_process_that_is_silent() -> None:
    silent = PeerReading(state="silent", values={"silent_seconds": 31.0, "met": 1.0})
    lines = draw_group(
        [
            reading(
                NodeReading(name="bob", waiting_for={"ann": 2}),
                NodeReading(name="ann", waiting_for={"cid": 1}, peers={"cid": silent}),
            )
        ]
    )
    assert "ann waits for cid (1 message), silent for 31.0 s" in lines
    assert (
        "bob waits for ann (2 messages), which waits for cid (1 message), silent for 31.0 s"
        in lines
    )


def test_processes_that_wait_for_each_other_end_the_line() -> None:
    lines = draw_group(
        [
            reading(
                NodeReading(name="ann", waiting_for={"bob": 2}),
                NodeReading(name="bob", waiting_for={"ann": 3}),
            )
        ]
    )
    assert lines[-2:] == [
        "ann waits for bob (2 messages), which waits for ann (3 messages): these wait for"
        " each other",
        "bob waits for ann (3 messages), which waits for bob (2 messages): these wait for"
        " each other",
    ]


def test_metrics_of_other_programs_are_left_out() -> None:
    text = 'python_info{node="x"} 1.0\nantecede_sent_total{node="ann"} 4.0\n'
    assert parse_metrics(text)["ann"].values == {"sent": 4.0}
    assert list(parse_metrics(text)) == ["ann"]
