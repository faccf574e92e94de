"""A Spark session for the pipeline that starts fast, logs only errors, and cleans up.

``with open_session() as spark`` starts local Spark on all cores, or connects to a cluster
(``open_session("spark://...")``) or to a Connect server (``open_session("sc://...")``).
``open_session(spark)`` yields an existing session unchanged.

This package needs the extra ``antecede[spark]``.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from antecede.errors import AntecedeError, ConfigError
from antecede.pipeline.spark.interrupt import cancel_on_interrupt, defer_interrupt
from antecede.pipeline.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session"]

CONNECT = "sc://"
STANDALONE = "spark://"
DEFAULT_PORTS = {CONNECT: 15002, STANDALONE: 7077}
PROBE_TIMEOUT_S = 5.0
"""Timeout of the check that a server listens; Spark itself would take minutes."""
DRIVER_SHARE = 0.25
DRIVER_MIB_MIN = 1024
DRIVER_MIB_MAX = 8192
"""Local Spark gets this share of the memory, within these bounds: with its default of one
GiB it sorts large studies on disk. ``SPARK_DRIVER_MEMORY`` overrides it."""
LOCAL_ATTEMPTS = 3
"""How often local Spark runs a task that fails with a transient error."""
JAVA_STOP_TIMEOUT_S = 30.0
"""How long Java may take to end before it is killed."""
LOG_PROPERTIES = """\
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
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.master.name = org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
logger.master.level = off
logger.transport.name = org.apache.spark.network.client.TransportResponseHandler
logger.transport.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""
"""Log errors only, without Spark's greeting, and without the errors of a failed start or
task, which are raised as exceptions too."""
MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+"
)
ERROR_HINTS = {
    r"No module named '(\w+)": r"Spark's workers have no \1: install antecede[trace] there",
    r"PYTHON_VERSION_MISMATCH": "Spark's workers need the same Python as the driver",
    r"No space left on device": "no space left on device, on the driver or a worker",
    r"SparkContext was shut down|stopped SparkContext": "the Spark cluster stopped",
}
"""Patterns of Spark's error messages, and the messages to raise instead."""
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions"
"""The garbage collector that starts fastest and needs the fewest threads."""
FAST_START_OPTIONS = "-XX:TieredStopAtLevel=1"
"""Only the quick compiler: saves a second at the start, but measuring takes three times as
long."""


@contextmanager
def open_session(
    master: "SparkSession | str | None" = None,
    *,
    cores: int | None = None,
    fast_start: bool = False,
) -> Iterator["SparkSession"]:
    """Yield a session; stop it afterwards if this function started it.

    Args:
        master: A session to use, a master's URL, or None for local Spark.
        cores: The number of cores for local Spark; None for all.
        fast_start: Start faster, at the cost of throughput: for seconds of work.

    Raises:
        ConfigError: PySpark or Java is missing, or the master cannot be reached.
    """
    if master is not None and not isinstance(master, str):
        yield master
        return
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError("this needs Spark: pip install 'antecede[spark]'") from None
    if master is not None:
        _check_master(master)
    if master is not None and master.startswith(CONNECT):
        with _connect_session(master) as spark:
            yield spark
        return
    count = cores if cores is not None else os.cpu_count() or 1
    with (
        tempfile.TemporaryDirectory(
            prefix="antecede-spark-", ignore_cleanup_errors=True
        ) as scratch,
        _environment(Path(scratch)),
    ):
        started: SparkSession | None = None
        try:
            with defer_interrupt():
                url = master or f"local[{count},{LOCAL_ATTEMPTS}]"
                started = _start(url, count, Path(scratch), fast_start)
            with cancel_on_interrupt(started.sparkContext.cancelAllJobs), _explain_errors():
                yield started
        finally:
            if started is not None:
                _stop(started)


def _check_master(master: str) -> None:
    """Raise ConfigError if the URL is invalid, or no server listens there."""
    if not MASTER.fullmatch(master):
        raise ConfigError(
            f"{master!r} is not a valid master: use local[N], spark://HOST:PORT, yarn,"
            " k8s://URL or sc://HOST:PORT"
        )
    scheme = next((each for each in DEFAULT_PORTS if master.startswith(each)), None)
    if scheme is None:
        return
    problem = ""
    for address in master.removeprefix(scheme).split(","):
        try:
            url = urlsplit(f"//{address}")
            host_and_port = (url.hostname or "", url.port or DEFAULT_PORTS[scheme])
            with socket.create_connection(host_and_port, timeout=PROBE_TIMEOUT_S):
                return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise ConfigError(f"no Spark at {master}: {problem}")


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Replace Spark's errors that the user can repair by a ConfigError of one line."""
    try:
        yield
    except AntecedeError:
        raise
    except Exception as error:
        for pattern, hint in ERROR_HINTS.items():
            found = re.search(pattern, str(error))
            if found is not None:
                raise ConfigError(found.expand(hint)) from error
        raise


def _start(master: str, cores: int, scratch: Path, fast_start: bool) -> "SparkSession":
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    log = scratch / "log4j2.properties"
    log.write_text(LOG_PROPERTIES, encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={log.as_uri()} {JAVA_OPTIONS}"
    if fast_start:
        options += f" {FAST_START_OPTIONS}"
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
        if "SPARK_DRIVER_MEMORY" not in os.environ:
            builder = builder.config("spark.driver.memory", f"{_driver_mib()}m")
    else:
        path = os.environ.get("PYTHONPATH")
        if path:
            # Executors have another working directory than the driver.
            path = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
            builder = builder.config("spark.executorEnv.PYTHONPATH", path)
    try:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    except Exception as error:
        _end_java()
        raise ConfigError(f"no Spark session at {master}: {_reason(error)}") from error
    return spark


def _driver_mib() -> int:
    """Return the memory of local Spark, whose driver does all the work."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Not available everywhere.
        return DRIVER_MIB_MIN
    return max(DRIVER_MIB_MIN, min(int(total * DRIVER_SHARE) >> 20, DRIVER_MIB_MAX))


def _reason(error: Exception) -> str:
    """Return the most informative line of Spark's error message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # The first line of an error in Java names the Python call, the second the error.
    return lines[1].lstrip(": ") if lines[1:] and "calling" in lines[0] else lines[0]


@contextmanager
def _connect_session(url: str) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
    except Exception as error:
        first = _reason(error)
        if "PACKAGE_NOT_INSTALLED" in first:
            first = "the client is missing: pip install 'pyspark[connect]'"
        raise ConfigError(f"no Spark Connect session at {url}: {first}") from error
    try:
        with cancel_on_interrupt(spark.interruptAll), _explain_errors():
            yield spark
    finally:
        spark.stop()


@contextmanager
def _environment(scratch: Path) -> Iterator[None]:
    """Set the environment variables that Spark reads, and restore them afterwards."""
    variables = {
        "JAVA_HOME": str(java_home(scratch)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
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

    with suppress(OSError, Py4JError):  # The session may have stopped already.
        spark.stop()
    _end_java()


def _end_java() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            try:
                process.wait(timeout=JAVA_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None
