"""A Spark session for the pipeline that starts fast, logs only errors, and cleans up.

``with open_session() as spark`` starts local Spark on all cores, or connects to a cluster
(``open_session("spark://...")``) or to a Connect server (``open_session("sc://...")``). The
settings of the user have priority: :mod:`antecede.pipeline.spark.settings`.

A session that exists already, passed as an argument or active in this process, is used as
it is: neither its settings are changed, nor is it stopped.

This package needs the extra ``antecede[spark]``.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import AntecedeError, ConfigError
from antecede.pipeline.spark.executors import wait_for_executors
from antecede.pipeline.spark.interrupt import cancel_on_interrupt, defer_interrupt
from antecede.pipeline.spark.java import java_home
from antecede.pipeline.spark.master import CONNECT, check_master, is_local
from antecede.pipeline.spark.settings import (
    default_settings,
    log_file_of_user,
    user_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["explain_errors", "open_session"]

LOCAL_ATTEMPTS = 3
"""How often local Spark runs a task that fails with a transient error."""
JAVA_STOP_TIMEOUT_S = 30.0
"""How long Java may take to end before it is killed."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ERROR_HINTS = {
    r"No module named '(\w+)": r"Spark's workers have no \1: install antecede[trace] there",
    r"PYTHON_VERSION_MISMATCH": "Spark's workers need the same Python as the driver",
    r'Cannot run program "([^"]+)"': r"Spark's workers have no Python at \1: set"
    " PYSPARK_PYTHON to its path there",
    r"No space left on device": "no space left on device, on the driver or a worker",
    r"SparkContext was shut down|stopped SparkContext": "the Spark cluster stopped",
}
"""Patterns of Spark's error messages, and the messages to raise instead."""


@contextmanager
def open_session(
    master: "SparkSession | str | None" = None,
    *,
    cores: int | None = None,
    fast_start: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator["SparkSession"]:
    """Yield a session; stop it afterwards if this function started it.

    Args:
        master: A session to use, or a master's URL. None for the session that is active in
            this process, or the master in the user's settings, or local Spark.
        cores: The number of cores for local Spark; None for all.
        fast_start: Start faster, at the cost of throughput: for seconds of work.
        conf: Settings of a new session, such as ``{"spark.executor.memory": "4g"}``.

    Raises:
        ConfigError: PySpark or Java is missing, or the master cannot be reached, or a
            session is active and has another master.
    """
    conf = conf if conf is not None else {}
    if master is not None and not isinstance(master, str):
        with explain_errors():
            yield master
        return
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError("this needs Spark: pip install 'antecede[spark]'") from None
    if master is not None:
        check_master(master)
    existing = _existing_session(master, conf)
    if existing is not None:
        with explain_errors():
            yield existing
        return
    if master is not None and master.startswith(CONNECT):
        with _connect_session(master, conf) as spark:
            yield spark
        return
    user = user_settings(conf)
    count = cores if cores is not None else os.cpu_count() or 1
    if master is None and cores is None and "spark.master" in user:
        master = user["spark.master"]
        check_master(master)
    if master is None:
        master = f"local[{count},{LOCAL_ATTEMPTS}]"
    with (
        tempfile.TemporaryDirectory(
            prefix="antecede-spark-", ignore_cleanup_errors=True
        ) as scratch,
        _environment(master, user, Path(scratch)),
    ):
        defaults = default_settings(
            master, user, Path(scratch), cores=count, fast_start=fast_start
        )
        started: SparkSession | None = None
        try:
            with defer_interrupt():
                started = _start(master, {**defaults, **conf}, user)
            with cancel_on_interrupt(partial(_cancel, started)), explain_errors():
                yield started
        finally:
            if started is not None:
                _stop(started)


def _existing_session(master: str | None, conf: Mapping[str, str]) -> "SparkSession | None":
    """Return the session of this process; raise ConfigError if it is not the wanted one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    context = SparkContext._active_spark_context
    if found is None and context is not None:
        found = SparkSession(context)
    if found is None or (master is None and not conf):
        return found
    own = found.conf.get("spark.master", "") or ""
    if conf or master != own:
        wanted = master if master is not None else "these settings"
        raise ConfigError(
            f"a Spark session is active at {own or 'another server'}, and a process has"
            f" only one: stop it before you use {wanted}, or use it without them"
        )
    return found


@contextmanager
def explain_errors() -> Iterator[None]:
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


def _start(
    master: str, settings: Mapping[str, str], user: Mapping[str, str]
) -> "SparkSession":
    """Start Java and a session in it, and wait for the executors of a cluster."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        if log_file_of_user() is None and "spark.log.level" not in user:
            spark.sparkContext.setLogLevel("ERROR")
        if not is_local(master):
            wait_for_executors(spark)
            if SHUFFLE_PARTITIONS not in user:
                partitions = 2 * spark.sparkContext.defaultParallelism
                spark.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    except Exception as error:
        reason = _reason(error)  # Java has the text: read it before Java ends.
        _end_java()
        raise ConfigError(f"no Spark session at {master}: {reason}") from None
    return spark


def _reason(error: Exception) -> str:
    """Return Spark's error message in one line, with the cause that Java names."""
    text = str(error).strip()
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java did not start; check its message above, JAVA_HOME and the Java options"
    lines = text.splitlines() or [type(error).__name__]
    # The first line of an error in Java names the Python call, the second the error.
    first = lines[1].lstrip(": ") if lines[1:] and "calling" in lines[0] else lines[0]
    # Causes without a text are of no help.
    causes = re.findall(r"^Caused by: [\w.$]+: (.+)$", text, re.MULTILINE)
    return f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first


@contextmanager
def _connect_session(url: str, conf: Mapping[str, str]) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        first = _reason(error)
        if "PACKAGE_NOT_INSTALLED" in first:
            first = "the client is missing: pip install 'pyspark[connect]'"
        raise ConfigError(f"no Spark Connect session at {url}: {first}") from error
    try:
        with cancel_on_interrupt(spark.interruptAll), explain_errors():
            yield spark
    finally:
        spark.stop()


@contextmanager
def _environment(master: str, user: Mapping[str, str], scratch: Path) -> Iterator[None]:
    """Set the variables that Spark reads and the user has not set; restore them later."""
    python = user.get("spark.pyspark.python", sys.executable)
    defaults = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        defaults["SPARK_LOCAL_IP"] = "127.0.0.1"
    if "spark.local.dir" not in user:
        defaults["SPARK_LOCAL_DIRS"] = str(scratch / "local")
    variables = {name: os.environ.get(name, value) for name, value in defaults.items()}
    variables["JAVA_HOME"] = str(java_home(scratch))
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


def _cancel(spark: "SparkSession") -> None:
    """Cancel all jobs of a session that is about to be stopped.

    Spark logs an error for each task that ends after the session, which is no error here.
    """
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.cancelAllJobs()


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
