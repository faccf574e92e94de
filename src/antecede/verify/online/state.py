"""The state of the online verifier as bytes.

The format is a mark with the version, the length of a header, the header as JSON, the
columns of all records as one compressed block, and the chunks of settled messages and of
the log, which are compressed already. It holds integers and floats only, and loading it
runs no code.
"""

import json
import zlib
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.errors import TraceError
from antecede.verify.online.checker import DeliveryChecker
from antecede.verify.online.event_log import EventLog, LogChunk
from antecede.verify.online.records import (
    BROADCAST,
    NEVER,
    Message,
    ProcessState,
    Segment,
    Suspect,
    slots_of,
)
from antecede.verify.online.settled import Chunk, SettledMessages
from antecede.verify.online.status import Counters
from antecede.verify.online.verifier import OnlineVerifier

__all__ = ["PREFIX", "load_state", "read_header", "save_state"]

PREFIX = Struct("<8sI")
"""The mark with the version, and the length of the header."""
MARK = b"online-2"
LEVEL = 1

Arrays = dict[str, NDArray[Any]]
PROCESS_INTS = ("id", "next_seq", "sends", "number_max", "number_expired", "own_delivered",
    "gap_ordinal")  # fmt: skip
PROCESS_FLOATS = ("gap_until", "inexact_until")
MESSAGE_INTS = ("source", "number", "ordinal", "order")
MESSAGE_FLOATS = ("time", "stamp", "inexact_until", "gap_until")


def save_state(verifier: OnlineVerifier) -> bytes:
    """Return the state of a verifier; all its violations must have been taken."""
    checker = verifier.checker
    checker.log.compact(checker.now, checker.order, NEVER)
    arrays: Arrays = {}
    _save_processes(checker, arrays)
    _save_messages(checker, arrays)
    chunks = checker.settled.chunks
    header = {
        "delay": checker.delay,
        "location": checker.location,
        "now": checker.now,
        "order": checker.order,
        "has_ended": verifier.has_ended,
        "counters": checker.counters.to_fields(),
        "columns": [(name, array.dtype.str, array.shape) for name, array in arrays.items()],
        "log": [
            (each.stamp, each.first, each.count, len(each.data))
            for each in checker.log.chunks
        ],
        "chunks": [
            (each.stamp, each.known, list(each.bounds.items()), each.counts, len(each.data))
            for each in chunks
        ],
    }
    text = json.dumps(header).encode()
    block = zlib.compress(b"".join(array.tobytes() for array in arrays.values()), LEVEL)
    sizes = [PREFIX.pack(MARK, len(text)), text, len(block).to_bytes(8, "little"), block]
    stored = [each.data for each in chunks] + [each.data for each in checker.log.chunks]
    return b"".join([*sizes, *stored])


def read_header(data: bytes, mark: bytes) -> tuple[dict[str, Any], int]:
    """Return the header of a saved state, and the position after it.

    Raise TraceError if the bytes are not a state with this mark.
    """
    found, length = PREFIX.unpack_from(data) if len(data) >= PREFIX.size else (b"", 0)
    if found != mark:
        raise TraceError(
            "the state was saved by another version of antecede: start with a new"
            " checkpoint"
        )
    end = PREFIX.size + length
    return json.loads(data[PREFIX.size : end]), end


def load_state(data: bytes) -> OnlineVerifier:
    """Return the verifier whose state was saved.

    Raise TraceError if the bytes are not a state of this version.
    """
    header, at = read_header(data, MARK)
    block_end = at + 8 + int.from_bytes(data[at : at + 8], "little")
    block = zlib.decompress(data[at + 8 : block_end])
    arrays: Arrays = {}
    offset = 0
    for name, dtype, shape in header["columns"]:
        count = int(np.prod(shape))
        array = np.frombuffer(block, np.dtype(dtype), count, offset).reshape(shape)
        arrays[name] = array
        offset += array.nbytes
    verifier = OnlineVerifier(header["delay"], location=header["location"])
    verifier.has_ended = header["has_ended"]
    checker = verifier.checker
    checker.now, checker.order = header["now"], header["order"]
    checker.counters = Counters(**header["counters"])
    chunks = []
    for stamp, known, bounds, counts, size in header["chunks"]:
        ranges = {source: (low, high) for source, (low, high) in bounds}
        stored = data[block_end : block_end + size]
        chunks.append(Chunk(stamp, known, ranges, tuple(counts), stored))
        block_end += size
    log = []
    for stamp, first, count, size in header["log"]:
        stored = data[block_end : block_end + size]
        log.append(LogChunk(stamp, first, count, stored))
        block_end += size
    checker.settled = SettledMessages(chunks)
    checker.log = EventLog(log, checker.order)
    _load_processes(verifier, arrays)
    _load_messages(checker, arrays)
    verifier.resume()
    return verifier


def _column(records: Sequence[Any], name: str, dtype: type) -> NDArray[Any]:
    return np.array([getattr(each, name) for each in records], dtype)


def _save_sets(arrays: Arrays, name: str, sets: Sequence[int]) -> None:
    """Add sets of processes, as lists; the length of that of a broadcast is -1."""
    lists = [[] if each == BROADCAST else list(slots_of(each)) for each in sets]
    lengths = [
        -1 if each == BROADCAST else len(slots)
        for each, slots in zip(sets, lists, strict=True)
    ]
    arrays[f"{name}.lengths"] = np.array(lengths, np.int32)
    arrays[f"{name}.slots"] = np.array([s for slots in lists for s in slots], np.int32)


def _load_sets(arrays: Arrays, name: str) -> list[int]:
    bits = [1 << slot for slot in arrays[f"{name}.slots"].tolist()]
    sets = []
    start = 0
    for length in arrays[f"{name}.lengths"].tolist():
        if length < 0:
            sets.append(BROADCAST)
            continue
        union = 0
        for bit in bits[start : start + length]:
            union |= bit
        sets.append(union)
        start += length
    return sets


def _save_processes(checker: DeliveryChecker, arrays: Arrays) -> None:
    processes = checker.processes
    for name in PROCESS_INTS:
        arrays[f"process.{name}"] = _column(processes, name, np.int64)
    for name in PROCESS_FLOATS:
        arrays[f"process.{name}"] = _column(processes, name, np.float64)
    count = len(processes)
    clocks = [process.clock[:count] for process in processes]
    arrays["process.clock"] = np.array(clocks, np.int64).reshape(count, count)
    gaps = [(each.slot, *gap) for each in processes for gap in each.given_up]
    arrays["gap.range"] = np.array([gap[:3] for gap in gaps], np.int64).reshape(-1, 3)
    arrays["gap.stamp"] = np.array([gap[3] for gap in gaps], np.float64)
    segments = [(each.slot, segment) for each in processes for segment in each.segments]
    arrays["segment.range"] = np.array(
        [
            (slot, each.first, each.end, each.position, len(each.events))
            for slot, each in segments
        ],
        np.int64,
    ).reshape(-1, 5)
    arrays["segment.stamp"] = np.array([each.stamp for _, each in segments], np.float64)
    events = [event for _, each in segments for event in each.events]
    seqs = [seq for _, each in segments for seq in each.seqs]
    arrays["event.seq"] = np.array(seqs, np.int64)
    arrays["event.is_send"] = np.array([event[0] for event in events], np.int8)
    arrays["event.source"] = np.array([event[2] for event in events], np.int32)
    arrays["event.number"] = np.array([event[3] for event in events], np.int64)
    arrays["event.time"] = np.array([event[4] for event in events], np.float64)
    _save_sets(arrays, "event.targets", [event[1] for event in events])


def _load_processes(verifier: OnlineVerifier, arrays: Arrays) -> None:
    checker = verifier.checker
    ids = np.array(arrays["process.id"])
    verifier.slots.add(ids, np.zeros(len(ids), np.int64))
    for slot, process_id in enumerate(ids.tolist()):
        process = checker.add_process(process_id)
        for name in (*PROCESS_INTS, *PROCESS_FLOATS):
            setattr(process, name, arrays[f"process.{name}"][slot].item())
    for process, clock in zip(checker.processes, arrays["process.clock"], strict=True):
        process.clock[: len(clock)] = clock
    gaps = zip(arrays["gap.range"].tolist(), arrays["gap.stamp"].tolist(), strict=True)
    for (slot, first, end), stamp in gaps:
        checker.processes[slot].given_up.append((first, end, stamp))
    columns = [
        arrays[f"event.{name}"].tolist() for name in ("is_send", "source", "number", "time")
    ]
    is_send, source, number, time = columns
    targets = _load_sets(arrays, "event.targets")
    events = list(zip(map(bool, is_send), targets, source, number, time, strict=True))
    seqs = arrays["event.seq"].tolist()
    start = 0
    stamps = arrays["segment.stamp"].tolist()
    ranges = arrays["segment.range"].tolist()
    for (slot, first, end, position, count), stamp in zip(ranges, stamps, strict=True):
        rows = slice(start, start + count)
        segment = Segment(first, end, stamp, seqs[rows], events[rows], position)
        checker.processes[slot].segments.append(segment)
        start += count


def _save_messages(checker: DeliveryChecker, arrays: Arrays) -> None:
    messages = list(checker.retained)
    for name in MESSAGE_INTS:
        arrays[f"message.{name}"] = _column(messages, name, np.int64)
    for name in MESSAGE_FLOATS:
        arrays[f"message.{name}"] = _column(messages, name, np.float64)
    _save_sets(arrays, "message.targets", [each.targets for each in messages])
    _save_sets(arrays, "message.delivered", [each.delivered for each in messages])
    count = len(checker.processes)
    clocks = np.array([each.clock[:count] for each in messages], np.int64)
    # The differences of consecutive clocks are small, and are compressed well.
    arrays["message.clock"] = np.diff(
        clocks.reshape(len(messages), count), axis=0, prepend=0
    )
    index = {id(each): i for i, each in enumerate(messages)}
    suspects = [
        (process.slot, suspect)
        for process in checker.processes
        for suspect in process.suspects
    ]
    arrays["suspect"] = np.array(
        [
            (slot, index[id(each.message)], each.order, each.is_causal, each.is_fifo)
            for slot, each in suspects
        ],
        np.int64,
    ).reshape(-1, 5)
    arrays["suspect.time"] = np.array([each.time for _, each in suspects], np.float64)


def _load_messages(checker: DeliveryChecker, arrays: Arrays) -> None:
    clocks = np.cumsum(arrays["message.clock"], axis=0)
    capacity = len(checker.processes[0].clock) if checker.processes else 0
    wide = np.zeros((len(clocks), capacity), np.int64)
    wide[:, : clocks.shape[1]] = clocks
    ints = [arrays[f"message.{name}"].tolist() for name in MESSAGE_INTS]
    floats = [arrays[f"message.{name}"].tolist() for name in MESSAGE_FLOATS]
    targets = _load_sets(arrays, "message.targets")
    delivered = _load_sets(arrays, "message.delivered")
    messages = []
    for source, number, ordinal, order, clock, sent_to, reached, *times in zip(
        *ints, wide, targets, delivered, *floats, strict=True
    ):
        message = Message(source, number, ordinal, order, clock, sent_to, reached, *times)
        messages.append(message)
        checker.messages[source][number] = message
        _restore_copies(checker.processes, message)
    checker.retained = deque(messages)
    times = arrays["suspect.time"].tolist()
    rows = zip(arrays["suspect"].tolist(), times, strict=True)
    for (slot, index, order, is_causal, is_fifo), time in rows:
        suspect = Suspect(messages[index], order, time, bool(is_causal), bool(is_fifo))
        messages[index].suspected += 1
        checker.processes[slot].suspects.append(suspect)


def _restore_copies(processes: Sequence[ProcessState], message: Message) -> None:
    """Add the undelivered copies of a message."""
    everyone = (1 << len(processes)) - 1
    for slot in slots_of(message.targets & everyone & ~message.delivered):
        processes[slot].add_copy(message)
