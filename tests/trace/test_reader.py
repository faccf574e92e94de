"""A trace is read from its directory, or refused with one line."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import TraceError
from antecede.trace import Event, Kind
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table

EVENTS = [
    event
    for number in range(1, 51)
    for event in (
        Event(process=0, kind=Kind.SEND, source=0, number=number, targets=(1,)),
        Event(process=1, kind=Kind.DELIVER, source=0, number=number, target=1),
    )
]
INFO = RunInfo(run="mine", protocol="hybrid", seed=3, complete=True, processes=2)


def write(
    directory: Path, table: pa.Table | None = None, info: RunInfo | None = INFO
) -> Path:
    directory.mkdir(exist_ok=True)
    if table is None:
        table = events_to_table(EVENTS, "mine")
    pq.write_table(table, directory / "events.parquet", row_group_size=17)
    if info is not None:
        (directory / "run.json").write_text(info.to_json(), encoding="utf-8")
    return directory


def refusal(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        list(read_trace(path).events())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_column(name: str, values: pa.Array) -> pa.Table:
    table = events_to_table(EVENTS, "mine")
    return table.set_column(table.schema.get_field_index(name), name, values)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path))
    assert trace.info == INFO
    assert trace.rows == 100
    assert list(trace.events()) == EVENTS


def test_parts_follow_each_other_by_name(tmp_path: Path) -> None:
    parts = tmp_path / "events.parquet"
    parts.mkdir()
    table = events_to_table(EVENTS, "mine")
    for name in ["b", "c", "a"]:
        start = {"a": 0, "b": 40, "c": 70}[name]
        end = {"a": 40, "b": 70, "c": 100}[name]
        pq.write_table(table.slice(start, end - start), parts / f"part-{name}.parquet")
    (parts / "_SUCCESS").touch()
    (parts / ".part-a.parquet.crc").touch()
    trace = read_trace(str(tmp_path))
    assert trace.rows == 100
    assert list(trace.events()) == EVENTS


def test_batches_are_bounded_and_the_same_in_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.trace.row_groups.BATCH_ROWS_MAX", 5)
    trace = read_trace(write(tmp_path))
    forward = list(trace.numbered_batches())
    assert max(batch.num_rows for _, batch in forward) == 5
    assert list(trace.numbered_batches(backward=True)) == forward[::-1]
    rows = [
        numbered.first + i for numbered in forward for i in range(numbered.batch.num_rows)
    ]
    assert rows == list(range(100))
    assert [batch.num_rows for batch in trace.batches()] == [b.num_rows for _, b in forward]
    some = list(trace.numbered_batches(["number", "kind"], first=33, last=51))
    assert some[0].first <= 33 < some[0].first + 5
    assert some[-1].first <= 51 < some[-1].first + 5
    assert some[0].batch.schema.names == ["kind", "number"]


def test_without_run_json_the_directory_names_the_run(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "foreign", info=None))
    assert trace.info == RunInfo(run="foreign")
    assert not trace.info.complete


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "no such directory" in refusal(tmp_path / "nowhere")
    assert "has no events.parquet" in refusal(tmp_path)
    (tmp_path / "events.parquet").mkdir()
    assert "has no parts" in refusal(tmp_path)
    write(tmp_path / "run")
    assert "pass the directory" in refusal(tmp_path / "run" / "events.parquet")


def test_an_unfinished_trace_is_refused(tmp_path: Path) -> None:
    for partial in ("events.parquet.partial", "run.json.partial"):
        directory = write(tmp_path / f"with {partial}")
        (directory / partial).touch()
        assert "has an unfinished" in refusal(directory)
    directory = tmp_path / "part"
    (directory / "events.parquet").mkdir(parents=True)
    pq.write_table(
        events_to_table(EVENTS, "mine"), directory / "events.parquet" / "a.parquet"
    )
    (directory / "events.parquet" / "b.parquet.partial").touch()
    assert "has an unfinished" in refusal(directory)


def test_a_truncated_file_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = (write(tmp_path) / "events.parquet").read_bytes()
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "events.parquet").write_bytes(whole[:length])
        assert "is truncated, or is not a Parquet file" in refusal(tmp_path)
    (tmp_path / "events.parquet").write_text("run,process,seq\n" * 10)
    assert "is truncated, or is not a Parquet file" in refusal(tmp_path)


def test_damage_inside_a_file_is_refused(tmp_path: Path) -> None:
    whole = bytearray((write(tmp_path) / "events.parquet").read_bytes())
    whole[4:1000] = bytes(996)
    (tmp_path / "events.parquet").write_bytes(whole)
    assert "damaged" in refusal(tmp_path)


def test_a_column_that_differs_from_the_schema_is_named(tmp_path: Path) -> None:
    write(tmp_path, events_to_table(EVENTS, "mine").drop_columns(["number"]))
    assert "must have one column 'number'" in refusal(tmp_path)
    write(tmp_path, with_column("number", pa.array(["x"] * 100)))
    assert "column 'number' has type string, expected int64" in refusal(tmp_path)
    write(tmp_path, with_column("targets", pa.array([[1.5]] * 100)))
    assert "column 'targets' has type list<element: double>" in refusal(tmp_path)
    write(tmp_path, with_column("kind", pa.array(["send", "teleport"] * 50)))
    assert "unknown kind of event: 'teleport'" in refusal(tmp_path)
    write(tmp_path, with_column("process", pa.array([None] * 100, pa.int32())))
    assert "column 'process' must not contain nulls" in refusal(tmp_path)
    write(tmp_path, with_column("run", pa.array(["one", "two"] * 50)))
    assert "'one' and 'two'" in refusal(tmp_path)


def test_other_encodings_of_the_same_columns_are_read(tmp_path: Path) -> None:
    table = events_to_table(EVENTS, "mine")
    for name, form in {
        "run": pa.large_string(),
        "kind": pa.dictionary(pa.int32(), pa.string()),
        "targets": pa.large_list(pa.int32()),
    }.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(form))
    table = table.append_column("note", pa.array(["extra"] * 100))
    assert list(read_trace(write(tmp_path, table)).events()) == EVENTS


def test_events_of_a_history_out_of_order_are_refused(tmp_path: Path) -> None:
    write(tmp_path, with_column("seq", pa.array(range(100, 0, -1), pa.int64())))
    assert "order of seq" in refusal(tmp_path)


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, events_to_table([], "mine")))
    assert trace.rows == 0
    assert list(trace.events()) == []


def test_run_info_survives_a_round_trip() -> None:
    full = RunInfo(
        run="r",
        protocol="cykas",
        seed=0,
        complete=True,
        processes=9,
        command="antecede simulate",
        parameters={"loss": 0.5},
        names={3: "the server", 5: "the client"},
        more={"host": "a"},
    )
    assert RunInfo.from_json(full.to_json()) == full
    assert json.loads(full.to_json())["host"] == "a"
    assert RunInfo.from_json('{"run": "r"}') == RunInfo(run="r")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "key 'run'"),
        ("{}", "key 'run'"),
        ('{"run": 5}', "the value of 'run' has the wrong type: 5"),
        ('{"run": "r", "seed": "x"}', "the value of 'seed' has the wrong type: 'x'"),
        ('{"run": "r", "seed": true}', "the value of 'seed' has the wrong type: True"),
        ('{"run": "r", "complete": 1}', "the value of 'complete' has the wrong type: 1"),
        ('{"run": "r", "names": {"x": "y"}}', "'names'"),
    ],
)
def test_an_invalid_run_json_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "run.json").write_text(text)
    assert reason in refusal(tmp_path)
    assert "run.json" in refusal(tmp_path)


def test_a_trace_can_be_read_twice(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path))
    assert isinstance(trace, Trace)
    assert list(trace.events()) == list(trace.events())


def test_a_file_is_opened_once_and_closed_afterwards(tmp_path: Path) -> None:
    """Opening it reads its footer, which grows with the number of row groups."""
    trace = read_trace(write(tmp_path / "run"))
    path = tmp_path / "run" / "events.parquet"

    def is_open() -> bool:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return str(path) in {os.readlink(link) for link in links if os.path.islink(link)}

    assert not is_open()
    batches = trace.batches()
    next(batches)
    assert is_open()
    moved = path.rename(tmp_path / "moved")  # Opening it again would fail.
    assert sum(batch.num_rows for batch in batches) == 100 - 17
    moved.rename(path)
    assert not is_open()
    batches = trace.batches()
    next(batches)
    assert is_open()
    del batches
    assert not is_open()


def test_a_read_callback_gets_the_rows_of_each_batch(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "run"))
    read: list[int] = []
    assert len(list(trace.with_read_callback(read.append).batches())) == 6
    assert read == [17, 17, 17, 17, 17, 15]
    list(trace.batches())
    assert len(read) == 6
