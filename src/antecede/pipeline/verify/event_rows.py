"""Convert the packed events of a run to rows for the verifier, and check them.

The rows must have a process, a kind and a position in the history of the process (``seq``).
A table without ``seq`` must have ``step``, which orders the events of a process, too.
"""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import TraceError
from antecede.pipeline.verify.packed_rows import PackedRun
from antecede.pipeline.verify.spooled_run import (
    SPOOL_SCHEMA,
    SpooledRun,
    encode_kinds,
)
from antecede.trace.event import Kind
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import grow, process_indexes

__all__ = [
    "RESTART",
    "EventLoader",
    "ProcessNames",
    "load_events",
    "repeated_event",
    "repeated_step",
]

RESTART = "restart"
"""The kind of a row that stands for the restart of a node."""

OUT_OF_ORDER = -2
NONE = -1
SEQ_MIN = np.iinfo(np.int64).min


class ProcessNames:
    """Numbers the processes of a run by their names; integers stay as they are."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Number these names first, in their order."""
        self.numbers = {name: number for number, name in enumerate(names)}

    def names(self) -> dict[int, str]:
        """Return by number the name of each process that has one."""
        return {number: name for name, number in self.numbers.items()}

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the numbers of a column of processes; null stays null."""
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        known = self.numbers
        found = [known.setdefault(n, len(known)) for n in column.dictionary.to_pylist()]
        return pa.array(found, pa.int64()).take(column.indices)

    def encode_lists(self, column: pa.Array) -> pa.Array:
        """Return the numbers of a column of lists of processes."""
        if pa.types.is_integer(column.type.value_type):
            return column.cast(SPOOL_SCHEMA.field("targets").type)
        column = pa.concat_arrays([column.cast(pa.list_(pa.string()))])
        return pa.ListArray.from_arrays(
            column.offsets.cast(pa.int32()),
            self.encode(column.values),
            mask=column.is_null() if column.null_count else None,
        )


def load_events(packed: PackedRun, run: SpooledRun) -> ProcessNames:
    """Load the rows of a run in their order, by ``step`` or, if unknown, by ``time``.

    Raises:
        TraceError: A needed value is null, a kind is unknown, or an event is there twice.
    """
    names = ProcessNames()
    loader = EventLoader(names, run.location)
    if packed.in_order:
        for table in packed.tables():
            run.add(loader.convert(table.combine_chunks()))
    else:
        table = packed.table()
        for name in ("process", "source"):
            # The numbers of the processes do not depend on the order of the blobs.
            if not pa.types.is_integer(table[name].type):
                names.encode(pc.unique(table[name]).drop_null().sort())
        run.add(loader.convert(_sorted(table, names, run)))
    run.finish()
    if loader.has_seq:
        _check_unique(run, names)
    return names


def _sorted(table: pa.Table, names: ProcessNames, run: SpooledRun) -> pa.Table:
    has_steps = "step" in table.schema.names and not table["step"].null_count
    has_seq = "seq" in table.schema.names
    if not has_steps and not has_seq:
        _reject_nulls(run.location, "step", table["step"].null_count)
    for name in ("process", *(("seq",) if has_seq else ())):
        _reject_nulls(run.location, name, table[name].null_count)
    process = names.encode(table["process"].combine_chunks()).to_numpy()
    keys = [process]
    if has_seq:
        keys.insert(0, table["seq"].cast(pa.int64()).to_numpy())
    if has_steps:
        keys.append(table["step"].cast(pa.int64()).to_numpy())
    elif "time" in table.schema.names:
        keys.append(_seconds(table["time"].combine_chunks()).to_numpy())
    order = np.lexsort(keys)
    if not has_seq and np.any(np.diff(keys[-1][order]) == 0):
        twice = keys[-1][order][np.flatnonzero(np.diff(keys[-1][order]) == 0)[0]]
        raise repeated_step(run.location, twice)
    return table.take(pa.array(order)).combine_chunks()


class EventLoader:
    """Converts tables of events to :data:`SPOOL_SCHEMA`."""

    has_seq: bool
    """Whether the rows have a seq; otherwise it is counted from 0."""

    def __init__(self, names: ProcessNames, location: str) -> None:
        """Number the processes by ``names``; errors begin with ``location``."""
        self._names = names
        self._location = location
        self._next_seq: Longs = np.zeros(0, np.int64)
        self._processes = SlotMap()
        self.has_seq = True

    def convert(self, table: pa.Table) -> pa.Table:
        """Return the rows for the verifier; raise TraceError on an invalid value."""
        columns = {name: _array(table, name) for name in table.schema.names}
        for name in ("process", "kind", "seq"):
            if name in columns:
                _reject_nulls(self._location, name, columns[name].null_count)
        kind = columns["kind"]
        if pa.types.is_dictionary(kind.type):
            kind = encode_kinds(kind.dictionary).take(kind.indices)
        else:
            kind = encode_kinds(kind)
        if kind.null_count:
            self._reject_kind(columns, kind)
        process = self._names.encode(columns["process"])
        rows = table.num_rows
        self.has_seq = "seq" in columns
        found = {
            "process": process,
            "seq": columns["seq"].cast(pa.int64()) if self.has_seq else self._seq(process),
            "time": _seconds(columns.get("time", pa.nulls(rows, pa.float64()))),
            "kind": kind,
            "source": self._names.encode(columns["source"]),
            "number": columns["number"].cast(pa.int64()),
            "targets": self._names.encode_lists(columns["targets"])
            if "targets" in columns
            else pa.nulls(rows, SPOOL_SCHEMA.field("targets").type),
        }
        return pa.table([found[name] for name in SPOOL_SCHEMA.names], schema=SPOOL_SCHEMA)

    def _seq(self, process: pa.Array) -> pa.Array:
        """Number the events of each process, in the order of the rows."""
        index = process_indexes(process, self._processes)
        self._next_seq = grow(self._next_seq, len(self._processes), 0)
        return pa.array(_number_events(index, self._next_seq))

    def _reject_kind(self, columns: dict[str, pa.Array], kinds: pa.Array) -> NoReturn:
        row = kinds.is_null().index(True).as_py()
        wrong = columns["kind"][row].as_py()
        if wrong == RESTART:
            raise TraceError(
                f"{self._location}: {columns['process'][row]} was restarted, and the run"
                " cannot be followed any longer: merge the traces at its end, and verify"
                " the result"
            )
        known = ", ".join(kind.value for kind in Kind)
        raise TraceError(
            f"{self._location}: unknown kind of event: {wrong!r}; kinds are {known}"
        )


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _reject_nulls(location: str, name: str, count: int) -> None:
    if count:
        raise TraceError(
            f"{location}: column {name!r} is null in some rows: remove them, for"
            f" example with df.dropna(subset=[{name!r}])"
        )


def _seconds(column: pa.Array) -> pa.Array:
    """Return times in seconds; NaN where a time is null."""
    if pa.types.is_timestamp(column.type):
        column = pc.divide(
            column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).cast("double"),
            1e6,
        )
    return column.cast(pa.float64()).fill_null(float("nan"))


def _check_unique(run: SpooledRun, names: ProcessNames) -> None:
    """Raise TraceError if two rows have the same process and seq."""
    processes = SlotMap()
    last: Longs = np.zeros(0, np.int64)
    found = NONE
    pair = (0, 0)
    for _, batch in run.numbered_batches(("process", "seq")):
        index = process_indexes(batch.column("process"), processes)
        last = grow(last, len(processes), SEQ_MIN)
        seq = np.array(batch.column("seq").to_numpy())
        found = _find_repeated(index, seq, last)
        if found != NONE:
            pair = (batch.column("process")[found].as_py(), int(seq[found]))
            break
    if found == OUT_OF_ORDER:
        process, seq = run.columns("process", "seq")
        order = np.lexsort((seq, process))
        same = (np.diff(process[order]) == 0) & (np.diff(seq[order]) == 0)
        if not np.any(same):
            return
        row = order[np.flatnonzero(same)[0]]
        pair = (int(process[row]), int(seq[row]))
    elif found == NONE:
        return
    raise repeated_event(run.location, names.names().get(pair[0], str(pair[0])), pair[1])


def repeated_event(location: str, process: str, seq: int) -> TraceError:
    """Return the error of a run in which two rows are the same event of a process."""
    return TraceError(
        f"{location}: two rows have process {process} and seq {seq}: remove the"
        " duplicates, for example with df.dropDuplicates(['run', 'process', 'seq'])"
    )


def repeated_step(location: str, step: int) -> TraceError:
    """Return the error of a run in which two rows have the same step."""
    return TraceError(
        f"{location}: two rows have step {step}: remove the duplicates, for"
        " example with df.dropDuplicates(['run', 'step'])"
    )


@compiled
def _find_repeated(process: Ints, seq: Longs, last: Longs) -> int:
    """Return the first row that repeats the last seq of its process, NONE if none does.

    Return OUT_OF_ORDER at a row that is before the last one of its process.
    """
    for i in range(process.size):
        before = last[process[i]]
        if seq[i] == before:
            return i
        if seq[i] < before:
            return OUT_OF_ORDER
        last[process[i]] = seq[i]
    return NONE


@compiled
def _number_events(process: Ints, next_seq: Longs) -> Longs:
    """Return the position of each row among the rows of its process."""
    seq = np.empty(process.size, np.int64)
    for i in range(process.size):
        seq[i] = next_seq[process[i]]
        next_seq[process[i]] += 1
    return seq
