"""A Spark session for the pipeline: quick to start, quiet, and tidy afterwards.

``with open_session() as spark`` starts local Spark on all cores, or connects to a cluster
(``master="spark://..."``), or to a Connect server (``master="sc://..."``). A session that
the caller has already is used as it is: ``open_session(spark)``.

This package needs the extra ``antecede[spark]``.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import ConfigError
from antecede.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session"]

CONNECT = "sc://"
QUIET = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
"""Nothing but errors, Spark's greeting included."""
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+IgnoreUnrecognizedVMOptions"
"""For small and short jobs: a third off the start. Long jobs spend their time in Python."""


@contextmanager
def open_session(
    given: "SparkSession | str | None" = None, *, cores: int | None = None
) -> Iterator["SparkSession"]:
    """Yield a session; one that was started here is stopped afterwards.

    Args:
        given: A session to use, a master's URL, or None for local Spark.
        cores: How many cores local Spark uses; None for all.

    Raises:
        ConfigError: There is no PySpark, no Java, or no such master.
    """
    if given is not None and not isinstance(given, str):
        yield given
        return
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError("this needs Spark: pip install 'antecede[spark]'") from None
    if given is not None and given.startswith(CONNECT):
        with _connected(given) as spark:
            yield spark
        return
    count = cores if cores is not None else os.cpu_count() or 1
    scratch = Path(tempfile.mkdtemp(prefix="antecede-spark-"))
    try:
        with _environment(scratch):
            spark = _start(given or f"local[{count}]", count, scratch)
            try:
                yield spark
            finally:
                _stop(spark)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _start(master: str, cores: int, scratch: Path) -> "SparkSession":
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    log = scratch / "log4j2.properties"
    log.write_text(QUIET, encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={log.as_uri()} {JAVA_OPTIONS}"
    builder = (
        SparkSession.builder.master(master)
        .appName("antecede")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    )
    if local:
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config(
            "spark.driver.host", "127.0.0.1"
        )
    else:
        path = os.environ.get("PYTHONPATH")
        if path:
            builder = builder.config("spark.executorEnv.PYTHONPATH", path)
    try:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"no Spark session at {master}: {first}") from error
    return spark


@contextmanager
def _connected(url: str) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"no Spark Connect server at {url}: {first}") from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _environment(scratch: Path) -> Iterator[None]:
    """Set what Spark reads from the environment, for as long as the session lasts."""
    wanted = {
        "JAVA_HOME": str(java_home(scratch)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _stop(spark: "SparkSession") -> None:
    """Stop the session and the Java process behind it."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(OSError, Py4JError):  # It may have died, or been stopped, before.
        spark.stop()
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=30)
        SparkContext._gateway = None
        SparkContext._jvm = None
