"""Queries that turn the events of all runs into one row per copy of a message.

Each query names its inputs in braces; :mod:`antecede.pipeline.study.measure` supplies
them::

    events ──► keyed events ──► lifecycles ──► ledger ──► copies

The events are read once. Rows move between tasks once: they are partitioned by
``comparable``, so that a run and the runs that it is compared with are in one partition,
and every later grouping and window is by ``comparable`` and further columns. All groupings
and windows sort, so memory does not grow with the length of a run.
"""

__all__ = ["COPIES", "KEYED_EVENTS", "LEDGER", "MESSAGE_LIFECYCLES"]

KEYED_EVENTS = """
SELECT /*+ REPARTITION(comparable), BROADCAST(cells) */
  comparable, protocol, relays, run, seq, time, kind, payload_bytes, metadata_bytes,
  CASE WHEN kind IN ('send', 'release', 'transmit', 'arrive', 'deliver') THEN source END
    AS source,
  CASE WHEN kind IN ('send', 'release', 'transmit', 'arrive', 'deliver') THEN number END
    AS number,
  CASE
    WHEN kind = 'send' THEN named
    WHEN kind IN ('release', 'transmit') THEN target
    WHEN kind IN ('arrive', 'deliver', 'crash') THEN process
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
"""The events, each with the message, the process and the relay that it concerns.

A send is one row per target.
"""

MESSAGE_LIFECYCLES = """
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
  min(time) FILTER (WHERE kind = 'crash') AS crashed,
  max(time) FILTER (WHERE kind IN ('deliver', 'job_end')) AS ended
FROM {keyed_events}
GROUP BY comparable, run, source, number, target, relay
"""
"""One row per message, process that it concerns, and relay that forwarded it there.

The events that concern no message are in the row of their run that has neither source nor
target. A process that crashed has a row without a source, in which it is the target.
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
FROM {lifecycles}
WINDOW message AS (PARTITION BY comparable, run, source, number)
"""
"""The lifecycles, each with the columns that are the same for the whole message."""

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
"""One row per copy. A broadcast has one for each process that delivered it."""
