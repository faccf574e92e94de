"""The processes of the bench of the node; each has a time limit."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

LIMIT_S = 120.0
"""A worker that has not ended after this time is killed, and its contestant has failed."""
SERVER_LIMIT_S = 10.0


class BenchError(Exception):
    """A part of the bench failed or exceeded its time limit."""


class Worker:
    """A process that runs one role of :mod:`bench.net_work`; killed when the block ends.

    It reads tasks as lines of JSON, and prints lines: a word, and values.
    """

    def __init__(self, role: str, *, interpreted: bool) -> None:
        environment = dict(os.environ)
        if interpreted:
            environment["PYTHONPATH"] = "src"
        self._role = role
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.net_work", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._expired = False
        self._watchdog = threading.Timer(LIMIT_S, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    def _expire(self) -> None:
        self._expired = True
        self._process.kill()

    def write(self, task: Mapping[str, Any]) -> None:
        """Give the worker a task."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps(task)}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise BenchError(f"{self._role} has ended") from error

    def read(self, word: str) -> list[str]:
        """Wait for a line that begins with ``word``, and return its values."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if self._expired:
            raise BenchError(f"{self._role} did not print {word!r} within {LIMIT_S:.0f} s")
        first, *values = line.split() or [""]
        if first != word:
            raise BenchError(f"{self._role} printed {line.strip()!r} instead of {word!r}")
        return values

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def nats_server(wanted: bool) -> Iterator[int]:
    """Run a NATS server on a port of its own choice, and yield the port; 0 without one."""
    if not wanted:
        yield 0
        return
    with tempfile.TemporaryDirectory() as directory:
        server = subprocess.Popen(
            [
                *("nats-server", "-a", "127.0.0.1", "-p", "-1"),
                *("--ports_file_dir", directory),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            yield _server_port(Path(directory))
        finally:
            server.kill()
            server.wait()


def _server_port(directory: Path) -> int:
    """Return the port in the server's ports file; 0 if it writes none in time."""
    deadline = time.monotonic() + SERVER_LIMIT_S
    while time.monotonic() < deadline:
        for path in directory.glob("*.ports"):
            try:
                (address, *_) = json.loads(path.read_text(encoding="utf-8"))["nats"]
            except (ValueError, KeyError):
                continue  # The server is still writing the file.
            return int(address.rpartition(":")[2])
        time.sleep(0.05)
    return 0
