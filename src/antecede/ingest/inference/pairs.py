"""Messages that were recorded as pairs of a send and a receive.

Events of a process are in the order of its own timestamps, which is an assumption. Where
two of them are the same, the message of one is given up (:mod:`antecede.ingest.inference.ordering`).
Timestamps of different processes are never compared, but to find skew.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import PLACES_KEPT, Findings, Place
from antecede.ingest.event_table import DELIVER, LOCAL, NONE, SEND, Draft, skew_of
from antecede.ingest.formats.records import MESSAGES
from antecede.ingest.inference.ordering import UNSURE, unsure_events
from antecede.ingest.inference.record_log import RecordLog
from antecede.verify.kernels.slots import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["PairLog", "draft_pairs"]

ASSUMED = "each process's own timestamps order its events"


class PairLog(RecordLog):
    """The messages of one run; add the records of all its files, then draft it."""

    schema = MESSAGES


def draft_pairs(log: PairLog) -> tuple[Draft, Findings]:
    """Order the events of every process, and tell what is missing."""
    table, file = log.table()
    line = table["line"].to_numpy()
    unsent = np.asarray(pc.is_null(table["sent_ns"]))
    draft, unsure = _draft(table, file, line, log.files)
    for what, mask, who in (
        ("receives without a send", unsent, "target"),
        (UNSURE, unsure, "source"),
    ):
        found = np.flatnonzero(mask)
        names = table[who].take(pa.array(found[:PLACES_KEPT])).to_pylist()
        places = [
            Place(log.files[file[i]], int(line[i]), name)
            for i, name in zip(found, names, strict=False)
        ]
        log.holes.add_all(what, len(found), places)
    findings = Findings(
        format_name=log.format_name,
        files=tuple(log.files),
        unit="messages",
        records=log.records,
        unknown=log.records - log.read + int(np.count_nonzero(unsent | unsure)),
        processes=len(draft.names),
        holes=log.holes.findings(),
        skew=skew_of(draft),
        assumed=(ASSUMED,),
    )
    return draft, findings


def _draft(
    table: pa.Table, file: Ints, line: Longs, files: list[str]
) -> tuple[Draft, Bools]:
    """Make a send and a receive of every record; return also which have no sure place."""
    count = table.num_rows
    both = pa.concat_arrays(
        [chunk for name in ("source", "target") for chunk in table[name].chunks]
    ).dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int32)
    source, target = codes[:count], codes[count:]
    sent, received = (_times(table[name]) for name in ("sent_ns", "received_ns"))
    message, is_first = _messages(table["message"], source, sent[1])
    # A send for each message, and a receive for each record that has one.
    sends = np.flatnonzero(is_first)
    gets = np.flatnonzero(received[1])
    row = np.concatenate((sends, gets))
    process = np.concatenate((source[sends], target[gets]))
    time = np.concatenate((sent[0][sends], received[0][gets]))
    is_send = np.repeat([True, False], [len(sends), len(gets)])
    kind = np.where(is_send, SEND, np.where(sent[1][row], DELIVER, LOCAL))
    of_row = np.where(kind == LOCAL, NONE, message[row])
    unsure = np.zeros(len(row), np.bool_)
    told = np.flatnonzero(kind != LOCAL)
    unsure[told] = unsure_events(process[told], time[told], np.zeros(len(told), np.int64))
    given_up = np.isin(of_row, of_row[unsure]) & (kind != LOCAL)
    missed = np.flatnonzero(sent[1] & ~received[1] & ~np.isin(message, of_row[unsure]))
    kind[given_up], of_row[given_up] = LOCAL, NONE
    records = np.zeros(count, np.bool_)
    records[row[unsure]] = True
    order = np.lexsort((~is_send, line[row], file[row], time, process))
    draft = Draft(
        names=both.dictionary.to_pylist(),
        files=files,
        process=process[order],
        kind=kind[order].astype(np.int32),
        message=of_row[order],
        time_ns=time[order],
        hint=(time - time.min())[order],
        file=file[row][order],
        line=line[row][order],
        is_known=np.ones(int(message.max(initial=NONE)) + 1, np.bool_),
        undelivered=(message[missed], target[missed]),
    )
    return draft, records


def _times(column: pa.ChunkedArray) -> tuple[Longs, Bools]:
    known = np.asarray(pc.is_valid(column))
    return column.fill_null(0).to_numpy(), known


def _messages(names: pa.ChunkedArray, source: Ints, is_sent: Bools) -> tuple[Longs, Bools]:
    """Number the messages that were sent; return also which record is the first of each."""
    own = names.combine_chunks().dictionary_encode()
    if isinstance(own, pa.ChunkedArray):
        own = own.chunk(0)
    code = own.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    width = len(own.dictionary) + len(code)
    # A record without a name is a message by itself.
    code = np.where(code == NONE, len(own.dictionary) + np.arange(len(code)), code)
    key = source.astype(np.int64) * width + code
    message = np.full(len(key), NONE, np.int64)
    sent = np.flatnonzero(is_sent)
    _, first, inverse = np.unique(key[sent], return_index=True, return_inverse=True)
    message[sent] = inverse
    is_first = np.zeros(len(key), np.bool_)
    is_first[sent[first]] = True
    return message, is_first
