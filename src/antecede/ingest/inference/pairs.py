"""Infer a run from messages that were recorded with the times of their send and receive.

The timestamps of a process are assumed to order its events. If two timestamps of a process
are equal, one of the two messages is dropped (:mod:`antecede.ingest.inference.ordering`),
which does not depend on the order of the rows. Timestamps of different processes are only
compared to find clock skew.

Each delivery of a dropped message, and each receive without a send, is an event of the kind
*missing*.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import LOCATIONS_MAX, IngestSummary, SourceLocation
from antecede.ingest.event_table import (
    DELIVER,
    LOCAL,
    MISSING,
    NONE,
    SEND,
    EventTable,
)
from antecede.ingest.inference.ordering import (
    AMBIGUOUS_ORDER,
    ambiguous_events,
    sort_histories,
)
from antecede.ingest.inference.record_log import RecordLog
from antecede.ingest.text_hash import hash_texts
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["infer_from_pairs"]

ASSUMPTION = "each process's own timestamps order its events"


def infer_from_pairs(log: RecordLog) -> tuple[EventTable, IngestSummary]:
    """Order the events of each process, and find missing information."""
    records, file = log.table()
    line = records["line"].to_numpy()
    unsent = np.asarray(pc.is_null(records["sent_ns"]))
    table, ambiguous = _event_table(records, file, line, log.files)
    for description, mask, role in (
        ("receives without a send", unsent, "target"),
        (AMBIGUOUS_ORDER, ambiguous, "source"),
    ):
        found = np.flatnonzero(mask)
        names = records[role].take(pa.array(found[:LOCATIONS_MAX])).to_pylist()
        locations = [
            SourceLocation(log.files[file[i]], int(line[i]), name)
            for i, name in zip(found, names, strict=False)
        ]
        log.missing.add_many(description, len(found), locations)
    summary = IngestSummary(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="messages",
        records=log.records,
        unknown=log.records - log.read + int(np.count_nonzero(unsent | ambiguous)),
        processes=len(table.names),
        missing=log.missing.collected(),
        assumptions=(ASSUMPTION,),
    )
    return table, summary


def _event_table(
    records: pa.Table, file: Ints, line: Longs, files: list[str]
) -> tuple[EventTable, Bools]:
    """Return the sends and receives of all records, and the records of ambiguous order."""
    count = records.num_rows
    both = pa.concat_arrays(
        [chunk for name in ("source", "target") for chunk in records[name].chunks]
    ).dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int32)
    source, target = codes[:count], codes[count:]
    sent_ns, is_sent = _times(records["sent_ns"])
    received_ns, is_received = _times(records["received_ns"])
    message, is_first = _number_messages(records["message"], source, is_sent)
    # One send per message, and one receive per record with a receive.
    sends = np.flatnonzero(is_first)
    receives = np.flatnonzero(is_received)
    row = np.concatenate((sends, receives))
    process = np.concatenate((source[sends], target[receives]))
    time = np.concatenate((sent_ns[sends], received_ns[receives]))
    is_send = np.repeat([True, False], [len(sends), len(receives)])
    kind = np.where(is_send, SEND, np.where(is_sent[row], DELIVER, MISSING))
    event_message = np.where(kind == MISSING, NONE, message[row])
    ambiguous = np.zeros(len(row), np.bool_)
    known = np.flatnonzero(kind != MISSING)

    def tie_keys(events: Longs) -> tuple[np.ndarray, ...]:
        rows = row[known[events]]
        times = (received_ns[rows], sent_ns[rows])
        return is_send[known[events]], *_content_keys(records, rows), *times

    by_time = sort_histories(process[known], time[known], tie_keys)
    instants = np.zeros(len(known), np.int64)
    ambiguous[known] = ambiguous_events(
        process[known], time[known], instants, order=by_time
    )
    dropped = event_message[ambiguous]
    is_dropped = np.isin(event_message, dropped) & (kind != MISSING)
    undelivered = np.flatnonzero(is_sent & ~is_received & ~np.isin(message, dropped))
    kind[is_dropped] = np.where(is_send[is_dropped], LOCAL, MISSING)
    event_message[is_dropped] = NONE
    ambiguous_records = np.zeros(count, np.bool_)
    ambiguous_records[row[ambiguous]] = True
    order = np.lexsort((~is_send, line[row], file[row], time, process))
    table = EventTable(
        names=both.dictionary.to_pylist(),
        files=files,
        process=process[order],
        kind=kind[order].astype(np.int32),
        message=event_message[order],
        time_ns=time[order],
        hint=time[order],
        file=file[row][order],
        line=line[row][order],
        is_known=np.ones(int(message.max(initial=NONE)) + 1, np.bool_),
        undelivered=(message[undelivered], target[undelivered]),
    )
    return table, ambiguous_records


def _content_keys(records: pa.Table, rows: Longs) -> tuple[Longs, ...]:
    """Return a hash of the message, and of its target, of some rows; 0 without a name."""
    chosen = records.select(["source", "target", "message"]).take(pa.array(rows))
    source, target, name = (
        each.combine_chunks().cast(pa.string())
        if not pa.types.is_integer(each.type)
        else each.combine_chunks()
        for each in chosen.columns
    )
    own = hash_texts(source)
    hashed = name if pa.types.is_integer(name.type) else pa.array(hash_texts(name, own))
    message = np.where(name.is_null(), 0, hashed.fill_null(0).to_numpy())
    return message, hash_texts(target)


def _times(column: pa.ChunkedArray) -> tuple[Longs, Bools]:
    """Return the times, 0 where unknown, and whether each is known."""
    return column.fill_null(0).to_numpy(), np.asarray(pc.is_valid(column))


def _number_messages(
    names: pa.ChunkedArray, source: Ints, is_sent: Bools
) -> tuple[Longs, Bools]:
    """Return the message of each sent record, and whether it is the message's first."""
    own = names.combine_chunks().dictionary_encode()
    if isinstance(own, pa.ChunkedArray):
        own = own.chunk(0)
    code = own.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    width = len(own.dictionary) + len(code)
    # A record without a name is a message of its own.
    code = np.where(code == NONE, len(own.dictionary) + np.arange(len(code)), code)
    key = source.astype(np.int64) * width + code
    message = np.full(len(key), NONE, np.int64)
    sent = np.flatnonzero(is_sent)
    _, first, inverse = np.unique(key[sent], return_index=True, return_inverse=True)
    message[sent] = inverse
    is_first = np.zeros(len(key), np.bool_)
    is_first[sent[first]] = True
    return message, is_first
