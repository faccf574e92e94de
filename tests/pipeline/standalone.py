"""A standalone Spark cluster on this machine: a master and a few workers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyspark

from antecede.pipeline.spark.java import java_home

START_TIMEOUT_S = 90
SPARK_HOME = Path(pyspark.__file__).parent


class Standalone:
    """A running cluster."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.url = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        master = self._spawn(
            "master", "master.Master", "--host", "127.0.0.1", "--port", "0"
        )
        self.url = self._wait(master, "master", r"(spark://127\.0\.0\.1:\d+)")
        self.add_workers(workers)

    def add_workers(self, count: int) -> None:
        """Start workers, all at once, and wait until they are ready."""
        added = {}
        for _ in range(count):
            name = f"worker-{len(self.processes)}"
            work = str(self.scratch / name)
            added[name] = self._spawn(
                name, "worker.Worker", "--cores", "1", "--memory", "1g",
                "--host", "127.0.0.1", "--work-dir", work, self.url,
            )  # fmt: skip
        for name, worker in added.items():
            self._wait(worker, name, "(Successfully registered)")
            self.workers.append(worker)

    def kill_worker(self) -> None:
        """Kill a worker and its executors with SIGKILL."""
        os.killpg(self.workers.pop().pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _spawn(
        self, name: str, class_name: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        with open(self.scratch / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [
                    *self._prefix(name),
                    SPARK_HOME / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{class_name}",
                    "--webui-port",
                    "0",
                    *arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _prefix(self, name: str) -> list[str]:
        """Return the prefix of the command of a process."""
        return []

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "JAVA_HOME": str(java_home(self.scratch)),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_WEBUI_PORT": "0",
            "SPARK_WORKER_WEBUI_PORT": "0",
            "PYSPARK_PYTHON": sys.executable,
        }

    def _wait(self, process: subprocess.Popen[bytes], name: str, pattern: str) -> str:
        log = self.scratch / f"{name}.log"
        start = monotonic()
        while monotonic() - start < START_TIMEOUT_S:
            text = log.read_text(errors="replace")
            found = re.search(pattern, text)
            if found:
                return found.group(1)
            assert process.poll() is None, text
            sleep(0.2)
        raise AssertionError(f"{name} did not start: {log.read_text(errors='replace')}")


@contextmanager
def standalone(scratch: Path, workers: int = 2) -> Iterator[Standalone]:
    cluster = Standalone(scratch)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()
