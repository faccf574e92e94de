"""Queries that turn copies, totals and samples into the measures of runs and of groups.

Each query names its inputs in braces; :mod:`antecede.pipeline.study.measure` supplies them.
The ledger and the copies are those of :mod:`antecede.pipeline.study.copies_sql`::

    copies ──► compared ──► statistics ──┐
      └──────► peaks ────────────────────┼──► run measures ──► summary
    ledger ──► totals ───────────────────┤
    ledger and copies ──► living ────────┤
    samples ─────────────────────────────┘
"""

__all__ = [
    "COMPARED",
    "LIVING",
    "PEAKS",
    "QUANTITIES",
    "RUN_MEASURES",
    "SAMPLED",
    "SAMPLES",
    "SEEDS_MAX",
    "STATISTICS",
    "SUMMARY",
    "TOTALS",
]

COMPARED = """
WITH ranked AS (
  SELECT
    *,
    CASE WHEN latency IS NOT NULL THEN array_position(array('optimal', 'matrix'), protocol)
      END AS preference
  FROM {copies}
),
paired AS (
  SELECT
    *,
    min_by(latency, nullif(preference, 0)) OVER copy AS earliest_latency,
    min_by(targets_digest, nullif(preference, 0)) OVER copy AS earliest_digest
  FROM ranked
  WINDOW copy AS (PARTITION BY comparable, source, number, target)
)
SELECT
  *,
  CASE WHEN targets_digest <> earliest_digest THEN NULL ELSE latency - earliest_latency END
    AS non_causal_latency
FROM paired
"""
"""Copies, each with the latency of the same copy under the reference protocol."""

QUANTITIES = (
    "sender_wait",
    "wire",
    "receiver_wait",
    "latency",
    "non_causal_latency",
    "metadata_bytes",
)
"""Columns of a copy of which a run has the mean, percentiles and maximum."""


def _each(template: str) -> str:
    """Return the expressions of a template for each quantity."""
    return ",\n  ".join(template.format(quantity) for quantity in QUANTITIES)


def _percentile(share: float) -> str:
    """Return the expression for a percentile of ranked values."""
    low = f"max(CASE WHEN rank = floor({share}D * last) THEN value END)"
    high = f"max(CASE WHEN rank = ceil({share}D * last) THEN value END)"
    return f"{low} + pmod({share}D * max(last), 1.0D) * ({high} - {low})"


STATISTICS = f"""
WITH samples AS (
  SELECT comparable, run, quantity, value
  FROM (
    SELECT
      comparable, run, sender_wait, wire, receiver_wait, latency, non_causal_latency,
      CAST(metadata_bytes AS DOUBLE) AS metadata_bytes
    FROM {{compared}}
  )
  UNPIVOT (value FOR quantity IN ({", ".join(QUANTITIES)}))
),
ordered AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY comparable, run, quantity ORDER BY value) - 1 AS rank,
    count(*) OVER (
      PARTITION BY comparable, run, quantity ORDER BY value
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    ) - 1 AS last
  FROM samples
),
picked AS (
  SELECT
    comparable, run, quantity,
    count(*) AS count, avg(value) AS mean, max(value) AS max,
    {_percentile(0.5)} AS p50,
    {_percentile(0.99)} AS p99
  FROM ordered
  GROUP BY comparable, run, quantity
)
SELECT
  comparable, run,
  {_each("max(struct(count, mean, p50, p99, max)) FILTER (WHERE quantity = '{0}') AS {0}")}
FROM picked
GROUP BY comparable, run
"""
"""Statistics of the quantities of each run's copies.

Percentiles are exact, with linear interpolation between two values.
"""

PEAKS = """
WITH spans AS (
  SELECT comparable, run, buffer, process, start, end
  FROM {copies}
  LATERAL VIEW stack(
    5,
    'transit', -1L, released, arrived,
    'source', CAST(source AS BIGINT), released, arrived,
    'pair', shiftleft(CAST(source AS BIGINT), 32) + target, released, arrived,
    'sender', CAST(source AS BIGINT), sent, released,
    'receiver', CAST(target AS BIGINT), arrived, delivered
  ) AS buffer, process, start, end
  WHERE start IS NOT NULL AND NOT start <=> end
),
changes AS (
  SELECT comparable, run, buffer, process, time, change
  FROM spans
  LATERAL VIEW stack(2, start, 1, end, -1) AS time, change
  WHERE time IS NOT NULL
),
levels AS (
  SELECT
    comparable, run, buffer,
    sum(change) OVER (
      PARTITION BY comparable, run, buffer, process ORDER BY time
      RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS level
  FROM changes
)
SELECT
  comparable, run,
  max(level) FILTER (WHERE buffer = 'transit') AS in_transit_max,
  max(level) FILTER (WHERE buffer = 'source') AS in_transit_source_max,
  max(level) FILTER (WHERE buffer = 'pair') AS in_transit_pair_max,
  max(level) FILTER (WHERE buffer = 'sender') AS sender_buffer_max,
  max(level) FILTER (WHERE buffer = 'receiver') AS receiver_buffer_max
FROM levels
GROUP BY comparable, run
"""
"""The most copies that were in transit or buffered at the same time.

The changes of one instant are added up first, so copies that enter and leave at the same
instant do not count.
"""

TOTALS = """
SELECT
  comparable, run,
  any_value(protocol) AS protocol,
  max(ended) AS execution_time,
  sum(job_starts_sum) / nullif(sum(jobs), 0) AS job_start_mean,
  sum(control_frames) AS control_frames,
  coalesce(sum(control_bytes), 0) AS control_bytes,
  coalesce(sum(payload_bytes_sum), 0) AS payload_bytes_total,
  coalesce(sum(metadata_bytes_sum), 0) AS metadata_bytes_total,
  sum(CASE WHEN relay IS NULL THEN transmits ELSE frames - 1 END) AS retransmissions,
  count_if(relay IS NOT NULL) AS relays,
  sum(drops) AS drops,
  count_if(
    relay IS NULL AND target <> source
    AND (sent IS NOT NULL OR (message_broadcast AND delivered IS NOT NULL))
  ) AS copies
FROM {ledger}
GROUP BY comparable, run
"""
"""Totals over the events of a run."""

LIVING = """
WITH crashes AS (
  SELECT run, min(crashed) AS since, collect_set(target) AS silent
  FROM {ledger}
  WHERE crashed IS NOT NULL
  GROUP BY run
)
SELECT /*+ BROADCAST(crashes) */
  comparable, copies.run, count(delivered) / count(*) AS living_delivered_share
FROM {copies} AS copies
JOIN crashes ON crashes.run = copies.run
WHERE sent > since
  AND NOT array_contains(silent, source) AND NOT array_contains(silent, target)
GROUP BY comparable, copies.run
"""
"""Of runs with a crash: the share of the copies among the others that were delivered.

Counted are the copies that were sent after the first crash.
"""

SAMPLED = (
    "links",
    "unsafe_links",
    "mean_path",
    "unreached",
    "view_links",
    "view_mean_path",
    "state_numbers_mean",
    "state_numbers_max",
    "sender_work_us",
    "receiver_work_us",
)
"""Measures of a probe; over its samples, the mean, or for ``_max`` the maximum."""


def _sampled(name: str) -> str:
    over = "max" if name.endswith("_max") else "avg"
    return f"{over}(value) FILTER (WHERE measure = '{name}') AS {name}"


SAMPLES = f"""
SELECT
  run,
  {", ".join(_sampled(name) for name in SAMPLED)}
FROM {{samples}}
GROUP BY run
"""
"""Aggregates over the samples of a run."""

RUN_MEASURES = f"""
WITH compared AS (
  SELECT
    *,
    bool_or(protocol IN ('optimal', 'matrix')) OVER same AS has_reference,
    max(CASE WHEN protocol = 'buffer' THEN execution_time END) OVER same
      AS buffer_execution_time,
    max(CASE WHEN protocol = 'buffer' THEN job_start_mean END) OVER same
      AS buffer_job_start_mean
  FROM {{totals}}
  WINDOW same AS (PARTITION BY comparable)
)
SELECT
  run AS cell,
  {_each("{0}.mean AS {0}_mean, {0}.p50 AS {0}_p50")},
  {_each("{0}.p99 AS {0}_p99, {0}.max AS {0}_max")},
  CASE WHEN has_reference
    THEN coalesce(latency.count, 0) - coalesce(non_causal_latency.count, 0) END
    AS non_causal_unmatched,
  copies,
  coalesce(latency.count, 0) AS delivered,
  living_delivered_share,
  execution_time,
  job_start_mean,
  coalesce(latency.count, 0) / nullif(execution_time, 0.0D) AS throughput,
  buffer_execution_time / nullif(execution_time, 0.0D) AS execution_speedup,
  buffer_job_start_mean / nullif(job_start_mean, 0.0D) AS job_start_speedup,
  coalesce(in_transit_max, 0) AS in_transit_max,
  coalesce(in_transit_source_max, 0) AS in_transit_source_max,
  coalesce(in_transit_pair_max, 0) AS in_transit_pair_max,
  coalesce(sender_buffer_max, 0) AS sender_buffer_max,
  coalesce(receiver_buffer_max, 0) AS receiver_buffer_max,
  control_frames, control_bytes, metadata_bytes_total, payload_bytes_total,
  retransmissions, relays, drops,
  {", ".join(SAMPLED)}
FROM compared
LEFT JOIN {{statistics}} USING (comparable, run)
LEFT JOIN {{peaks}} USING (comparable, run)
LEFT JOIN {{living}} USING (comparable, run)
LEFT JOIN {{sampled}} USING (run)
"""
"""One row per run, one column per measure."""

SEEDS_MAX = "SELECT max(n) FROM (SELECT count(*) AS n FROM {cells} GROUP BY `group`)"
"""The number of cells of the largest group."""

SUMMARY = """
WITH statistics AS (
  SELECT
    `group`, any_value(grid) AS grid,
    any_value(protocol) AS protocol, any_value(workload) AS workload,
    any_value(network) AS network, any_value(processes) AS processes,
    any_value(messages) AS messages,
    measure,
    count(value) AS seeds,
    avg(value) AS mean,
    stddev_samp(value) AS deviation
  FROM {measures} JOIN {cells} USING (cell)
  GROUP BY `group`, measure
)
SELECT
  `group`, grid, protocol, workload, network, processes, messages, measure, seeds, mean,
  deviation,
  mean - t * deviation / sqrt(seeds) AS low,
  mean + t * deviation / sqrt(seeds) AS high
FROM statistics
LEFT JOIN {quantiles} ON runs = seeds
ORDER BY `group`, measure
"""
"""Statistics of every measure over the seeds of each group of cells."""
