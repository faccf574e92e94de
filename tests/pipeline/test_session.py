"""Sessions: settings of the user, sessions of the user, and starts that fail."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from antecede.cli import main as cli
from antecede.errors import ConfigError
from antecede.pipeline.spark.executors import wait_for_executors
from antecede.pipeline.spark.master import check_master, master_name
from antecede.pipeline.spark.session import explain_errors, open_session
from antecede.pipeline.spark.settings import (
    default_settings,
    parse_settings,
    user_settings,
)
from tests.pipeline.processes import COMMAND

DEFAULTS = """\
# A comment.
spark.ui.enabled            true
spark.sql.shuffle.partitions=7
spark.local.dir : {local}
spark.driver.extraJavaOptions -XX:+UseParallelGC \\
    -Dour.option=1
other.key ignored
"""

PRINT_SESSION = """
import json, os, sys
from antecede.pipeline.spark.session import open_session

before = dict(os.environ)
with open_session(cores=1, conf={"spark.sql.ansi.enabled": "false"}) as spark:
    context = spark.sparkContext
    names = (
        "spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.local.dir",
        "spark.sql.ansi.enabled", "spark.sql.session.timeZone",
    )
    found = {name: spark.conf.get(name, None) for name in names}
    found["option"] = context._jvm.java.lang.System.getProperty("our.option")
    found["python"] = context.pythonExec
    found["parallelism"] = context.defaultParallelism
    found["local"] = os.listdir(sys.argv[1])
ours = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")
found["environment"] = [n for n in ours if os.environ.get(n) != before.get(n)]
print(json.dumps(found))
"""


@pytest.fixture
def defaults_file(tmp_path: Path) -> Path:
    """A directory with a spark-defaults.conf."""
    text = DEFAULTS.format(local=tmp_path / "local")
    (tmp_path / "spark-defaults.conf").write_text(text)
    (tmp_path / "local").mkdir()
    return tmp_path


def test_a_new_session_keeps_the_settings_of_the_user(defaults_file: Path) -> None:
    environment = os.environ | {
        "SPARK_CONF_DIR": str(defaults_file),
        "PYSPARK_PYTHON": "/the/python/of/the/workers",
    }
    environment.pop("SPARK_LOCAL_DIRS", None)
    done = subprocess.run(
        [sys.executable, "-c", PRINT_SESSION, str(defaults_file / "local")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.pop("local")  # Spark used the directory.
    assert found == {
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "7",
        "spark.local.dir": str(defaults_file / "local"),
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "option": "1",
        "python": "/the/python/of/the/workers",
        "parallelism": 1,
        "environment": [],
    }


def test_settings_come_from_the_file_the_variable_and_the_option_in_this_order(
    defaults_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults_file))
    other = defaults_file / "other.conf"
    other.write_text("spark.a=1\nspark.b=1\n")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        f"--properties-file {other} --conf spark.b=2 --conf spark.c='2 2'"
        " --driver-memory 3g --jars x.jar --verbose pyspark-shell",
    )
    found = user_settings(parse_settings(["spark.c=3=3"]))
    assert found == {
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "7",
        "spark.local.dir": str(defaults_file / "local"),
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Dour.option=1",
        "spark.a": "1",
        "spark.b": "2",
        "spark.c": "3=3",
        "spark.driver.memory": "3g",
    }
    defaults = default_settings("local[2]", found, defaults_file, cores=2)
    assert not defaults.keys() & found.keys()
    # Java accepts only one collector.
    assert "GC" not in defaults["spark.driver.defaultJavaOptions"]
    assert defaults["spark.driver.host"] == "127.0.0.1"


def test_only_local_spark_gets_the_address_of_this_machine(tmp_path: Path) -> None:
    for master in ("spark://host:7077", "yarn", "k8s://https://host"):
        defaults = default_settings(master, {}, tmp_path, cores=2)
        assert not {"spark.driver.host", "spark.driver.bindAddress"} & defaults.keys()
        assert "spark.sql.shuffle.partitions" not in defaults


@pytest.mark.parametrize("text", ["spark.a", "a=b", "=b"])
def test_an_invalid_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--conf must be spark\.KEY=VALUE"):
        parse_settings([text])


def settings(spark: SparkSession) -> dict[str, str]:
    return {str(key): str(value) for key, value in spark.conf.getAll.items()}


def test_an_active_session_is_neither_changed_nor_stopped(spark: SparkSession) -> None:
    before = settings(spark), dict(os.environ)
    with open_session(cores=1, fast_start=True) as found:
        assert found.sparkContext is spark.sparkContext
    with open_session(spark) as found:
        assert found is spark
    assert (settings(spark), dict(os.environ)) == before
    assert spark.range(3).count() == 3
    with pytest.raises(ConfigError, match="a Spark session is active at local"):
        open_session("local[7]").__enter__()
    with pytest.raises(ConfigError, match="stop it before you use these settings"):
        open_session(conf={"spark.a": "b"}).__enter__()


def test_a_cluster_without_executors_is_reported_in_one_line(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert wait_for_executors(spark, wait_s=0) == 0  # Local Spark has no executors.
    (record,) = caplog.records
    assert "no executor has registered" in record.getMessage()
    assert "do not reach the driver at 127.0.0.1" in record.getMessage()


def test_an_error_of_the_workers_is_explained_in_a_session_of_the_user(
    spark: SparkSession,
) -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        import absent_package  # type: ignore[import-not-found]

        yield absent_package

    def work() -> None:
        spark.range(1).mapInArrow(fail, "id long").collect()

    with (
        pytest.raises(ConfigError, match="workers have no absent_package: install"),
        explain_errors(),
    ):
        work()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("master", "problem"),
    [
        ("spark://127.0.0.1", r"the port is missing, such as spark://127\.0\.0\.1:7077"),
        ("spark://:7077", "the host is missing"),
        ("spark://host:x", "is not a valid master: "),
        ("k8s://ftp://host", "ftp is not http or https"),
        ("mesos://host:5050", "is not a valid master: use local"),
        (
            "spark://127.0.0.1:PORT",
            r"no server answers at .* \(Connection refused\): check",
        ),
        ("k8s://https://127.0.0.1:PORT", "no server answers at .*: check the address"),
        ("sc://127.0.0.1:PORT", "no server answers at .*: check the address"),
    ],
)
def test_a_master_that_cannot_be_used_is_one_line(
    master: str, problem: str, closed_port: int
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        check_master(master.replace("PORT", str(closed_port)))
    assert "\n" not in str(raised.value)


def test_yarn_needs_the_configuration_of_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(ConfigError, match="set HADOOP_CONF_DIR"):
        check_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    check_master("yarn")


def test_the_command_reports_an_unreachable_master_in_one_line(
    closed_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "check",
        "--protocol",
        "hybrid",
        "--master",
        f"spark://127.0.0.1:{closed_port}",
    ]
    done = subprocess.run([*COMMAND, *command], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"antecede: no server answers at spark://127.0.0.1:{closed_port}"
    )
    assert cli.main(["check", "--protocol", "hybrid", "--conf", "spark.a=b"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "antecede: --conf needs a search on Spark: add --master"


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A server that accepts connections and closes them."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_kubernetes_that_fails_is_one_line_with_the_message_of_java(
    deaf_port: int, tmp_path: Path
) -> None:
    master = f"k8s://https://127.0.0.1:{deaf_port}"
    image = ["--conf", "spark.kubernetes.container.image=none"]
    environment = os.environ | {"KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT": "0"}
    done = subprocess.run(
        [*COMMAND, "check", "--protocol", "hybrid", "--master", master, *image],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"antecede: no Spark session at {master}: ")
    assert "KubernetesClientException: " in line


def test_java_that_does_not_start_is_reported_last(tmp_path: Path) -> None:
    command = ["check", "--protocol", "hybrid", "--master", "local[1]"]
    done = subprocess.run(
        [*COMMAND, *command, "--conf", "spark.driver.memory=1m"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "Too small" in done.stdout  # The message of Java itself.
    (line,) = done.stderr.splitlines()
    assert line.startswith("antecede: no Spark session at local[1]: Java did not start;")


@pytest.mark.parametrize(
    ("master", "name"),
    [
        ("spark://host:7077", "spark://host:7077"),
        ("sc://host:15002/;token=secret", "sc://host:15002/"),
        ("local[2]", "local[2]"),
    ],
)
def test_the_name_of_a_master_has_no_token(master: str, name: str) -> None:
    assert master_name(master) == name


def test_the_name_of_the_master_is_that_of_the_session() -> None:
    for master, name in (("local[2,3]", "local"), ("spark://host:1", "spark://host:1")):
        session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
        assert master_name(cast("SparkSession", session)) == name
    assert master_name(cast("SparkSession", SimpleNamespace())) == "Connect"
