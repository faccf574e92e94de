"""The URL of a Spark master: check it, and check that a server listens there.

Spark itself takes minutes to report a server that does not answer, and reports an
incomplete URL in many lines.
"""

import os
import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from antecede.errors import ConfigError
from antecede.trace.uri import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CONNECT", "check_master", "is_local", "master_name"]

CONNECT = "sc://"
STANDALONE = "spark://"
KUBERNETES = "k8s://"
YARN = "yarn"
CONNECT_PORT = 15002
STANDALONE_PORT = 7077
KUBERNETES_PORTS = {"http": 80, "https": 443}
PROBE_TIMEOUT_S = 5.0
MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+"
)
YARN_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def is_local(master: str) -> bool:
    """Return whether Spark runs on this machine only."""
    return master.startswith("local")


def master_name(master: "SparkSession | str") -> str:
    """Return the master for messages: without credentials, and ``local`` without cores."""
    if isinstance(master, str):
        return redact(master.partition(";")[0])  # The parameters of Connect have a token.
    try:
        found = master.sparkContext.master or ""
    except Exception:  # Connect sessions have no context; the exception type varies.
        return "Connect"
    return "local" if is_local(found) else redact(found)


def check_master(master: str) -> None:
    """Raise ConfigError if the URL is invalid, or no server listens there."""
    if not MASTER.fullmatch(master):
        raise ConfigError(
            f"{master!r} is not a valid master: use local[N], spark://HOST:PORT, yarn,"
            " k8s://URL or sc://HOST:PORT"
        )
    if master == YARN and not any(os.environ.get(name) for name in YARN_VARIABLES):
        raise ConfigError(
            "the master yarn needs the configuration of Hadoop: set HADOOP_CONF_DIR to its"
            " directory"
        )
    addresses = _addresses(master)
    problem = ""
    for address in addresses:
        try:
            with socket.create_connection(address, timeout=PROBE_TIMEOUT_S):
                return
        except OSError as error:
            problem = error.strerror or str(error)
    if addresses:
        raise ConfigError(
            f"no server answers at {master} ({problem}): check the address and that the"
            " server runs, or omit the master to use local Spark"
        )


def _addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a URL, one of which must answer."""
    try:
        if master.startswith(STANDALONE):
            return list(map(_standalone, master.removeprefix(STANDALONE).split(",")))
        if master.startswith(CONNECT):
            url = urlsplit(master)
            return [(_host(url.hostname), url.port or CONNECT_PORT)]
        if master.startswith(KUBERNETES):
            rest = master.removeprefix(KUBERNETES)
            url = urlsplit(rest if "://" in rest else f"https://{rest}")
            port = url.port or KUBERNETES_PORTS.get(url.scheme)
            if port is None:
                raise ValueError(f"{url.scheme} is not http or https")
            return [(_host(url.hostname), port)]
    except ValueError as error:
        raise ConfigError(f"{master!r} is not a valid master: {error}") from error
    return []


def _standalone(text: str) -> tuple[str, int]:
    url = urlsplit(f"//{text}")
    host = _host(url.hostname)
    if url.port is None:
        raise ValueError(f"the port is missing, such as spark://{text}:{STANDALONE_PORT}")
    return host, url.port


def _host(name: str | None) -> str:
    if not name:
        raise ValueError("the host is missing")
    return name
