"""The tables of measures equal those of a slow pass over the events."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf, isnan, sqrt
from pathlib import Path
from statistics import mean, stdev

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StructType

from antecede.core.registry import protocol
from antecede.errors import ConfigError, StorageError
from antecede.pipeline.study.measure import spark_schema, write_measures
from antecede.pipeline.study.measure_schema import (
    COPIES_SCHEMA,
    MEASURES,
    MEASURES_SCHEMA,
    SUMMARY_SCHEMA,
)
from antecede.pipeline.study.run_measures import SAMPLED
from antecede.sim.runner import RunSummary
from antecede.sim.simulate import Scenario
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table_writer import RunTableWriter
from antecede.trace.writer import RunWriter
from tests.trace.tables import add_run, part_of, write_runs

LOSSY = Scenario(
    processes=5, messages=12, payload_bytes="uniform:0,90", loss=0.15, duplicate=0.1
)
JOBS = Scenario(
    processes=4, messages=9, workload="conversation", service_time="0.05", service_share=0.5
)
MANY = Scenario(processes=6, messages=6, workload="uniform:fan_out=3", reorder=0.2)
ALL = Scenario(processes=5, messages=6, workload="broadcast", loss=0.1)
CUT = Scenario(processes=5, messages=12, workload="uniform:fan_out=2", until_s=0.3)
SILENT = Scenario(
    processes=6, messages=12, workload="conversation", silent_members=2, silent_from_s=0.2,
    first_timeout_s=0.2, until_s=4.0,
)  # fmt: skip
QUIET = Scenario(processes=3, messages=4, delay="0", loss=0.0, probe="state:0,0.1,3+work")

STUDY: dict[str, tuple[Scenario, tuple[str, ...], tuple[int, ...]]] = {
    "lossy": (LOSSY, ("hybrid", "optimal", "tree", "unordered"), (1, 2, 3)),
    "jobs": (JOBS, ("hybrid", "matrix", "buffer"), (1,)),
    "many": (MANY, ("hybrid", "matrix", "optimal", "tree"), (5,)),
    "all": (ALL, ("vector", "flood", "pc-broadcast", "tree", "newtop", "optimal"), (6,)),
    "cut": (CUT, ("hybrid", "tree"), (7,)),
    "silent": (SILENT, ("hybrid", "bounded"), (4,)),
    "quiet": (QUIET, ("unordered",), (8, 9)),
}
CELLS = pa.schema(
    [
        *[pa.field(name, pa.string()) for name in ("cell", "grid", "protocol")],
        *[pa.field(name, pa.string()) for name in ("workload", "network")],
        *[pa.field(name, pa.int32()) for name in ("processes", "messages")],
        pa.field("seed", pa.int64()),
        *[pa.field(name, pa.string()) for name in ("group", "comparable")],
    ]
)
Key = tuple[int, int, int]
"""A copy: its source, its number, its target."""


@dataclass
class CopyTimes:
    """The times and sizes of a copy, from a pass over the events."""

    sent: float
    broadcast: bool
    released: float | None = None
    arrived: float | None = None
    delivered: float | None = None
    payload_bytes: int | None = None
    metadata_bytes: int | None = None

    @property
    def waits(self) -> dict[str, float | None]:
        return {
            "sender_wait": less(self.released, self.sent),
            "wire": less(self.arrived, self.released),
            "receiver_wait": less(self.delivered, self.arrived),
            "latency": less(self.delivered, self.sent),
        }


@dataclass
class Tables:
    """A measured study."""

    directory: Path
    outcomes: dict[str, RunSummary] = field(default_factory=dict)
    cells: dict[str, dict[str, object]] = field(default_factory=dict)
    copies: dict[str, dict[Key, CopyTimes]] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    measures: dict[str, dict[str, float | None]] = field(default_factory=dict)


def less(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def add_cell(study: Tables, name: str, scenario: Scenario) -> None:
    cell = f"{name}-{scenario.protocol}-{scenario.seed}"
    study.cells[cell] = {
        "cell": cell,
        "grid": f"the grid of {name}",
        "protocol": scenario.protocol,
        "workload": name,
        "network": name,
        "processes": scenario.processes,
        "messages": scenario.messages,
        "seed": scenario.seed,
        "group": f"{name} {scenario.protocol}",
        "comparable": f"{name} {scenario.seed}",
    }
    study.outcomes[cell] = add_run(study.directory, scenario, cell)
    study.events[cell] = list(read_trace(study.directory / "events" / cell).events())
    relays = protocol(scenario.protocol).capabilities.relays
    study.copies[cell] = copies_of(study.events[cell], scenario.processes, relays)


def write_cells(study: Tables) -> None:
    table = pa.Table.from_pylist(list(study.cells.values()), schema=CELLS)
    pq.write_table(table, study.directory / "cells.parquet")


def read_measures(directory: Path) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = defaultdict(dict)
    for row in pq.read_table(directory / "measures").to_pylist():
        assert row["measure"] not in found[row["cell"]]
        found[row["cell"]][row["measure"]] = row["value"]
    return dict(found)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tables:
    """A measured study, with a failed cell and with a trace of no cell."""
    # The name contains characters of patterns.
    directory: Path = tmp_path_factory.mktemp("study") / "a [b]{c} *"
    made = Tables(directory)
    for name, (scenario, names, seeds) in STUDY.items():
        for which in names:
            for seed in seeds:
                add_cell(made, name, replace(scenario, protocol=which, seed=seed))
    made.cells["failed"] = {**made.cells["lossy-hybrid-1"], "cell": "failed", "seed": 4}
    write_cells(made)
    part = part_of(directory, "lossy-hybrid-1")
    shutil.copy(part, part.with_name(f".{part.name}.partial"))
    add_run(directory, LOSSY, "stale")
    # An attempt on a lost worker has written a run once more, together with another.
    copied = {"lossy-hybrid-1": LOSSY, "quiet-unordered-8": QUIET}
    write_runs(
        directory,
        {cell: replace(scenario, protocol=cell.split("-")[1], seed=int(cell.split("-")[2]))
         for cell, scenario in copied.items()},
    )  # fmt: skip
    write_measures(spark, directory)
    made.measures = read_measures(directory)
    return made


def copies_of(
    events: Iterable[Event], processes: int, relays: bool
) -> dict[Key, CopyTimes]:
    """Return the times and sizes of every copy."""
    copies: dict[Key, CopyTimes] = {}
    frames: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        source, number = event.source, event.number
        if event.kind is Kind.SEND:
            assert source is not None
            assert number is not None
            broadcast = event.targets is None
            for target in event.targets or range(processes):
                if target != source:
                    copy = CopyTimes(sent=event.time, broadcast=broadcast)
                    copies[source, number, target] = copy
        elif event.kind in (Kind.RELEASE, Kind.TRANSMIT) and event.process == source:
            assert source is not None
            assert number is not None
            frames[source, number].append(event)
        elif event.kind in (Kind.ARRIVE, Kind.DELIVER):
            assert source is not None
            assert number is not None
            existing = copies.get((source, number, event.process))
            if (
                existing is not None
                and event.kind is Kind.ARRIVE
                and existing.arrived is None
            ):
                existing.arrived = event.time
            if (
                existing is not None
                and event.kind is Kind.DELIVER
                and existing.delivered is None
            ):
                existing.delivered = event.time
    for (source, number, target), copy in list(copies.items()):
        if copy.broadcast and copy.delivered is None:
            del copies[source, number, target]
        for frame in frames[source, number]:
            if relays or frame.target == target:
                copy.released = frame.time
                copy.payload_bytes = frame.payload_bytes
                copy.metadata_bytes = frame.metadata_bytes
                break
    return copies


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def at_once(spans: Iterable[tuple[float | None, float | None]]) -> int:
    """Return the largest number of spans that overlap for longer than an instant."""
    whole = [(a, inf if b is None else b) for a, b in spans if a is not None]
    return max(
        (sum(start <= moment < end for start, end in whole) for moment, _ in whole),
        default=0,
    )


def check_statistics(study: Tables, cell: str, name: str, values: list[float]) -> None:
    found = {key: study.measures[cell][f"{name}_{key}"] for key in ("mean", "p50", "p99")}
    found["max"] = study.measures[cell][f"{name}_max"]
    if not values:
        assert found == dict.fromkeys(found)
        return
    assert found == {
        "mean": pytest.approx(mean(values), abs=1e-12),
        "p50": pytest.approx(percentile(values, 0.5), abs=1e-12),
        "p99": pytest.approx(percentile(values, 0.99), abs=1e-12),
        "max": max(values),
    }


# Copies.


def test_copies_equal_those_of_the_events(study: Tables) -> None:
    found: dict[str, dict[Key, dict[str, float | None]]] = defaultdict(dict)
    for row in pq.read_table(study.directory / "copies").to_pylist():
        key = (row.pop("source"), row.pop("number"), row.pop("target"))
        run = row.pop("run")
        assert key not in found[run]
        found[run][key] = row
    assert found.keys() == study.copies.keys()
    for run, copies in study.copies.items():
        assert found[run] == {
            key: {
                "sent": copy.sent,
                "released": copy.released,
                "arrived": copy.arrived,
                "delivered": copy.delivered,
                **copy.waits,
                "payload_bytes": copy.payload_bytes,
                "metadata_bytes": copy.metadata_bytes,
                "broadcast": copy.broadcast,
            }
            for key, copy in copies.items()
        }, run


def test_the_study_has_copies_in_every_state(study: Tables) -> None:
    """Otherwise the other tests would show little."""
    every = [copy for copies in study.copies.values() for copy in copies.values()]
    stages = Counter(
        (copy.released is None, copy.arrived is None, copy.delivered is None)
        for copy in every
    )
    assert stages.keys() == {
        (True, True, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    }
    assert {copy.broadcast for copy in every} == {True, False}
    kinds = {event.kind for events in study.events.values() for event in events}
    assert kinds >= {Kind.DROP, Kind.CONTROL, Kind.JOB_START, Kind.JOB_END, Kind.TRANSMIT}


# Measures of a cell.


def test_each_finished_cell_has_every_measure_once(study: Tables) -> None:
    assert study.measures.keys() == study.outcomes.keys()
    for cell, found in study.measures.items():
        assert list(found) == list(MEASURES), cell


@pytest.mark.parametrize("name", ["sender_wait", "wire", "receiver_wait", "latency"])
def test_waits(study: Tables, name: str) -> None:
    for cell, copies in study.copies.items():
        values = [copy.waits[name] for copy in copies.values()]
        there = [value for value in values if value is not None]
        check_statistics(study, cell, name, there)


def test_metadata(study: Tables) -> None:
    for cell, copies in study.copies.items():
        sizes = [copy.metadata_bytes for copy in copies.values()]
        there = [float(size) for size in sizes if size is not None]
        check_statistics(study, cell, "metadata_bytes", there)


def test_means_equal_those_of_the_simulator(study: Tables) -> None:
    """For relayed messages, the simulator counts receiver wait as wire time."""
    compared = 0
    for cell, outcome in study.outcomes.items():
        found = study.measures[cell]
        if outcome.wire_s is None or outcome.receiver_wait_s is None:
            assert not outcome.complete
            continue
        compared += 1
        assert found["sender_wait_mean"] == pytest.approx(outcome.sender_wait_s, abs=1e-9)
        wire, wait = found["wire_mean"], found["receiver_wait_mean"]
        assert wire is not None
        assert wait is not None
        assert wire + wait == pytest.approx(outcome.wire_s + outcome.receiver_wait_s)
        if not protocol(outcome.protocol).capabilities.relays:
            assert wire == pytest.approx(outcome.wire_s, abs=1e-9)
    assert compared == len(study.outcomes) - 4


def test_counts_equal_those_of_the_simulator(study: Tables) -> None:
    total: Counter[str] = Counter()
    for cell, outcome in study.outcomes.items():
        wanted = {
            "control_frames": outcome.control_frames,
            "control_bytes": outcome.control_bytes,
            "retransmissions": outcome.retransmissions,
            "relays": outcome.relays,
            "drops": outcome.dropped_frames,
            "payload_bytes_total": outcome.payload_bytes,
            "metadata_bytes_total": outcome.metadata_bytes,
        }
        assert {name: study.measures[cell][name] for name in wanted} == wanted, cell
        total.update(wanted)
        assert study.measures[cell]["copies"] == len(study.copies[cell])
        if outcome.complete:
            assert study.measures[cell]["copies"] == outcome.copies
            assert study.measures[cell]["delivered"] == outcome.copies
    assert all(total.values())


def test_execution_time_jobs_and_throughput(study: Tables) -> None:
    jobs = 0
    for cell, events in study.events.items():
        found = study.measures[cell]
        ends = [e.time for e in events if e.kind in (Kind.DELIVER, Kind.JOB_END)]
        starts = [event.time for event in events if event.kind is Kind.JOB_START]
        delivered = sum(e.kind is Kind.DELIVER and e.source != e.process for e in events)
        jobs += len(starts)
        assert found["execution_time"] == max(ends)
        assert found["delivered"] == delivered
        assert found["throughput"] == pytest.approx(delivered / max(ends))
        wanted = pytest.approx(mean(starts)) if starts else None
        assert found["job_start_mean"] == wanted
    assert jobs > 0


def test_the_share_delivered_is_that_of_the_living_after_the_crash(study: Tables) -> None:
    shares = {}
    for cell, copies in study.copies.items():
        found = study.measures[cell]["living_delivered_share"]
        if not cell.startswith("silent"):
            assert found is None
            continue
        counted = [
            copy.delivered is not None
            for (source, _, target), copy in copies.items()
            if copy.sent > 0.2 and source < 4 and target < 4
        ]
        assert 0 < len(counted) < len(copies)
        assert found is not None
        assert found == pytest.approx(mean(counted))
        shares[cell] = found
    assert shares["silent-hybrid-4"] < shares["silent-bounded-4"] == 1


def test_peaks(study: Tables) -> None:
    highest: Counter[str] = Counter()
    for cell, copies in study.copies.items():
        senders: dict[int, list[tuple[float | None, float | None]]] = defaultdict(list)
        receivers: dict[int, list[tuple[float | None, float | None]]] = defaultdict(list)
        sources: dict[int, list[tuple[float | None, float | None]]] = defaultdict(list)
        pairs: dict[Key, list[tuple[float | None, float | None]]] = defaultdict(list)
        for (source, _, target), copy in copies.items():
            senders[source].append((copy.sent, copy.released))
            receivers[target].append((copy.arrived, copy.delivered))
            sources[source].append((copy.released, copy.arrived))
            pairs[source, 0, target].append((copy.released, copy.arrived))
        wanted = {
            "in_transit_max": at_once((c.released, c.arrived) for c in copies.values()),
            "in_transit_source_max": max(map(at_once, sources.values())),
            "in_transit_pair_max": max(map(at_once, pairs.values())),
            "sender_buffer_max": max(map(at_once, senders.values())),
            "receiver_buffer_max": max(map(at_once, receivers.values())),
        }
        assert {name: study.measures[cell][name] for name in wanted} == wanted, cell
        for name, value in wanted.items():
            highest[name] = max(highest[name], value)
    assert all(value > 2 for value in highest.values())


def test_protocols_without_a_buffer_have_empty_buffers(study: Tables) -> None:
    for seed in (1, 2, 3):
        assert study.measures[f"lossy-optimal-{seed}"]["sender_buffer_max"] == 0
        assert study.measures[f"lossy-unordered-{seed}"]["receiver_buffer_max"] == 0
    assert study.measures["quiet-unordered-8"]["in_transit_max"] == 0


def test_speedups_are_relative_to_buffer_on_the_same_workload(study: Tables) -> None:
    buffer = study.measures["jobs-buffer-1"]
    assert buffer["execution_speedup"] == buffer["job_start_speedup"] == 1
    for which in ("hybrid", "matrix"):
        found = study.measures[f"jobs-{which}-1"]
        for name, time in (
            ("execution_speedup", "execution_time"),
            ("job_start_speedup", "job_start_mean"),
        ):
            ratio = (buffer[time] or 0) / (found[time] or 0)
            assert found[name] == pytest.approx(ratio)
            assert ratio != pytest.approx(1)
    assert study.measures["lossy-hybrid-1"]["execution_speedup"] is None
    assert study.measures["lossy-hybrid-1"]["job_start_speedup"] is None


def test_samples_are_averaged_over_time(study: Tables) -> None:
    names = SAMPLED
    for cell, found in study.measures.items():
        file = study.directory / "samples" / part_of(study.directory, cell).name
        table = pq.read_table(file).to_pylist() if file.exists() else []
        samples: dict[str, list[float]] = defaultdict(list)
        for row in table:
            if row["run"] == cell:
                samples[row["measure"]].append(row["value"])
        assert bool(samples) == cell.startswith("quiet")
        for name in names:
            over = max if name.endswith("_max") else mean
            wanted = pytest.approx(over(samples[name])) if samples[name] else None
            assert found[name] == wanted
        if cell.startswith("quiet"):
            assert [len(samples[name]) for name in names[-4:]] == [3, 3, 1, 1]


# Non-causal latency.

REFERENCES = {"lossy": "optimal", "jobs": "matrix", "many": "optimal", "all": "optimal"}


def targets_of(copies: dict[Key, CopyTimes], source: int, number: int) -> set[int]:
    return {target for a, b, target in copies if (a, b) == (source, number)}


def test_non_causal_latency(study: Tables) -> None:
    unmatched = 0
    for cell, copies in study.copies.items():
        name, _, rest = cell.partition("-")
        which, _, seed = rest.rpartition("-")
        if name not in REFERENCES:
            check_statistics(study, cell, "non_causal_latency", [])
            assert study.measures[cell]["non_causal_unmatched"] is None
            continue
        others = study.copies[f"{name}-{REFERENCES[name]}-{seed}"]
        values = []
        missing = 0
        for key, copy in copies.items():
            other = others.get(key)
            mine, theirs = copy.waits["latency"], other and other.waits["latency"]
            same = targets_of(copies, *key[:2]) == targets_of(others, *key[:2])
            if mine is not None and isinstance(theirs, float) and same:
                values.append(mine - theirs)
            else:
                missing += mine is not None
        check_statistics(study, cell, "non_causal_latency", values)
        assert study.measures[cell]["non_causal_unmatched"] == missing
        unmatched += missing
        if which == REFERENCES[name]:
            assert set(values) == {0.0}
        elif name == "lossy" and which == "hybrid":
            assert max(values) > 0
    assert unmatched > 0


# The summary over seeds.


def test_summary(study: Tables) -> None:
    rows = pq.read_table(study.directory / "summary").to_pylist()
    groups: dict[str, list[str]] = defaultdict(list)
    for cell in study.measures:
        groups[str(study.cells[cell]["group"])].append(cell)
    assert Counter(row["group"] for row in rows) == dict.fromkeys(groups, len(MEASURES))
    quantiles = {2: 12.706204736, 3: 4.302652730}
    for row in rows:
        cells = groups[row["group"]]
        first = study.cells[cells[0]]
        for name in ("grid", "protocol", "workload", "network", "processes", "messages"):
            assert row[name] == first[name]
        all_values = [study.measures[cell][row["measure"]] for cell in cells]
        values = [value for value in all_values if value is not None]
        assert row["seeds"] == len(values)
        if not values:
            assert row["mean"] is row["deviation"] is row["low"] is row["high"] is None
            continue
        assert row["mean"] == pytest.approx(mean(values))
        if len(values) == 1:
            assert row["deviation"] is row["low"] is row["high"] is None
            continue
        assert row["deviation"] == pytest.approx(stdev(values), abs=1e-12)
        half = quantiles[len(values)] * stdev(values) / sqrt(len(values))
        assert row["low"] == pytest.approx(mean(values) - half, rel=1e-6, abs=1e-9)
        assert row["high"] == pytest.approx(mean(values) + half, rel=1e-6, abs=1e-9)
    assert {row["seeds"] for row in rows} == {0, 1, 2, 3}


# The tables as files.


def test_spark_reads_the_schema_of_a_trace(study: Tables, spark: SparkSession) -> None:
    plain = spark.createDataFrame(
        pq.read_table(part_of(study.directory, "many-hybrid-5")).to_pandas(),
        spark_schema(),
    )
    assert plain.count() == len(study.events["many-hybrid-5"])
    copy = study.directory.parent / "copy.parquet"
    shutil.copy(part_of(study.directory, "many-hybrid-5"), copy)
    own = spark.read.parquet(str(copy)).schema
    assert own.names == spark_schema().names
    assert relaxed(own) == relaxed(spark_schema())


def relaxed(schema: StructType) -> list[tuple[str, str]]:
    """Return the schema without nullability, also inside of lists."""
    return [
        (
            each.name,
            f"list of {each.dataType.elementType.simpleString()}"
            if isinstance(each.dataType, ArrayType)
            else each.dataType.simpleString(),
        )
        for each in schema
    ]


SCHEMAS = {
    "copies": COPIES_SCHEMA,
    "measures": MEASURES_SCHEMA,
    "summary": SUMMARY_SCHEMA,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_pandas_and_duckdb_read_the_same_rows(study: Tables, name: str) -> None:
    table = pq.read_table(study.directory / name)
    assert (table.schema.names, table.schema.types) == (
        SCHEMAS[name].names,
        SCHEMAS[name].types,
    )
    frame = pd.read_parquet(study.directory / name)
    assert list(frame.columns) == SCHEMAS[name].names
    assert len(frame) == table.num_rows > 0
    copy = study.directory.parent / f"plain-{name}"  # DuckDB also expands patterns.
    shutil.copytree(study.directory / name, copy, dirs_exist_ok=True)
    with duckdb.connect() as connection:
        found = connection.read_parquet(f"{copy}/*.parquet")
        assert found.columns == SCHEMAS[name].names
        rows = found.fetchall()
    as_rows = [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(rows, key=repr) == sorted(as_rows, key=repr)
    for column in ("mean", "value", "latency"):
        if column in frame:
            assert any(not isnan(value) for value in frame[column])


def send(writer: RunWriter, number: int, targets: list[int]) -> None:
    """Record a message of process 0 that takes a second."""
    writer.observer.sent(0, number, targets, 0.0)
    for target in targets:
        writer.recorder.record(target, 1.0, 3, 0, number, target, -1, -1, None)


def write_by_hand(directory: Path) -> None:
    """Write two runs whose messages differ."""
    made = Tables(directory)
    targets = {
        "optimal": [[1, 2], [1], [1, 2]],
        "hybrid": [[1, 2], [2], [2, 3]],
    }
    for which, messages in targets.items():
        made.cells[which] = {
            **dict.fromkeys(CELLS.names, "same"),
            "cell": which,
            "protocol": which,
            "group": which,
            "processes": 4,
            "messages": 3,
            "seed": 0,
        }
        with RunTableWriter(directory) as table:
            with table.open_run(which) as writer:
                for number, named in enumerate(messages, 1):
                    send(writer, number, named)
                writer.close(RunInfo(run=which))
            table.commit()
    write_cells(made)


def test_unmatched_targets_and_measuring_again(tmp_path: Path, spark: SparkSession) -> None:
    """Tables are replaced, also after a killed attempt, and by empty ones."""
    write_by_hand(tmp_path)
    (tmp_path / ".measures.partial").mkdir()
    (tmp_path / ".measures.old").mkdir()
    write_measures(spark, tmp_path)
    assert not list(tmp_path.glob(".*"))
    found = read_measures(tmp_path)
    assert found["optimal"]["non_causal_unmatched"] == 0
    assert found["hybrid"]["non_causal_unmatched"] == 3
    assert found["hybrid"]["non_causal_latency_max"] == 0
    assert found["hybrid"]["sender_wait_mean"] is None
    assert found["hybrid"]["in_transit_max"] == 0
    shutil.rmtree(tmp_path / "events")
    write_measures(spark, tmp_path)
    for name, schema in SCHEMAS.items():
        table = pq.read_table(tmp_path / name)
        assert table.num_rows == 0
        assert table.schema.names == schema.names
    assert not list(tmp_path.glob(".*"))


def test_invalid_input_is_reported_in_one_line_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"no cells\.parquet"):
        write_measures(spark, tmp_path)
    made = Tables(tmp_path)
    add_cell(made, "one", replace(QUIET, protocol="unordered", seed=1))
    write_cells(made)
    damaged = tmp_path / "events" / f"runs-{'0' * 32}.parquet"
    damaged.write_bytes(b"no Parquet" * 10)
    (tmp_path / "measures").mkdir()
    (tmp_path / "measures" / "mark").touch()
    with pytest.raises(StorageError, match="cannot measure") as raised:
        write_measures(spark, tmp_path)
    assert "\n" not in str(raised.value)
    assert (tmp_path / "measures" / "mark").exists()
    assert not list(tmp_path.glob(".*"))
