"""A real cluster: master and workers as processes of their own, one of which is killed."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep

from pyspark.sql import SparkSession

from antecede.pipeline.place import Place
from antecede.pipeline.run_study import run_study
from antecede.pipeline.study import parse_study
from tests.pipeline.standalone import Standalone, standalone
from tests.pipeline.test_run_study import TABLE, study_file, tables


def kill_when_begun(
    cluster: Standalone, directory: Path, study: subprocess.Popen[str]
) -> None:
    """Kill a worker as soon as the first cell is there."""
    while not Place(directory).simulated():
        if study.poll() is not None:
            return
        sleep(0.02)
    cluster.kill_worker()


def test_a_cluster_that_loses_a_worker_makes_the_same_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The command runs in a process of its own: Spark has one session to a process."""
    study = parse_study({**TABLE, "seeds": 6, "messages": 30})
    run_study(spark, study, tmp_path / "local")
    file = study_file(tmp_path, seeds=6, messages=30)
    command = [
        *(sys.executable, "-m", "antecede", "study", "run", str(file)),
        *("--out", str(tmp_path / "cluster"), "--json"),
    ]
    with (
        standalone(tmp_path, workers=2) as cluster,
        subprocess.Popen(
            [*command, "--master", cluster.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        killer = threading.Thread(
            target=kill_when_begun, args=(cluster, tmp_path / "cluster", process)
        )
        killer.start()
        out, errors = process.communicate()
        killer.join()
        assert process.returncode == 0, errors
        assert len(cluster.workers) == 1
    assert json.loads(out)["simulated"] == 18
    assert tables(tmp_path / "cluster") == tables(tmp_path / "local")
