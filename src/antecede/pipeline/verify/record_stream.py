"""Verify the spans or messages of one run while they arrive, with bounded state.

:class:`antecede.pipeline.verify.open_records.OpenRecords` collects the records that belong
together, :class:`antecede.pipeline.verify.waiting_events.WaitingEvents` infers their events
and orders them, and an :class:`antecede.verify.online.verifier.OnlineVerifier` gets them
with a ``seq``, so that it never waits. A process that has a late record has lost events:
the verifier does not judge what depends on them.
"""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.open_records import OpenRecords, processes_of
from antecede.pipeline.verify.packed_rows import PackedRun, read_blob, write_blob
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.pipeline.verify.waiting_events import EmittedEvents, WaitingEvents
from antecede.verify.online.checker import RETENTION
from antecede.verify.online.state import PREFIX, read_header
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.oracle import MessageId

__all__ = ["RecordStream"]

MARK = b"records1"


class RecordStream:
    """Infers the events of one run, and passes them to its verifier."""

    opened: OpenRecords
    waiting: WaitingEvents

    def __init__(self, kind: str, delay: float) -> None:
        """Start a run.

        Args:
            kind: ``spans`` or ``messages``.
            delay: The watermark in seconds.
        """
        self.kind, self.delay = kind, delay
        self.opened = OpenRecords(kind, delay)
        self.waiting = WaitingEvents(kind, delay)
        self._sent: list[tuple[float, bytes]] = []
        """The records of the messages that were sent, in parts with their times."""

    def add(
        self, blobs: Sequence[pa.Buffer], names: ProcessNames, verifier: OnlineVerifier
    ) -> list[OnlineViolation]:
        """Pass the records of a micro-batch; return the violations that they prove."""
        packed = PackedRun(blobs=tuple(blobs), rows=0, in_order=False)
        late = self.opened.add(packed.table())
        return self._advance(names, verifier, late)

    def give_up(
        self, names: ProcessNames, verifier: OnlineVerifier
    ) -> list[OnlineViolation]:
        """Close all groups, and emit all events."""
        return self._advance(names, verifier, None)

    def _advance(
        self, names: ProcessNames, verifier: OnlineVerifier, late: pa.Table | None
    ) -> list[OnlineViolation]:
        now = self.opened.now
        if not np.isfinite(now):
            return []  # No record could be read.
        noted = EmittedEvents()
        if late is not None and late.num_rows:
            noted.late = noted.unknown = late.num_rows
            lost = names.encode(pa.array(processes_of(late, self.kind), pa.string()))
            noted.lost.update(lost.to_pylist())
        closed = self.opened.close(everything=late is None)
        self.waiting.infer(closed, names, now, noted)
        limit = self.opened.earliest_times(names)
        found = self._pass(noted, verifier, now)
        return found + self._pass(self.waiting.emit(limit, now), verifier, now)

    def _pass(
        self, emitted: EmittedEvents, verifier: OnlineVerifier, now: float
    ) -> list[OnlineViolation]:
        """Pass events, and what is known to be missing, to the verifier."""
        counters = verifier.counters
        counters.late += emitted.late
        counters.deliveries += emitted.unknown
        for which in counters.unknown:
            counters.unknown[which] += emitted.unknown
        verifier.lose_events(sorted(emitted.lost), now)
        if emitted.records is not None and emitted.records.num_rows:
            self._sent.append((now, write_blob(emitted.records)))
        return verifier.add([] if emitted.events is None else [emitted.events], now)

    def forget(self) -> None:
        """Remove the records of messages that the verifier has given up."""
        before = self.opened.now - RETENTION * self.delay
        self._sent = [each for each in self._sent if each[0] >= before]

    def find_records(self, messages: Sequence[MessageId]) -> dict[MessageId, MessageRecord]:
        """Return the records that some messages were inferred from, as far as known."""
        numbers = pa.array(sorted({each.number for each in messages}), pa.int64())
        found: dict[MessageId, MessageRecord] = {}
        for _, blob in self._sent if messages else ():
            table = read_blob(pa.py_buffer(blob))
            hits = table.filter(pc.is_in(table["number"], value_set=numbers))
            for row in hits.to_pylist():
                message = MessageId(row.pop("source"), row.pop("number"))
                found[message] = MessageRecord(**row)
        return found

    def to_fields(self) -> dict[str, int]:
        """Return the counts of the records as fields of a status."""
        return {
            "records": self.opened.records,
            "unread": self.opened.unread,
            "open": self.opened.table.num_rows,
            "waiting": self.waiting.table.num_rows,
        }

    def save(self) -> bytes:
        """Return the state as bytes."""
        opened, waiting = self.opened, self.waiting
        blobs = [
            write_blob(opened.table),
            write_blob(waiting.table),
            opened.closed_key.tobytes(),
            opened.closed_stamp.tobytes(),
            *(blob for _, blob in self._sent),
        ]
        header = {
            "kind": self.kind,
            "delay": self.delay,
            "now": opened.now,
            "records": opened.records,
            "unread": opened.unread,
            "buckets": waiting.buckets,
            "zero": waiting.zero,
            "frontier": waiting.frontier.tolist(),
            "next_seq": waiting.next_seq.tolist(),
            "counts": waiting.counts.tolist(),
            "sent": [stamp for stamp, _ in self._sent],
            "sizes": [len(blob) for blob in blobs],
        }
        text = json.dumps(header).encode()
        return b"".join([PREFIX.pack(MARK, len(text)), text, *blobs])

    @classmethod
    def load(cls, data: bytes) -> "RecordStream":
        """Return the stream whose state was saved.

        Raise TraceError if the bytes are not a state of this version.
        """
        header, at = read_header(data, MARK)
        blobs = []
        for size in header["sizes"]:
            blobs.append(data[at : at + size])
            at += size
        stream = cls(header["kind"], header["delay"])
        opened, waiting = stream.opened, stream.waiting
        opened.now = header["now"]
        opened.records, opened.unread = header["records"], header["unread"]
        opened.table, waiting.table = (read_blob(pa.py_buffer(b)) for b in blobs[:2])
        opened.closed_key = np.frombuffer(blobs[2], np.uint64)
        opened.closed_stamp = np.frombuffer(blobs[3], np.float64)
        waiting.buckets, waiting.zero = header["buckets"], header["zero"]
        waiting.frontier = np.array(header["frontier"], np.int64)
        waiting.next_seq = np.array(header["next_seq"], np.int64)
        waiting.counts = np.array(header["counts"], np.int64).reshape(-1, 2)
        stream._sent = list(zip(header["sent"], blobs[4:], strict=True))
        return stream
