"""The measures, as queries over the events of all runs at once.

Each query names its inputs in braces; :mod:`antecede.pipeline.study.measure` puts them in. The
events are read once, for the ledger, and everything else is made from that::

    events ──► ledger ──► copies ──► compared ──► statistics ──┐
                 │           └─────► peaks ────────────────────┼──► wide
                 └──► totals ──────────────────────────────────┤
    samples ───────────────────────────────────────────────────┘

Rows are moved between tasks only once: the ledger's are put together by ``comparable``,
so that a run and all that it is compared with are in one place, and every later grouping
and window is by that and more. All of them sort, so memory does not grow with a run.
"""

__all__ = [
    "COMPARED",
    "COPIES",
    "LEDGER",
    "LIVES",
    "PEAKS",
    "QUANTITIES",
    "SAMPLED",
    "SAMPLES",
    "SEEDS_MAX",
    "STATISTICS",
    "SUMMARY",
    "TOLD",
    "TOTALS",
    "WIDE",
]

TOLD = """
SELECT /*+ REPARTITION(comparable), BROADCAST(cells) */
  comparable, protocol, relays, run, seq, time, kind, payload_bytes, metadata_bytes,
  CASE WHEN kind IN ('send', 'release', 'transmit', 'arrive', 'deliver') THEN source END
    AS source,
  CASE WHEN kind IN ('send', 'release', 'transmit', 'arrive', 'deliver') THEN number END
    AS number,
  CASE
    WHEN kind = 'send' THEN named
    WHEN kind IN ('release', 'transmit') THEN target
    WHEN kind IN ('arrive', 'deliver') THEN process
  END AS target,
  CASE WHEN kind IN ('release', 'transmit') AND process <> source THEN process END
    AS relay,
  kind = 'send' AND targets IS NULL AS broadcast
FROM {events} AS events
JOIN {cells} AS cells ON cells.cell = events.run
LATERAL VIEW OUTER explode(
  CASE WHEN kind = 'send' THEN array_except(targets, array(source)) END
) AS named
"""
"""The events, each beside the message, the process and the relay that it is about."""

LIVES = """
SELECT
  comparable, run, source, number, target, relay,
  any_value(protocol) AS protocol,
  any_value(relays) AS relays,
  bool_or(broadcast) AS broadcast,
  min(time) FILTER (WHERE kind = 'send') AS sent,
  min(time) FILTER (WHERE kind IN ('release', 'transmit')) AS released,
  min(time) FILTER (WHERE kind = 'arrive') AS arrived,
  min(time) FILTER (WHERE kind = 'deliver') AS delivered,
  min(seq) FILTER (WHERE kind IN ('release', 'transmit')) AS first_frame,
  min_by(payload_bytes, seq) FILTER (WHERE kind IN ('release', 'transmit'))
    AS payload_bytes,
  min_by(metadata_bytes, seq) FILTER (WHERE kind IN ('release', 'transmit'))
    AS metadata_bytes,
  count_if(kind IN ('release', 'transmit')) AS frames,
  count_if(kind = 'transmit') AS transmits,
  sum(CAST(payload_bytes AS BIGINT)) AS payload_bytes_sum,
  sum(CAST(metadata_bytes AS BIGINT)) AS metadata_bytes_sum,
  count_if(kind = 'control') AS control_frames,
  sum(CASE WHEN kind = 'control' THEN CAST(payload_bytes AS BIGINT) + metadata_bytes END)
    AS control_bytes,
  count_if(kind = 'drop') AS drops,
  count_if(kind = 'job_start') AS jobs,
  sum(time) FILTER (WHERE kind = 'job_start') AS job_starts_sum,
  max(time) FILTER (WHERE kind IN ('deliver', 'job_end')) AS ended
FROM {told}
GROUP BY comparable, run, source, number, target, relay
"""
"""One row per message, process that it concerns, and relay that passed it on there.

What concerns no message is in the one row of its run that has no source.
"""

LEDGER = """
SELECT
  *,
  min(sent) OVER message AS message_sent,
  bool_or(broadcast) OVER message AS message_broadcast,
  min(CASE WHEN relay IS NULL THEN released END) OVER message AS message_released,
  min_by(payload_bytes, CASE WHEN relay IS NULL THEN first_frame END) OVER message
    AS message_payload_bytes,
  min_by(metadata_bytes, CASE WHEN relay IS NULL THEN first_frame END) OVER message
    AS message_metadata_bytes,
  bit_xor(CASE WHEN sent IS NOT NULL THEN xxhash64(target) END) OVER message
    AS targets_digest
FROM {lives}
WINDOW message AS (PARTITION BY comparable, run, source, number)
"""
"""The same, each row beside what is true of its message."""

COPIES = """
WITH found AS (
  SELECT
    comparable, protocol, run, source, number, target, message_sent AS sent,
    CASE WHEN relays THEN message_released ELSE released END AS released,
    arrived, delivered,
    CASE WHEN relays THEN message_payload_bytes ELSE payload_bytes END AS payload_bytes,
    CASE WHEN relays THEN message_metadata_bytes ELSE metadata_bytes END
      AS metadata_bytes,
    CASE WHEN NOT message_broadcast THEN targets_digest END AS targets_digest
  FROM {ledger}
  WHERE relay IS NULL AND target <> source
    AND (sent IS NOT NULL OR (message_broadcast AND delivered IS NOT NULL))
)
SELECT
  comparable, protocol, run, source, number, target, sent, released, arrived, delivered,
  released - sent AS sender_wait,
  arrived - released AS wire,
  delivered - arrived AS receiver_wait,
  delivered - sent AS latency,
  payload_bytes, metadata_bytes, targets_digest
FROM found
"""
"""One row per copy. A broadcast has one for each process that it was delivered at."""

COMPARED = """
WITH ranked AS (
  SELECT
    *,
    CASE WHEN latency IS NOT NULL THEN array_position(array('optimal', 'matrix'), protocol)
      END AS place
  FROM {copies}
),
paired AS (
  SELECT
    *,
    min_by(latency, nullif(place, 0)) OVER copy AS earliest_latency,
    min_by(targets_digest, nullif(place, 0)) OVER copy AS earliest_digest
  FROM ranked
  WINDOW copy AS (PARTITION BY comparable, source, number, target)
)
SELECT
  *,
  CASE WHEN targets_digest <> earliest_digest THEN NULL ELSE latency - earliest_latency END
    AS non_causal_latency
FROM paired
"""
"""Copies, each beside the same copy of the run that delivers at the earliest."""

QUANTITIES = (
    "sender_wait",
    "wire",
    "receiver_wait",
    "latency",
    "non_causal_latency",
    "metadata_bytes",
)
"""What every copy has, and a run has the mean, percentiles and the largest of."""


def _each(template: str) -> str:
    """Return the same expressions for each quantity."""
    return ",\n  ".join(template.format(quantity) for quantity in QUANTITIES)


def _percentile(share: float) -> str:
    """Return the expression for a percentile of ordered values."""
    low = f"max(CASE WHEN place = floor({share}D * last) THEN value END)"
    high = f"max(CASE WHEN place = ceil({share}D * last) THEN value END)"
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
    row_number() OVER (PARTITION BY comparable, run, quantity ORDER BY value) - 1 AS place,
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
"""What there is to say about a quantity of a run's copies.

Percentiles are exact, and between two values in proportion.
"""

PEAKS = """
WITH spans AS (
  SELECT comparable, run, place, process, start, end
  FROM {copies}
  LATERAL VIEW stack(
    5,
    'transit', -1L, released, arrived,
    'source', CAST(source AS BIGINT), released, arrived,
    'pair', shiftleft(CAST(source AS BIGINT), 32) + target, released, arrived,
    'sender', CAST(source AS BIGINT), sent, released,
    'receiver', CAST(target AS BIGINT), arrived, delivered
  ) AS place, process, start, end
  WHERE start IS NOT NULL AND NOT start <=> end
),
changes AS (
  SELECT comparable, run, place, process, time, change
  FROM spans
  LATERAL VIEW stack(2, start, 1, end, -1) AS time, change
  WHERE time IS NOT NULL
),
levels AS (
  SELECT
    comparable, run, place,
    sum(change) OVER (
      PARTITION BY comparable, run, place, process ORDER BY time
      RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS level
  FROM changes
)
SELECT
  comparable, run,
  max(level) FILTER (WHERE place = 'transit') AS in_transit_max,
  max(level) FILTER (WHERE place = 'source') AS in_transit_source_max,
  max(level) FILTER (WHERE place = 'pair') AS in_transit_pair_max,
  max(level) FILTER (WHERE place = 'sender') AS sender_buffer_max,
  max(level) FILTER (WHERE place = 'receiver') AS receiver_buffer_max
FROM levels
GROUP BY comparable, run
"""
"""How many copies were somewhere at once, at the most, and for longer than a moment.

All changes of a moment count before the level is taken, so that what comes and goes in the
same moment was never there.
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
"""What there is to say about the events of a run."""

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
"""What a probe may note; over its moments, means and the largest of the largest."""


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
"""What there is to say about the samples of a run."""

WIDE = f"""
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
LEFT JOIN {{sampled}} USING (run)
"""
"""One row per run, one column per measure."""

SEEDS_MAX = "SELECT max(n) FROM (SELECT count(*) AS n FROM {cells} GROUP BY `group`)"
"""How many cells the largest group has."""

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
"""Every measure of every group of cells, over their seeds."""
