"""The examples that run as several processes: a chat on terminals, and a web service."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ("ann", "bob", "eve")
TIMEOUT_S = 120


def free_ports(kind: socket.SocketKind, names: Sequence[str] = NAMES) -> dict[str, int]:
    """Return a port for each name that no other socket is bound to now."""
    sockets = [socket.socket(socket.AF_INET, kind) for _ in names]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {
            name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)
        }
    finally:
        for one in sockets:
            one.close()


@contextmanager
def started(commands: dict[str, list[str]]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Run the processes, and kill those that still run in the end."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        for name, command in commands.items()
    }
    try:
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()


def addresses(ports: dict[str, int], name: str) -> list[str]:
    """Return the address of a node and those of its peers, as arguments."""
    peers = [f"{peer}=127.0.0.1:{ports[peer]}" for peer in NAMES if peer != name]
    return [f"127.0.0.1:{ports[name]}", *peers]


def test_three_terminals_chat_and_nobody_sees_the_answer_first() -> None:
    ports = free_ports(socket.SOCK_DGRAM)
    chat = str(EXAMPLES / "chat.py")
    seeds: dict[str, list[str]] = {"ann": [], "bob": ["ann"], "eve": ["bob"]}
    commands = {
        name: [chat, name, *(f"127.0.0.1:{ports[each]}" for each in (name, *seeds[name]))]
        for name in NAMES
    }
    with started(commands) as processes:

        def say(name: str, text: str) -> None:
            stdin = processes[name].stdin
            assert stdin is not None
            stdin.write(f"{text}\n")
            stdin.flush()

        def line(name: str) -> str:
            stdout = processes[name].stdout
            assert stdout is not None
            return stdout.readline().rstrip()

        for turn in range(5):
            say("ann", f"question {turn}")
            assert line("bob") == f"[bob sees] ann: question {turn}"
            say("bob", f"answer {turn}")
            assert line("eve") == f"[eve sees] ann: question {turn}"
            assert line("eve") == f"[eve sees] bob: answer {turn}"
            assert line("ann") == f"[ann sees] bob: answer {turn}"
        for process in processes.values():  # The end of the input, as by Ctrl-D.
            assert process.stdin is not None
            process.stdin.close()
        assert [p.wait(TIMEOUT_S) for p in processes.values()] == [0, 0, 0]


def test_a_customer_has_paid_before_the_order_and_a_store_that_sleeps_delays_nobody() -> (
    None
):
    roles = ("shop", "bank", "store", "customer")
    ports = free_ports(socket.SOCK_DGRAM, roles)
    at = {role: f"127.0.0.1:{ports[role]}" for role in roles}
    shop = str(EXAMPLES / "shop.py")
    commands = {
        role: [shop, role, at[role], *([at["shop"]] if role != "shop" else [])]
        for role in roles
    }
    with started(commands) as processes:
        stdin, stdout = processes["customer"].stdin, processes["customer"].stdout
        assert stdin is not None
        assert stdout is not None

        def buy(item: str) -> None:
            stdin.write(f"{item}\n")
            stdin.flush()

        for number in range(5):
            buy(f"tea {number}")
        lines = read_until(stdout, "packed tea", 5)
        assert [line for line in lines if "sold" in line] == [
            f"sold tea {number}\n" for number in range(5)
        ]
        assert len(lines) == 10  # Nothing was sold twice, or before it was paid.
        processes["store"].send_signal(signal.SIGSTOP)
        for number in range(20):
            buy(f"bread {number}")
        lines = read_until(stdout, "sold bread", 20)
        assert lines == [f"sold bread {number}\n" for number in range(20)]
        processes["store"].send_signal(signal.SIGCONT)
        read_until(stdout, "packed bread", 20)
        stdin.close()
        assert processes["customer"].wait(TIMEOUT_S) == 0


def read_until(stream: IO[str], start: str, count: int) -> list[str]:
    """Return the lines up to a number of those that start so."""
    lines: list[str] = []
    while sum(line.startswith(start) for line in lines) < count:
        lines.append(stream.readline())
        assert lines[-1], f"the process has ended after {lines}"
    return lines


def test_three_web_servers_show_no_answer_before_its_question() -> None:
    pytest.importorskip("flask")
    ports, web = free_ports(socket.SOCK_DGRAM), free_ports(socket.SOCK_STREAM)
    service = str(EXAMPLES / "web_service.py")
    commands = {
        name: [service, name, str(web[name]), *addresses(ports, name)] for name in NAMES
    }

    def call(name: str, data: bytes | None = None) -> bytes:
        """Call a server, which may still be starting."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                url = f"http://127.0.0.1:{web[name]}/posts"
                with urllib.request.urlopen(url, data, TIMEOUT_S) as answer:
                    return bytes(answer.read())
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def posts(name: str, count: int) -> list[str]:
        """Return the posts that a server shows, as soon as there are so many."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(shown := [p["text"] for p in json.loads(call(name))]) < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return shown

    with started(commands) as processes:
        for turn in range(3):
            call("ann", b"question %d" % turn)
            assert posts("bob", 2 * turn + 1)[-1] == f"question {turn}"
            call("bob", b"answer %d" % turn)
            everything = [
                f"{kind} {i}" for i in range(turn + 1) for kind in ("question", "answer")
            ]
            for name in NAMES:
                assert posts(name, 2 * turn + 2) == everything
        for process in processes.values():
            process.send_signal(signal.SIGINT)
        for process in processes.values():
            process.wait(TIMEOUT_S)  # Ctrl-C ends the server and closes the node.
