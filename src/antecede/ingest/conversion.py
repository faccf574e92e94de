"""Turn foreign traces into traces of our own, and judge them.

:func:`ingest` reads files of one run, or of several, and writes for each a directory that
:func:`antecede.trace.reader.read_trace` opens; everything that reads our traces then reads
this one. What the files lack is written there, too (``holes`` of ``run.json``), so that the
verdict on the directory is the verdict on the files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import ConfigError
from antecede.ingest.diagnostics import Findings
from antecede.ingest.event_table import Draft, Written, write_draft
from antecede.ingest.formats.records import CLOCKED, SPANS, Options
from antecede.ingest.formats.registry import Format, find_format, format_named, read_file
from antecede.ingest.inference.clocks import ClockedLog, draft_clocked
from antecede.ingest.inference.pairs import PairLog, draft_pairs
from antecede.ingest.inference.spans import SpanLog, draft_spans
from antecede.trace.reader import RunInfo

__all__ = ["Ingested", "ingest"]

Log = ClockedLog | SpanLog | PairLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """One run of foreign files, and its trace."""

    run: str
    findings: Findings
    written: Written
    """Where the trace is, and where in the files each message comes from."""

    @property
    def directory(self) -> Path:
        """Where the trace is."""
        return self.written.directory


def ingest(
    paths: Sequence[str | Path],
    directory: str | Path,
    *,
    format_name: str | None = None,
    options: Options | None = None,
    report: Callable[[int], None] | None = None,
) -> list[Ingested]:
    """Read files that belong together, and write the trace of each run in them.

    One run is written to the directory itself, several to directories in it that are named
    after them.

    Args:
        paths: The files; together they hold one run, or the same runs.
        directory: Where to write; it must not hold a trace yet.
        format_name: The name of the format, None to find it out.
        options: What is known of the files.
        report: Is called with the number of records in each batch that was read.

    Raises:
        ConfigError: A file cannot be read at all, holds nothing, or what it says cannot
            have happened: messages go round in a circle.
    """
    options = options if options is not None else Options()
    for path in paths:
        if not Path(path).is_file():
            raise ConfigError(f"{path}: no such file")
    found = (
        find_format(paths[0], options) if format_name is None else format_named(format_name)
    )
    logs: dict[str | None, Log] = {}
    for path in paths:
        for batch in read_file(path, found, options):
            if report is not None:
                report(batch.num_rows)
            for run, part in _runs(batch):
                if run not in logs:
                    logs[run] = _new_log(found)
                logs[run].add(str(path), part)
    if None in logs and len(logs) > 1 and not logs[None].read:
        _move_unread(logs)
    written: list[Ingested] = []
    for run, log in logs.items():
        name = Path(paths[0]).name if run is None else run
        where = Path(directory)
        if len(logs) > 1:
            where /= _safe(name, len(written))
        written.append(_write(log, name, where, found))
    if not written:
        raise ConfigError(f"{paths[0]} holds no records: there is nothing to judge")
    return written


def _new_log(found: Format) -> Log:
    if found.schema is CLOCKED:
        return ClockedLog(found.name)
    return SpanLog(found.name) if found.schema is SPANS else PairLog(found.name)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Take a batch apart by run."""
    runs = batch.column("run")
    if runs.null_count == len(runs):
        yield None, batch
        return
    for run in runs.unique().to_pylist():
        chosen = pc.is_null(runs) if run is None else pc.equal(runs, run)
        yield run, batch.filter(chosen.fill_null(False))


def _write(log: Log, name: str, where: Path, found: Format) -> Ingested:
    if not log.read:
        first = log.holes.findings()[0]
        raise ConfigError(f"{log.files[0]}: nothing in it can be judged: {first}")
    draft, findings = _draft(log)
    present = set(np.unique(draft.process).tolist())
    zero = None if draft.time_ns is None else int(draft.time_ns.min())
    info = RunInfo(
        run=name,
        processes=findings.processes,
        names={
            process: each for process, each in enumerate(draft.names) if process in present
        },
        holes=findings.unknown_reasons,
        parameters={
            "format": found.name,
            "files": list(findings.files),
            "records": findings.records,
            "unknown": findings.unknown,
            "time_zero_ns": zero,
        },
    )
    written = write_draft(draft, where, info)
    return Ingested(run=name, findings=findings, written=written)


def _draft(log: Log) -> tuple[Draft, Findings]:
    if isinstance(log, ClockedLog):
        return draft_clocked(log)
    return draft_spans(log) if isinstance(log, SpanLog) else draft_pairs(log)


def _move_unread(logs: dict[str | None, Log]) -> None:
    """Count lines that stand before the first run to that run: they are of no other."""
    before = logs.pop(None)
    first = next(iter(logs.values()))
    assert isinstance(before, ClockedLog)
    assert isinstance(first, ClockedLog)
    first.take_unread(before)


def _safe(name: str, place: int) -> str:
    """Return a name for a directory: what is no letter, digit, dot or dash is left out."""
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".-")
    return f"{place:03}-{kept}" if kept else f"{place:03}"
