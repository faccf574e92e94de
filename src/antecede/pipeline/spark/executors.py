"""Wait for the executors of a cluster, whose cores determine the number of tasks.

Spark returns a session before its executors have started. Until then it reports a
parallelism of 2, on a cluster of any size.
"""

import logging
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["wait_for_executors"]

LOG = logging.getLogger("antecede")
WAIT_S = 30.0
"""How long to wait for the first executor: Spark waits for more when a job starts."""
SETTLE_S = 1.5
"""No executor has registered for this time: no other is about to."""
POLL_INTERVAL_S = 0.1
DYNAMIC = "spark.dynamicAllocation.enabled"
"""With this setting, executors start when there are tasks."""


def wait_for_executors(
    spark: "SparkSession", *, wait_s: float = WAIT_S, settle_s: float = SETTLE_S
) -> int:
    """Wait until the executors of a cluster have registered; return their number.

    If none registers in time, log a warning: the jobs wait for the executors.
    """
    if spark.conf.get(DYNAMIC, "false") == "true":
        return 0
    start, count, changed = monotonic(), 0, inf
    while True:
        found = _count(spark)
        now = monotonic()
        if found != count:
            count, changed = found, now
        if count and now - changed >= settle_s:
            return count
        if not count and now - start >= wait_s:
            LOG.warning(
                "waiting for %s: no executor has registered; either the cluster has no free"
                " cores, or its workers do not reach the driver at %s",
                spark.sparkContext.master,
                spark.conf.get("spark.driver.host", "its address"),
            )
            return 0
        sleep(POLL_INTERVAL_S)


def _count(spark: "SparkSession") -> int:
    """Return the number of executors; Spark counts the driver as one more."""
    context = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1
