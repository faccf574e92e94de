"""The settings of a new session: those of the user, and defaults for all others.

A user sets ``spark.*`` in ``spark-defaults.conf``, in ``PYSPARK_SUBMIT_ARGS``, and by
``--conf`` of a command. Settings of the Java process must be known before it starts, so
this module reads these places itself.
"""

import argparse
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from antecede.errors import ConfigError
from antecede.pipeline.spark.master import is_local

__all__ = ["default_settings", "log_file_of_user", "parse_settings", "user_settings"]

DRIVER_SHARE = 0.25
DRIVER_MIB_MIN = 1024
DRIVER_MIB_MAX = 8192
"""Local Spark gets this share of the memory, within these bounds: with its default of one
GiB it sorts large studies on disk. ``SPARK_DRIVER_MEMORY`` overrides it."""
COLLECTOR = "-XX:+UseSerialGC"
"""The garbage collector that starts fastest and needs the fewest threads."""
JAVA_OPTIONS = "-XX:+IgnoreUnrecognizedVMOptions"
FAST_START_OPTIONS = "-XX:TieredStopAtLevel=1"
"""Only the quick compiler: saves a second at the start, but work in Java takes about three
times as long."""
OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
EXTRA_OPTIONS = "spark.driver.extraJavaOptions"
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
logger.cleanup.name = org.apache.spark.util.Utils
logger.cleanup.level = off
"""
"""Log errors only, without Spark's greeting, and without the errors of a failed start or
task, which are raised as exceptions too."""


def parse_settings(texts: list[str]) -> dict[str, str]:
    """Return settings from ``KEY=VALUE``; raise ConfigError if one is not valid."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(f"--conf must be spark.KEY=VALUE, got {text!r}")
        found[key] = value
    return found


def user_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of the user; those of ``conf`` override the others."""
    return {**_defaults_file(), **_submit_arguments(), **conf}


def default_settings(
    master: str,
    user: Mapping[str, str],
    scratch: Path,
    *,
    cores: int,
    fast_start: bool = False,
) -> dict[str, str]:
    """Return the settings of a new session that the user has not set.

    Args:
        master: The URL of the master.
        user: From :func:`user_settings`.
        scratch: A directory that is removed with the session; gets the settings of the log.
        cores: The number of cores of local Spark.
        fast_start: Start faster, at the cost of throughput.
    """
    found = {
        "spark.app.name": "antecede",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Spark puts these before the extraJavaOptions of the user, which override them.
        "spark.driver.defaultJavaOptions": _java_options(user, scratch, fast_start),
    }
    if is_local(master):
        found["spark.sql.shuffle.partitions"] = str(2 * cores)
        found["spark.driver.bindAddress"] = "127.0.0.1"
        found["spark.driver.host"] = "127.0.0.1"
        if "SPARK_DRIVER_MEMORY" not in os.environ:
            found["spark.driver.memory"] = f"{_driver_mib()}m"
    elif os.environ.get("PYTHONPATH"):
        # Executors have another working directory than the driver.
        paths = os.environ["PYTHONPATH"].split(os.pathsep)
        found["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    return {key: value for key, value in found.items() if key not in user}


def log_file_of_user() -> Path | None:
    """Return the user's settings of the log; None if there are none."""
    file = _conf_directory() / "log4j2.properties"
    return file if file.is_file() else None


def _java_options(user: Mapping[str, str], scratch: Path, fast_start: bool) -> str:
    """Return options of Java that do not conflict with those of the user."""
    own = [user.get(EXTRA_OPTIONS, "")]
    own += [os.environ.get(name, "") for name in OPTION_VARIABLES]
    options = [JAVA_OPTIONS]
    if not re.search(r"-XX:\+Use\w+GC\b", " ".join(own)):  # Java accepts only one.
        options.append(COLLECTOR)
    if log_file_of_user() is None and "log4j" not in " ".join(own):
        file = scratch / "log4j2.properties"
        file.write_text(LOG_PROPERTIES, encoding="utf-8")
        options.append(f"-Dlog4j2.configurationFile={file.as_uri()}")
    if fast_start:
        options.append(FAST_START_OPTIONS)
    return " ".join(options)


def _conf_directory() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    configured = os.environ.get("SPARK_CONF_DIR")
    return Path(configured) if configured else Path(_find_spark_home()) / "conf"


def _defaults_file(file: Path | None = None) -> dict[str, str]:
    """Return the settings of a properties file, by default of ``spark-defaults.conf``."""
    file = file if file is not None else _conf_directory() / "spark-defaults.conf"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    found = {}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        match = re.match(r"\s*([^#!\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$", line)
        if match is not None and match[1].startswith("spark."):
            found[match[1]] = match[2]
    return found


def _submit_arguments() -> dict[str, str]:
    """Return the settings in ``PYSPARK_SUBMIT_ARGS``, the options of ``spark-submit``."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file", type=Path)
    parser.add_argument("--master", dest="spark.master")
    parser.add_argument("--name", dest="spark.app.name")
    parser.add_argument("--driver-memory", dest="spark.driver.memory")
    parser.add_argument("--driver-java-options", dest=EXTRA_OPTIONS)
    text = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    try:
        options, _ = parser.parse_known_args(shlex.split(text))
    except (ValueError, argparse.ArgumentError) as error:
        raise ConfigError(f"PYSPARK_SUBMIT_ARGS is not valid: {error}") from error
    given = vars(options)
    conf, file = given.pop("conf"), given.pop("properties_file")
    found = {} if file is None else _defaults_file(file)
    found |= {key: value for key, value in given.items() if value is not None}
    return found | {key: value for key, _, value in (each.partition("=") for each in conf)}


def _driver_mib() -> int:
    """Return the memory of local Spark, whose driver does all the work."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Not available everywhere.
        return DRIVER_MIB_MIN
    return max(DRIVER_MIB_MIN, min(int(total * DRIVER_SHARE) >> 20, DRIVER_MIB_MAX))
