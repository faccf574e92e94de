"""A Spark session for the pipeline: quick to start, quiet, and tidy afterwards.

``with open_session() as spark`` starts local Spark on all cores, or connects to a cluster
(``master="spark://..."``), or to a Connect server (``master="sc://..."``). A session that
the caller has already is used as it is: ``open_session(spark)``.

This package needs the extra ``antecede[spark]``.
"""

import os
import re
import shutil
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
from antecede.pipeline.spark.interrupt import interrupt_cancels, interrupt_waits
from antecede.pipeline.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session"]

CONNECT = "sc://"
STANDALONE = "spark://"
PORTS = {CONNECT: 15002, STANDALONE: 7077}
"""Where a server listens if its address does not say."""
REACH_S = 5.0
"""How long to try whether a server is there at all; Spark itself would take minutes."""
DRIVER_SHARE = 0.25
DRIVER_MIB_MIN = 1024
DRIVER_MIB_MAX = 8192
"""Local Spark gets this share of the memory, within these bounds: with the one GiB that is
its default it sorts large studies on disk. ``SPARK_DRIVER_MEMORY`` overrides it."""
STOP_S = 30.0
"""How long Java may take to end before it is killed."""
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
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.master.name = org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
logger.master.level = off
logger.transport.name = org.apache.spark.network.client.TransportResponseHandler
logger.transport.level = off
"""
"""Nothing but errors, Spark's greeting excluded, and of those not the ones that are raised
here too if there is no session."""
MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+"
)
REPAIRS = {
    r"No module named '(\w+)": r"Spark's workers have no \1: install antecede[trace] there",
    r"PYTHON_VERSION_MISMATCH": "Spark's workers need the same Python as the driver",
    r"No space left on device": "no space left on device, here or at Spark's workers",
    r"SparkContext was shut down|stopped SparkContext": "the Spark cluster went away",
}
"""What an error of Spark may say, and what to tell the user."""
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions"
"""The collector that starts fastest, and needs the fewest threads."""
BRIEF_OPTIONS = "-XX:TieredStopAtLevel=1"
"""Java compiles in haste: a second off the start, but measuring takes thrice as long."""


@contextmanager
def open_session(
    given: "SparkSession | str | None" = None,
    *,
    cores: int | None = None,
    brief: bool = False,
) -> Iterator["SparkSession"]:
    """Yield a session; one that was started here is stopped afterwards.

    Args:
        given: A session to use, a master's URL, or None for local Spark.
        cores: How many cores local Spark uses; None for all.
        brief: There will be seconds of work, not minutes.

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
    if given is not None:
        _check_master(given)
    if given is not None and given.startswith(CONNECT):
        with _connected(given) as spark:
            yield spark
        return
    count = cores if cores is not None else os.cpu_count() or 1
    scratch = Path(tempfile.mkdtemp(prefix="antecede-spark-"))
    try:
        with _environment(scratch):
            started: SparkSession | None = None
            try:
                with interrupt_waits():
                    started = _start(given or f"local[{count}]", count, scratch, brief)
                with interrupt_cancels(started.sparkContext.cancelAllJobs), _in_one_line():
                    yield started
            finally:
                if started is not None:
                    _stop(started)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_master(master: str) -> None:
    """Raise ConfigError if it is no master's URL, or nobody listens there."""
    if not MASTER.fullmatch(master):
        raise ConfigError(
            f"a master is local[N], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT,"
            f" not {master!r}"
        )
    scheme = next((each for each in PORTS if master.startswith(each)), None)
    if scheme is None:
        return
    problem = ""
    for address in master.removeprefix(scheme).split(","):
        try:
            place = urlsplit(f"//{address}")
            where = (place.hostname or "", place.port or PORTS[scheme])
            with socket.create_connection(where, timeout=REACH_S):
                return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise ConfigError(f"no Spark at {master}: {problem}")


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Raise ConfigError for what Spark reports at length, and only a user can repair."""
    try:
        yield
    except AntecedeError:
        raise
    except Exception as error:
        for pattern, words in REPAIRS.items():
            found = re.search(pattern, str(error))
            if found is not None:
                raise ConfigError(found.expand(words)) from error
        raise


def _start(master: str, cores: int, scratch: Path, brief: bool) -> "SparkSession":
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    log = scratch / "log4j2.properties"
    log.write_text(QUIET, encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={log.as_uri()} {JAVA_OPTIONS}"
    if brief:
        options += f" {BRIEF_OPTIONS}"
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
            # Executors stand in another directory than the driver.
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
    """Return how much memory local Spark, which does all the work itself, may take."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Not everywhere.
        return DRIVER_MIB_MIN
    return max(DRIVER_MIB_MIN, min(int(total * DRIVER_SHARE) >> 20, DRIVER_MIB_MAX))


def _reason(error: Exception) -> str:
    """Return the line that says most of what Spark says."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # The first line of an error in Java names a call of ours, the second the error.
    return lines[1].lstrip(": ") if lines[1:] and "calling" in lines[0] else lines[0]


@contextmanager
def _connected(url: str) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
    except Exception as error:
        first = _reason(error)
        if "PACKAGE_NOT_INSTALLED" in first:
            first = "a client of it needs pip install 'pyspark[connect]'"
        raise ConfigError(f"no Spark Connect session at {url}: {first}") from error
    try:
        with interrupt_cancels(spark.interruptAll), _in_one_line():
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

    with suppress(OSError, Py4JError):  # It may have died, or been stopped, before.
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
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None
