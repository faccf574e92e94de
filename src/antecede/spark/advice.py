"""Recommend a protocol for the traffic in a DataFrame."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.advise.advise import Advice, AdviceOptions, prepare
from antecede.advise.advise import advise as replay_and_recommend
from antecede.advise.table import lines
from antecede.advise.traffic import extract_traffic
from antecede.errors import ConfigError
from antecede.ingest.conversion import infer_run, new_log
from antecede.ingest.event_table import write_event_table
from antecede.pipeline.spark.jobs import described, explained
from antecede.pipeline.spark.progress import OnProgress
from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.record_rows import to_records
from antecede.pipeline.verify.table_columns import Rows, select_columns
from antecede.pipeline.verify.table_run import SCHEMAS
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["AdviceResult", "advise"]

MESSAGES_MAX = 20_000
"""Two cores replay these under all unicast protocols in about two minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceResult:
    """A recommendation, and the measured costs; from :func:`advise`."""

    advice: Advice
    costs: "DataFrame"
    """One row per network and protocol, with the measured costs."""

    @property
    def protocol(self) -> str | None:
        """The recommended protocol; None if none preserved causal order."""
        found = self.advice.recommendation
        return None if found is None else found.protocol

    def __str__(self) -> str:
        return "\n".join(lines(self.advice, "table"))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def advise(
    df: "DataFrame",
    *,
    columns: "Mapping[str, str | Column] | None" = None,
    rows: Rows | None = None,
    delay: str | None = None,
    loss: float = 0.0,
    protocols: tuple[str, ...] | None = None,
    messages_max: int = MESSAGES_MAX,
    out: "str | PathLike[str] | None" = None,
    on_progress: OnProgress | None = None,
) -> AdviceResult:
    """Replay the traffic of one run under every protocol now, and recommend one.

    The rows of the run are collected in this program, and the replays run on Spark.

    Args:
        df: The table of one run: events, messages or spans.
        columns: As for :func:`antecede.spark.verify`.
        rows: As for :func:`antecede.spark.verify`.
        delay: The network delay, as for ``antecede simulate``; None to estimate it.
        loss: The probability that a frame is lost.
        protocols: The protocols to try; None for all that support the traffic.
        messages_max: The most messages to replay. Of a run with more, windows are replayed
            that are spread over the whole run.
        out: A directory for the replays, on storage that all workers reach. By default a
            temporary directory of this machine, which suits local Spark.
        on_progress: Is called periodically.

    Raises:
        ConfigError: A column or an option is invalid, or there are several runs.
        TraceError: The rows are not a run.
    """
    spark = df.sparkSession
    options = AdviceOptions(delay=delay, loss=loss, protocols=protocols)
    with ExitStack() as stack:
        stack.enter_context(described(spark, "antecede: replay the traffic of a table"))
        stack.enter_context(explained())
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="antecede-"))
        recording = Path(temporary) / "recording"
        _write_recording(df, columns or {}, rows, recording)
        traffic = extract_traffic(read_trace(recording), messages_max=messages_max)
        directory = Path(temporary) / "replays" if out is None else Path(out).absolute()
        plan = prepare(traffic, directory, options)
        advice = replay_and_recommend(spark, plan, on_progress=on_progress)
    found = [
        {"condition": phrase, **asdict(cost)}
        for phrase, costs in advice.costs.items()
        for cost in costs
    ]
    return AdviceResult(advice=advice, costs=spark.createDataFrame(found, _COSTS))


_COSTS = (
    "condition string, protocol string, network string, causal boolean,"
    " held boolean, runs long, copies long, latency_p50 double,"
    " latency_p99 double, added_p50 double, added_p99 double, metadata_bytes double,"
    " metadata_total double, control_frames double, sender_buffer double,"
    " receiver_buffer double, too_early long, too_early_fifo long, duration double"
)
"""The schema of the table of costs: the fields of ProtocolCost, and the condition."""


def _write_recording(
    df: "DataFrame",
    columns: "Mapping[str, str | Column]",
    rows: Rows | None,
    directory: Path,
) -> None:
    """Write the rows of a table of one run as a trace."""
    kind, selected = select_columns(df, columns, rows)
    table = selected.toArrow()
    if "run" in table.schema.names:
        names = table["run"].unique().to_pylist()
        if len(names) > 1:
            raise ConfigError(
                f"the table has {len(names)} runs, such as {names[0]!r} and {names[1]!r}:"
                " pass the rows of one, for example df.where(\"run = '...'\")"
            )
    if not table.num_rows:
        raise ConfigError("the table has no rows")
    if kind == "events":
        _write_events(table, directory)
        return
    schema = SCHEMAS[kind]
    log = new_log(kind, schema)
    for batch in to_records(table, schema)[0].to_batches():
        log.add("table", batch)
    events, _, info = infer_run(log, "table", schema)
    write_event_table(events, directory, info)


def _write_events(table: pa.Table, directory: Path) -> None:
    names = ProcessNames()
    columns = {name: table[name].combine_chunks() for name in table.schema.names}
    for name in ("process", "source", "target"):
        if name in columns:
            columns[name] = names.encode(columns[name])
    if "targets" in columns:
        columns["targets"] = names.encode_lists(columns["targets"])
    columns["run"] = pa.repeat(pa.scalar("table"), table.num_rows)
    if "seq" not in columns:
        columns["seq"] = columns["step"]
    columns.setdefault("time", pa.repeat(pa.scalar(0.0), table.num_rows))
    rows = pa.table(
        [
            columns.get(field.name, pa.nulls(table.num_rows, field.type)).cast(field.type)
            for field in SCHEMA
        ],
        schema=SCHEMA,
    )
    has_steps = not rows["step"].null_count
    keys = ["step"] if has_steps else ["time", "process", "seq"]
    rows = rows.sort_by([(key, "ascending") for key in keys])
    directory.mkdir(parents=True)
    pq.write_table(rows, directory / EVENTS_NAME)
    processes = 1 + int(np.max(rows["process"].to_numpy()))
    info = RunInfo(run="table", processes=processes, names=names.names())
    (directory / INFO_NAME).write_text(info.to_json(), encoding="utf-8")
