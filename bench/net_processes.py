"""The OS processes of the benchmark of the node, each with a timeout."""

import json
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

from bench.measure import child_environment

__all__ = ["BenchmarkError", "Worker", "nats_server"]

WORKER_TIMEOUT_S = 120.0
"""A worker that runs for longer than this time is killed, and its measurement fails."""
SERVER_TIMEOUT_S = 10.0
"""The maximum time from the start of the NATS server to its ports file."""


class BenchmarkError(Exception):
    """A process of the benchmark failed or exceeded its timeout."""


class Worker:
    """A process that runs one role of :mod:`bench.net_work`.

    The process reads each task as a line of JSON, and prints lines of a word and values.
    The end of the ``with`` block kills the process.
    """

    def __init__(self, role: str, *, interpreted: bool) -> None:
        self._role = role
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.net_work", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(interpreted=interpreted),
        )
        self._expired = False
        self._watchdog = threading.Timer(WORKER_TIMEOUT_S, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    def _expire(self) -> None:
        self._expired = True
        self._process.kill()

    def processor_s(self) -> float:
        """Return the processor time that the worker has used, with all its threads."""
        # The number of the clock of a process: include/linux/posix-timers.h of Linux.
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def write(self, task: Mapping[str, Any]) -> None:
        """Write a task to the worker."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps(task)}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise BenchmarkError(f"{self._role} ended before it read its task") from error

    def read(self, word: str) -> list[str]:
        """Wait for a line that begins with ``word``, and return its values."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if self._expired:
            raise BenchmarkError(
                f"{self._role} did not print {word!r} within {WORKER_TIMEOUT_S:.0f} s"
            )
        first, *values = line.split() or [""]
        if first != word:
            raise BenchmarkError(
                f"{self._role} printed {line.strip()!r} instead of {word!r}"
            )
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
def nats_server(needed: bool) -> Iterator[int]:
    """Run a NATS server on a free port and yield the port; yield 0 if none is needed."""
    if not needed:
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
    """Return the port in the ports file of the server, or 0 after the timeout."""
    deadline = time.monotonic() + SERVER_TIMEOUT_S
    while time.monotonic() < deadline:
        for path in directory.glob("*.ports"):
            try:
                (address, *_) = json.loads(path.read_text(encoding="utf-8"))["nats"]
            except (ValueError, KeyError):
                continue  # The server is still writing the file.
            return int(address.rpartition(":")[2])
        time.sleep(0.05)
    return 0
