"""The task, the report and the sizes that all roles of the benchmark of the node share."""

import json
import sys
import time
from typing import Any

__all__ = [
    "BATCH_MESSAGES",
    "MESSAGE_TIMEOUT_S",
    "PAYLOAD_BYTES",
    "Task",
    "check_payloads",
    "read_task",
    "report",
    "report_start",
]

PAYLOAD_BYTES = 64
BATCH_MESSAGES = 64
"""The number of payloads that a sender passes on in one call, if it sends in batches."""
MESSAGE_TIMEOUT_S = 60.0
"""The maximum wait for one message."""

Task = dict[str, Any]
"""The parameters of a role, from a line of JSON."""


def report(*words: object) -> None:
    """Print a line for the parent process."""
    print(*words, flush=True)


def report_start() -> None:
    """Print when a sender starts, and the processor time that it has used before."""
    report("start", time.perf_counter(), time.process_time())


def read_task() -> Task:
    """Read a task of the parent process."""
    task: Task = json.loads(sys.stdin.readline())
    return task


def check_payloads(payloads: list[bytes]) -> int:
    """Return the number of payloads; raise ValueError if one has not the expected size."""
    for payload in payloads:
        if len(payload) != PAYLOAD_BYTES:
            raise ValueError(
                f"a received payload has {len(payload)} bytes, not {PAYLOAD_BYTES}: the"
                " receiver does not find the ends of the messages"
            )
    return len(payloads)
