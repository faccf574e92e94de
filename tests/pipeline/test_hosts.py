"""A cluster on several hosts, to which antecede comes by ``spark.archives``.

Master, worker and driver have addresses and disks of their own, so a path of the driver's
disk and an address such as 127.0.0.1 do not work by accident.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede.pipeline.spark.java import java_home
from antecede.pipeline.study.study import parse_study
from tests.pipeline.hosts import SHARED, ClusterHosts, open_cluster_hosts
from tests.pipeline.standalone import Standalone
from tests.pipeline.test_run_study import TABLE, rows, study_file

PACKAGE = Path(antecede.__file__).parent
PORT = 7077
WORKER_CORES = 3
TIMEOUT_S = 300
"""Executors that do not reach the driver let it wait without end."""

RUN_TWICE = """
import json, os, shutil, sys
from pathlib import Path
from antecede.errors import ConfigError
from antecede.pipeline.spark.session import open_session
from antecede.pipeline.study.run import run_study
from antecede.pipeline.study.study import load_study

master, shared = sys.argv[1:]
study = load_study(f"{shared}/small.toml")
archive = shutil.copy(f"{shared}/environment.tar.gz", "/tmp")  # On the driver's disk.
found = {}
with open_session(master, conf={"spark.archives": f"{archive}#environment"}) as spark:
    found["parallelism"] = spark.sparkContext.defaultParallelism
    found["partitions"] = spark.conf.get("spark.sql.shuffle.partitions")
    found["driver"] = spark.conf.get("spark.driver.host")
    try:
        run_study(spark, study, Path("/tmp/study"))
    except ConfigError as error:
        found["error"] = str(error)
    outcome = run_study(spark, study, Path(f"{shared}/study"))
    found["simulated"], found["failed"] = outcome.simulated, outcome.failed
found["left"] = sorted(os.listdir(f"{shared}/study"))
print(json.dumps(found))
"""


class Cluster(Standalone):
    """A master and a worker on hosts of their own."""

    def __init__(self, hosts: ClusterHosts, scratch: Path) -> None:
        super().__init__(scratch)
        self.hosts = hosts
        java_home(hosts.shared)
        self.environment = os.environ | {"JAVA_HOME": f"{SHARED}/java"}
        self.environment.pop("SPARK_LOCAL_IP", None)

    def start(self, workers: int = 1) -> None:
        assert workers == 1
        host = self.hosts.address["master"]
        master = self._spawn("master", "master.Master", "--host", host, "--port", str(PORT))
        self.url = self._wait(master, "master", rf"(spark://{host}:{PORT})")
        worker = self._spawn(
            "worker", "worker.Worker", "--cores", str(WORKER_CORES), "--memory", "1g",
            "--host", self.hosts.address["worker"], "--work-dir", "/tmp/work", self.url,
        )  # fmt: skip
        self._wait(worker, "worker", "(Successfully registered)")

    def _prefix(self, name: str) -> list[str]:
        return self.hosts.prefix(name)

    def _environment(self) -> dict[str, str]:
        own = {"SPARK_HOME", "SPARK_MASTER_WEBUI_PORT", "SPARK_WORKER_WEBUI_PORT"}
        spark = {k: v for k, v in super()._environment().items() if k in own}
        return {**self.environment, **spark}


def write_environment(file: Path, scratch: Path) -> None:
    """Write an archive of a virtual environment that contains antecede.

    The packages that antecede needs are installed on all hosts.
    """
    environment = scratch / "environment"
    make = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(environment)]
    subprocess.run(make, check=True)
    variables = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", variables))
    shutil.copytree(PACKAGE, packages / PACKAGE.name)
    for compiled in PACKAGE.parent.glob("*__mypyc*.so"):
        shutil.copy(compiled, packages)
    (packages / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        archive.add(environment, ".")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    shared = tmp_path / "shared"
    shared.mkdir()
    write_environment(shared / "environment.tar.gz", tmp_path)
    installed = Path(sysconfig.get_path("purelib")) / PACKAGE.name
    hidden = {"worker": [each for each in {PACKAGE, installed} if each.is_dir()]}
    try:
        opened = open_cluster_hosts(["master", "worker", "driver"], shared, hidden)
        hosts = opened.__enter__()
    except OSError as error:
        pytest.skip(f"optional: network namespaces with mounts ({error})")
    cluster = Cluster(hosts, tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        opened.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_of_several_hosts_runs_a_study(cluster: Cluster, tmp_path: Path) -> None:
    shared = cluster.hosts.shared
    study_file(shared, seeds=1, messages=8)
    done = subprocess.run(
        [
            *cluster.hosts.prefix("driver"),
            *(sys.executable, "-c", RUN_TWICE, cluster.url, SHARED),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**cluster.environment, "PYSPARK_PYTHON": "./environment/bin/python"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["parallelism"] == WORKER_CORES
    assert found["partitions"] == str(2 * WORKER_CORES)
    assert found["driver"] in ("driver", cluster.hosts.address["driver"])
    assert "the workers on worker do not reach /tmp/study: choose" in found["error"]
    cells = {cell.id for cell in parse_study({**TABLE, "seeds": 1}).cells}
    assert (found["simulated"], found["failed"]) == (len(cells), {})
    assert not [name for name in found["left"] if name.startswith(".")]
    assert {row["cell"] for row in rows(shared / "study", "measures")} == cells
