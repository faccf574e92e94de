"""The whiteboard of the examples: two rooms of processes that come, go and are killed."""

import itertools
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from .test_example_processes import EXAMPLES, TIMEOUT_S, free_ports

pytestmark = pytest.mark.heavy

NAMES = ("ann", "bob", "eve", "dan", "kim")
ROOMS = ("chat", "board")
numbers = itertools.count()
"""Makes each text of the tests a different one."""


class Process:
    """One process of the example, driven through its input and output."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self.lines: list[str] = []
        """The lines of the output that were read so far."""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "whiteboard.py"), name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def write(self, command: str) -> None:
        """Give a command to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        line = self._lines.get(timeout=TIMEOUT_S)
        assert line is not None, f"{self.name} has ended after {self.lines}"
        self.lines.append(line)
        return line

    def wait_for(self, start: str) -> str:
        """Return the next line that starts so."""
        while not (line := self._read()).startswith(start):
            pass
        return line

    def show(self, room: str) -> tuple[list[str], list[str]]:
        """Return the texts and the members of a room, as the process shows them now."""
        self.write(f"{room} show")
        return parse_state(self.wait_for(f"{room}: {{"))

    def history(self, room: str) -> list[str]:
        """Return the texts of a room that the process has joined with or got since then.

        A text that it has got twice is there twice.
        """
        lines = [line for line in self.lines if line.startswith(f"{room}: ")]
        states = [parse_state(line)[0] for line in lines if line.startswith(f"{room}: {{")]
        added = [line.split(" ", 3) for line in lines if line.split(" ")[1] in NAMES]
        return [*(states[0] if states else ()), *(words[3] for words in added)]

    def wait_for_text(self, room: str, text: str) -> None:
        """Wait until the process has a text, perhaps from the time before it joined."""
        while text not in self.history(room):
            self._read()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def end(self) -> int:
        """End the input, as by Ctrl-D, and return the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(TIMEOUT_S)

    def kill(self) -> None:
        """Kill the process, and close its streams."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def parse_state(line: str) -> tuple[list[str], list[str]]:
    """Return texts and members from a line such as ``chat: {"1": "hello"} ann bob``."""
    state = line.partition(": ")[2]
    texts, end = json.JSONDecoder().raw_decode(state)
    return list(texts.values()), state[end:].split()


class Group:
    """The processes of one test, each at an address that stays the same."""

    def __init__(self) -> None:
        self._ports = free_ports(socket.SOCK_DGRAM, NAMES)
        self._processes: list[Process] = []

    def start(self, name: str, *seeds: str, options: Sequence[str] = ()) -> Process:
        """Start a process that joins its rooms through others."""
        arguments = ["--bind", f"127.0.0.1:{self._ports[name]}"]
        for seed in seeds:
            arguments += ["--seed", f"127.0.0.1:{self._ports[seed]}"]
        process = Process(name, [*arguments, *options])
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            process.kill()


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group()
    yield group
    group.close()


def converse(asking: Process, answering: Process, room: str, turns: int) -> list[str]:
    """Let one process ask, and another one answer; return the texts in causal order."""
    texts = []
    for _ in range(turns):
        question = f"question {next(numbers)}"
        answer = f"answer to {question}"
        asking.write(f"{room} add {question}")
        answering.wait_for_text(room, question)
        answering.write(f"{room} add {answer}")
        asking.wait_for_text(room, answer)
        texts += [question, answer]
    return texts


def check(processes: Sequence[Process], texts: dict[str, list[str]]) -> None:
    """Check that all processes get exactly these texts in this order."""
    for process in processes:
        for room, expected in texts.items():
            process.wait_for_text(room, expected[-1])
            assert process.show(room)[0] == expected
            assert process.history(room) == expected


def test_late_members_have_the_history_once_and_no_answer_before_its_question(
    group: Group,
) -> None:
    ann, bob = group.start("ann"), group.start("bob", "ann")
    everybody = [ann, bob]
    texts = {room: converse(ann, bob, room, 5) for room in ROOMS}
    for name, seed in (("eve", "bob"), ("dan", "eve"), ("kim", "dan")):
        late = group.start(name, seed)
        texts["chat"] += converse(ann, bob, "chat", 5)  # Before or after the snapshot.
        late.wait_for_text("board", texts["board"][-1])
        texts["board"] += converse(late, bob, "board", 5)
        everybody.append(late)
    check(everybody, texts)
    assert [process.show("chat")[1] for process in everybody] == [sorted(NAMES)] * 5
    assert [process.end() for process in everybody] == [0] * 5


@pytest.mark.parametrize("has_journal", [False, True])
def test_a_killed_member_returns_with_everything(
    group: Group, tmp_path: Path, has_journal: bool
) -> None:
    options = ["--journal", str(tmp_path / "eve")] if has_journal else []
    ann, bob = group.start("ann"), group.start("bob", "ann")
    eve = group.start("eve", "bob", options=options)
    texts = {room: converse(ann, eve, room, 3) for room in ROOMS}
    eve.kill()
    for room in ROOMS:  # Nobody waits for the killed process.
        texts[room] += converse(ann, bob, room, 10)
    eve = group.start("eve", "ann", options=options)
    for room in ROOMS:
        eve.wait_for_text(room, texts[room][-1])
        texts[room] += converse(eve, bob, room, 3)
    check([ann, bob, eve], texts)
    assert [process.end() for process in (ann, bob, eve)] == [0] * 3


def test_a_member_that_leaves_says_goodbye_and_the_others_go_on(group: Group) -> None:
    ann, bob = group.start("ann"), group.start("bob", "ann")
    eve = group.start("eve", "bob")
    texts = {room: converse(ann, eve, room, 3) for room in ROOMS}
    eve.write("board leave")
    for process in (ann, bob):
        process.wait_for("board: event: eve left the room board")
    texts["board"] += converse(ann, bob, "board", 3)
    texts["chat"] += converse(ann, eve, "chat", 3)
    check([ann, bob], texts)
    check([eve], {"chat": texts["chat"]})
    assert eve.end() == 0
    for process in (ann, bob):
        process.wait_for("chat: event: eve left the room chat")
        assert [process.show(room)[1] for room in ROOMS] == [["ann", "bob"]] * 2
    assert [process.end() for process in (ann, bob)] == [0] * 2


def test_a_stopped_member_of_one_room_delays_nobody_else(group: Group) -> None:
    ann, bob = group.start("ann"), group.start("bob", "ann")
    eve = group.start("eve", "bob", options=["--rooms", "board"])
    texts = {room: converse(ann, bob, room, 1) for room in ROOMS}
    texts["board"] += converse(bob, eve, "board", 1)
    ann.wait_for_text("board", texts["board"][-1])  # Else only eve could send it again.
    eve.signal(signal.SIGSTOP)
    for room in ROOMS:  # Every answer passes while eve receives nothing.
        texts[room] += converse(ann, bob, room, 20)
    check([ann, bob], texts)
    assert ann.show("board")[1] == ["ann", "bob", "eve"]  # It was not removed meanwhile.
    eve.signal(signal.SIGCONT)
    check([eve], {"board": texts["board"]})
    assert [process.end() for process in (eve, ann, bob)] == [0] * 3
