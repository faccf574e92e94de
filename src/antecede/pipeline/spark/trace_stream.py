"""Read the growing traces of live nodes as a stream: every flushed row once.

``spark.readStream.format("antecede.nodes").load(path)`` reads the traces in one or several
directories, each of which is the trace of a node or contains such traces; new traces in it
are found while the query runs. Processes have their names instead of the ids of each node,
as in :mod:`antecede.merge.follower`.

The offset of the stream, which Spark stores in the checkpoint of a query, has the number of
rows of every trace. A row keeps its number, so a query that is started again reads exactly
the rows after its last offset, and reads a batch that was not committed once more as the
same rows. A process has its name without the history if that is its first one; the offset
has these histories, so that a process has the same name in every batch.

A node that is restarted with its journal may have lost events at the end of its first
trace. The run of such a node cannot be verified any longer: no more of its rows are read,
and one row has the kind :data:`antecede.pipeline.verify.event_rows.RESTART` instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.spark.source_paths import option_paths, to_local
from antecede.pipeline.verify.event_rows import RESTART
from antecede.trace.live.layout import NODE
from antecede.trace.live.names import base_name
from antecede.trace.live.reader import find_node_traces, read_info
from antecede.trace.live.row_ranges import count_rows, read_rows
from antecede.trace.run_info import RunInfo

__all__ = ["NODE_EVENTS", "NodeTraceSource", "NodeTraceStreamReader"]

NODE_EVENTS: pa.Schema = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),
        ("seq", pa.int64()),
        ("time", pa.float64()),
        ("kind", pa.string()),
        ("source", pa.string()),
        ("number", pa.int64()),
        ("targets", pa.list_(pa.string())),
    ]
)
"""The columns of the stream."""

PARTITION_ROWS = 1 << 17
"""The traces of many nodes are read by one task if they have few new rows."""
Offset = dict[str, Any]
"""``traces``: by path, the ``run`` and the number of ``rows``; ``histories``: by run and
name without a history, the full name that it stands for; ``restarts``: by run, the name of
a node that was restarted."""


class _Rows(NamedTuple):
    """Rows of one trace."""

    path: str
    run: str
    first: int
    end: int
    histories: dict[str, str]
    """By name without a history, the name that it stands for."""


class _RowsPartition(InputPartition):
    def __init__(self) -> None:
        self.rows: list[_Rows] = []
        self.restarts: dict[str, str] = {}
        """By run, the name of a node that was restarted."""
        self.count = 0
        """The number of rows."""


class NodeTraceSource(DataSource):
    """The source ``antecede.nodes``."""

    @classmethod
    def name(cls) -> str:
        return "antecede.nodes"

    def schema(self) -> StructType:
        return from_arrow_schema(NODE_EVENTS)

    def reader(self, schema: StructType) -> DataSourceReader:
        raise ConfigError(
            "antecede.nodes is a stream: use spark.readStream; to verify the traces of"
            " nodes that have ended, merge them with antecede merge"
        )

    def streamReader(self, schema: StructType) -> "NodeTraceStreamReader":
        paths = [Path(to_local(path)) for path in option_paths(self.options, ())]
        for path in paths:
            if not path.is_dir():
                raise TraceError(f"no such directory: {path}: create it, then read it")
        return NodeTraceStreamReader(paths)


class NodeTraceStreamReader(DataSourceStreamReader):
    """Reads every flushed row of the traces in some directories once."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._parts: dict[str, dict[int, int]] = {}
        """By trace, the numbers of rows of its parts."""

    def initialOffset(self) -> Offset:
        """Return the offset of a new query: no row has been read."""
        return {"traces": {}, "histories": {}, "restarts": {}}

    def latestOffset(self) -> Offset:  # type: ignore[override]
        """Return the numbers of rows that are flushed now.

        Without parameters, the method fits every version of Spark from 4.0 on.
        """
        infos = self._read_infos()
        rows = {
            path: count_rows(Path(path), self._parts.setdefault(path, {})) for path in infos
        }
        # The rows may have effects of a restart since the first look.
        restarts = _restarts(self._read_infos())
        runs = {info.run for info in infos.values()} - set(restarts)
        return {
            "traces": {
                path: {"run": info.run, "rows": rows[path]}
                for path, info in infos.items()
                if info.run in runs
            },
            "histories": {run: _histories(run, infos) for run in sorted(runs)},
            "restarts": restarts,
        }

    def _read_infos(self) -> dict[str, RunInfo]:
        """Return the contents of ``run.json`` of each trace, by its path."""
        infos = {}
        for path in sorted(find_node_traces(self._paths)):
            try:
                info = read_info(path)
            except TraceError:
                continue  # It is no trace yet.
            if info.more.get("kind") != NODE:
                raise TraceError(
                    f"{path} is not the trace of a node: read its events.parquet with"
                    " spark.readStream.parquet"
                )
            infos[str(path)] = info
        return infos

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return partitions of about :data:`PARTITION_ROWS` rows; runs in the driver.

        Raises:
            TraceError: A trace was removed or replaced.
        """
        found = [_RowsPartition()]
        for path, trace in end["traces"].items():
            first = start["traces"].get(path, {"rows": 0})["rows"]
            if first > trace["rows"] or trace["run"] in start["restarts"]:
                raise TraceError(
                    f"{path}: {first} rows were read, and the trace has {trace['rows']}: do"
                    " not remove or replace a trace that is read"
                )
            if first < trace["rows"]:
                histories = end["histories"][trace["run"]]
                if found[-1].count >= PARTITION_ROWS:
                    found.append(_RowsPartition())
                rows = _Rows(path, trace["run"], first, trace["rows"], histories)
                found[-1].rows.append(rows)
                found[-1].count += trace["rows"] - first
        for run, name in end["restarts"].items():
            if run not in start["restarts"]:
                found[0].restarts[run] = name
        return list(found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs in a worker."""
        assert isinstance(partition, _RowsPartition)
        for rows in partition.rows:
            yield from _read(rows)
        for run, name in partition.restarts.items():
            row = {"run": run, "process": name, "seq": 0, "kind": RESTART}
            yield pa.RecordBatch.from_pylist([row], schema=NODE_EVENTS)


def _restarts(infos: Mapping[str, RunInfo]) -> dict[str, str]:
    """Return by run the name of a node that has several traces."""
    seen: set[tuple[str, str]] = set()
    found: dict[str, str] = {}
    for info in infos.values():
        node = (info.run, str(info.more.get("name")))
        if node in seen:
            found.setdefault(*node)
        seen.add(node)
    return dict(sorted(found.items()))


def _histories(run: str, infos: Mapping[str, RunInfo]) -> dict[str, str]:
    """Return by name without a history the full name of its first node of a run."""
    own = [info.more for info in infos.values() if info.run == run]
    own.sort(key=lambda more: (float(str(more.get("started", 0))), str(more.get("name"))))
    found: dict[str, str] = {}
    for more in own:
        name = str(more.get("name"))
        found.setdefault(base_name(name), name)
    return dict(sorted(found.items()))


def _read(rows: _Rows) -> Iterator[pa.RecordBatch]:
    """Yield rows of a trace, with the names of the processes."""
    path = Path(rows.path)
    for batch in read_rows(path, rows.run, rows.first, rows.end):
        # The names are saved before the rows that use them.
        own = read_info(path).names
        names: list[str | None] = [None] * (max(own, default=-1) + 1)
        for process, name in own.items():
            base = base_name(name)
            names[process] = base if rows.histories.get(base, name) == name else name
        yield _with_names(batch, pa.array(names, pa.string()), path)


def _with_names(batch: pa.RecordBatch, names: pa.Array, path: Path) -> pa.RecordBatch:
    def named(ids: pa.Array) -> pa.Array:
        if len(ids) > ids.null_count and pc.max(ids).as_py() >= len(names):
            raise TraceError(f"{path}: process {pc.max(ids)} has no name in run.json")
        return names.take(ids)

    lists = pa.concat_arrays(
        [batch.column("targets")]
    )  # A slice has no offsets of its own.
    targets = pa.ListArray.from_arrays(
        lists.offsets, named(lists.values), mask=lists.is_null()
    )
    columns = {
        "process": named(batch.column("process")),
        "source": named(batch.column("source")),
        "targets": targets,
    }
    return pa.record_batch(
        [
            columns.get(each.name, batch.column(each.name)).cast(each.type)
            for each in NODE_EVENTS
        ],
        schema=NODE_EVENTS,
    )
