"""The rows of a verified stream: violations and statuses.

A task returns the values of a row as JSON, and Spark parses it to structs.
"""

import json
from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from antecede.pipeline.verify.run_result import MessageRecord
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.oracle import MessageId

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FLAT", "METRICS", "OUTPUT", "STATUS", "messages_of", "status_of", "to_frame"]

FLAT = "record string, run string, data string"
"""The rows that a task returns."""
COUNTS = (
    "events", "messages", "deliveries", "violated", "unknown", "late", "repeated",
    "missing", "unsent", "lost_copies", "undelivered", "pending", "waiting", "records",
    "unread", "open", "state_bytes",
)  # fmt: skip
BY_PROPERTY = ("violated", "unknown")
STATUS = ", ".join(
    [
        "time: double",
        "is_quiet: boolean",
        *(
            f"{name}: {'map<string, bigint>' if name in BY_PROPERTY else 'bigint'}"
            for name in COUNTS
        ),
        "error: string",
    ]
)
SENT = (
    "source: string, number: bigint, name: string, trace: string, span: string,"
    " sent_time: double"
)
DELIVERED = f"struct<{SENT}, delivered_time: double>"
DATA = (
    f"property string, process string, message {DELIVERED}, earlier {DELIVERED},"
    f" path array<struct<{SENT}>>, text string, status struct<{STATUS}>"
)
OUTPUT = ("record", "run", f"from_json(data, '{DATA}') AS data")
"""The expressions that parse the rows of a task."""
METRICS = {
    "violations": "count_if(record = 'violation')",
    "runs": "count_if(record = 'status')",
    "errors": "count(status.error)",
    **{
        name: f"coalesce(sum(status.{name}), 0)"
        for name in ("late", "missing", "unsent", "lost_copies", "waiting", "open")
    },
    "unknown": "coalesce(sum(aggregate(map_values(status.unknown), 0L, (a, b) -> a + b)),"
    " 0)",
    "state_bytes": "coalesce(sum(status.state_bytes), 0)",
    "state_bytes_max": "coalesce(max(status.state_bytes), 0)",
}
"""By name, the metrics of a micro-batch."""


def status_of(
    verifier: OnlineVerifier,
    *,
    state_bytes: int,
    error: str | None,
    is_quiet: bool,
    records: Mapping[str, int],
) -> dict[str, object]:
    """Return the status of a run.

    Args:
        verifier: The verifier of its events.
        state_bytes: The size of its state.
        error: Why it is not verified; None if it is.
        is_quiet: Whether it was given up.
        records: The counts of its records; empty for a run of events.
    """
    checker = verifier.checker
    return {
        **checker.counters.to_fields(),
        **records,
        "time": checker.now if np.isfinite(checker.now) else None,
        "is_quiet": is_quiet,
        "undelivered": checker.undelivered,
        "pending": checker.pending,
        "waiting": verifier.waiting + records.get("waiting", 0),
        "state_bytes": state_bytes,
        "error": error,
    }


def messages_of(violations: Sequence[OnlineViolation]) -> list[MessageId]:
    """Return the messages that some violations name."""
    found = {each.message for each in violations}
    found.update(each.earlier for each in violations if each.earlier is not None)
    found.update(which for each in violations for which in each.chain)
    return sorted(found, key=lambda each: (each.source, each.number))


def to_frame(
    run: str,
    violations: Sequence[OnlineViolation],
    names: Mapping[int, str],
    records: Mapping[MessageId, MessageRecord],
    status: Mapping[str, object],
) -> "pd.DataFrame":
    """Return the rows of :data:`FLAT`: the violations, and the status.

    Args:
        run: The name of the run.
        violations: The violations.
        names: The names of the processes that have one.
        records: The records that messages were inferred from, as far as known.
        status: The status.
    """
    import pandas as pd

    rows: list[dict[str, object]] = [
        _violation(each, names, records) for each in violations
    ]
    data = [json.dumps(each) for each in [*rows, {"status": status}]]
    kinds = ["violation"] * len(rows) + ["status"]
    frame = pd.DataFrame({"record": kinds, "run": run, "data": data}, dtype=object)
    return frame.assign(run=run)


def _violation(
    found: OnlineViolation,
    names: Mapping[int, str],
    records: Mapping[MessageId, MessageRecord],
) -> dict[str, object]:
    def name(process: int) -> str:
        return names.get(process, str(process))

    def message(which: MessageId, sent_time: float | None) -> dict[str, object]:
        record = records.get(which, MessageRecord())
        return {
            "source": name(which.source),
            "number": which.number,
            "name": record.name,
            "trace": record.trace,
            "span": record.span,
            "sent_time": _known(sent_time),
        }

    row: dict[str, object] = {
        "property": found.property.value,
        "process": name(found.process),
        "message": {
            **message(found.message, found.sent_time),
            "delivered_time": _known(found.delivered_time),
        },
        "text": found.format(names),
    }
    if found.earlier is not None:
        row["earlier"] = {
            **message(found.earlier, found.earlier_sent_time),
            "delivered_time": _known(found.earlier_delivered_time),
        }
        times = {found.message: found.sent_time, found.earlier: found.earlier_sent_time}
        row["path"] = [message(each, times.get(each)) for each in found.chain] or None
    return row


def _known(time: float | None) -> float | None:
    return None if time is None or isnan(time) else time
