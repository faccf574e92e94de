"""Paths and URIs, and traces in a store that cannot rename."""

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.cli.main import main
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.sim import Scenario, simulate, simulate_to
from antecede.trace.commit import ManifestCommit
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.store import open_store
from antecede.trace.uri import is_uri, local_path, redact
from antecede.trace.writer import TraceWriter
from antecede.verify.verifier import verify_trace
from tests.trace.object_store import store_without_rename

SCENARIO = Scenario(processes=3, messages=5)
S3 = "s3://KEY:se%2Fcret@bucket/runs/1?scheme=http&endpoint_override=127.0.0.1:9&region=r"


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("runs/1", Path("runs/1")),
        ("/runs/a b", Path("/runs/a b")),
        ("C:/runs", Path("C:/runs")),
        ("file:/runs/1", Path("/runs/1")),
        ("file:///runs/a%20b", Path("/runs/a b")),
        ("file://localhost/runs/1", Path("/runs/1")),
        (Path("s3:/bucket/runs"), Path("s3:/bucket/runs")),
        ("s3://bucket/runs", None),
    ],
)
def test_a_path_and_a_file_uri_are_local(where: str | Path, path: Path | None) -> None:
    assert local_path(where) == path


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_uri_gives_a_file_system_and_a_path(scheme: str) -> None:
    found = open_store(S3.replace("s3:", f"{scheme}:"))
    assert found.filesystem.type_name == "s3"
    assert (found / "events.parquet").path == "bucket/runs/1/events.parquet"
    assert found.name == "1"
    assert is_uri(S3)
    assert open_store(found) is found


def test_a_gs_uri_gives_a_file_system_and_a_path() -> None:
    found = open_store("gs://anonymous@bucket/runs")
    assert found.filesystem.type_name == "gcs"
    assert found.path == "bucket/runs"


def test_a_store_path_shows_no_credentials() -> None:
    found = open_store(S3) / "events.parquet"
    expected = (
        "s3://***@bucket/runs/1/events.parquet?scheme=***&endpoint_override=***&region=***"
    )
    assert str(found) == expected
    for text in (repr(found), str(pickle.loads(pickle.dumps(found)))):
        assert "se/cret" not in text
        assert "se%2Fcret" not in text
        assert "KEY" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no s3://a:b@c/d?e=f here", "no s3://***@c/d?e=*** here"),
        ("'s3a://k:s/l/a@b/c'", "'s3a://***@b/c'"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("https://host/x?token", "https://host/x?***"),
        ("file:/a?b=c", "file:/a?b=***"),
        ("s3://a:b@c/d?e=f: no", "s3://***@c/d?e=***: no"),
        ("a: b/c @ d", "a: b/c @ d"),
    ],
)
def test_redact_hides_user_info_and_the_values_of_a_query(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        (
            "ftp://me:secret@host/x?y=secret",
            "unknown scheme ftp: must be one of file:, s3:",
        ),
        ("s3://me:secret@bucket/x?y=secret", "is not a valid URI: unknown parameter y"),
        ("s3://me:a 'secret@bucket/x", "s3://***@bucket/x is not a valid URI"),
        ("file://host/x", "a file: URI must not name a host"),
    ],
)
def test_an_invalid_uri_is_one_line_without_credentials(uri: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(uri)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_hdfs_without_its_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("HADOOP_HOME", "/nowhere")
    with pytest.raises(StorageError, match="HDFS needs Java and libhdfs") as caught:
        open_store("hdfs://host:1/x")
    assert "\n" not in str(caught.value)


def test_a_trace_is_the_same_in_a_store_without_rename(tmp_path: Path) -> None:
    handler, bucket = store_without_rename(tmp_path)
    scenario = replace(SCENARIO, probe="state:0.01,0.01,3")
    simulate_to(bucket / "run", scenario)
    trace = read_trace(bucket / "run")
    assert tuple(trace.events()) == simulate(scenario).history
    assert verify_trace(bucket / "run").held
    assert trace.info.complete
    assert "move" not in {call for call, _ in handler.calls}
    written = [path for call, path in handler.calls if call == "write"]
    assert written[0] == "bucket/run/trace.partial"
    assert written[-1] == "bucket/run/run.json"
    assert sorted(p.name for p in (tmp_path / "bucket/run").iterdir()) == [
        "events.parquet",
        "run.json",
        "samples.parquet",
    ]
    # A copy of the directory on a local disk is a trace, too.
    assert verify_trace(tmp_path / "bucket/run").held


def test_a_trace_in_a_store_has_no_local_path(tmp_path: Path) -> None:
    _, bucket = store_without_rename(tmp_path)
    simulate_to(bucket / "run", SCENARIO)
    with pytest.raises(ConfigError, match="test://bucket/run is in a store"):
        _ = read_trace(bucket / "run").path


def test_no_prefix_of_the_writes_counts_as_a_trace(tmp_path: Path) -> None:
    """Look at the store after each step of a writer, as a killed process leaves it."""
    _, bucket = store_without_rename(tmp_path)
    run = bucket / "run"
    unfinished = "unfinished trace.partial"
    writer = TraceWriter(run, "run")
    with pytest.raises(TraceError, match=unfinished):
        read_trace(run)
    simulate_to(tmp_path / "local", SCENARIO)
    for batch in read_trace(tmp_path / "local").batches():
        writer.write_batch(batch.cast(writer._writer.schema))
    with pytest.raises(TraceError, match=unfinished):
        read_trace(run)
    whole = RunInfo(run="run").to_json()
    for length in (0, 1, len(whole) // 2, len(whole) - 2):
        (tmp_path / "bucket/run/run.json").write_text(whole[:length])
        with pytest.raises(TraceError, match=unfinished):
            read_trace(run)
    (tmp_path / "bucket/run/run.json").unlink()
    writer.close(RunInfo(run="run"))
    assert read_trace(run).rows == read_trace(tmp_path / "local").rows


def test_a_writer_removes_the_parts_of_a_killed_one(tmp_path: Path) -> None:
    _, bucket = store_without_rename(tmp_path)
    killed = TraceWriter(bucket / "run", "run")
    killed._file.flush()
    (tmp_path / "bucket/run/run.json").write_text('{"run"')
    simulate_to(bucket / "run", SCENARIO)
    assert read_trace(bucket / "run").rows > 0
    assert len(list((tmp_path / "bucket/run/events.parquet").iterdir())) == 1
    with pytest.raises(ConfigError, match="already holds a trace"):
        simulate_to(bucket / "run", SCENARIO)


def test_the_second_of_two_writers_does_not_replace_the_trace(tmp_path: Path) -> None:
    _, bucket = store_without_rename(tmp_path)
    slow = ManifestCommit(bucket / "run")
    simulate_to(bucket / "run", SCENARIO)
    before = read_trace(bucket / "run").rows
    with pytest.raises(StorageError, match="another process has written a trace there"):
        slow.finish(RunInfo(run="slow"), 0)
    slow.abandon()
    assert read_trace(bucket / "run").rows == before


@pytest.mark.parametrize("name", ["run.json", "part-", "partial"])
def test_a_store_that_fails_leaves_no_trace(name: str, tmp_path: Path) -> None:
    handler, bucket = store_without_rename(tmp_path)
    handler.fail_writes_of = name
    with pytest.raises(StorageError) as caught:
        simulate_to(bucket / "run", SCENARIO)
    assert "the store is full" in str(caught.value)
    assert str(caught.value).startswith("cannot write to test://bucket/run/")
    with pytest.raises(TraceError):
        read_trace(bucket / "run")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ("x", "'parts' is not a list of names and rows"),
        ([{"name": "x"}], "'parts' is not a list of names and rows"),
        ([{"name": "../x", "rows": 1}], "'../x' in 'parts' is not the name of a file"),
        ([{"name": "gone.parquet", "rows": 1}], "cannot read"),
    ],
)
def test_an_invalid_manifest_is_refused(parts: object, reason: str, tmp_path: Path) -> None:
    simulate_to(store_without_rename(tmp_path)[1] / "run", SCENARIO)
    path = tmp_path / "bucket/run/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parts": parts}))
    with pytest.raises(TraceError) as caught:
        read_trace(path.parent)
    assert reason in str(caught.value)


def test_a_manifest_with_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    _, bucket = store_without_rename(tmp_path)
    simulate_to(bucket / "run", SCENARIO)
    path = tmp_path / "bucket/run/run.json"
    found = json.loads(path.read_text())
    found["parts"][0]["rows"] += 1
    path.write_text(json.dumps(found))
    with pytest.raises(TraceError, match=r"run.json lists another number of rows"):
        read_trace(bucket / "run")


def test_files_that_a_manifest_does_not_list_are_not_read(tmp_path: Path) -> None:
    _, bucket = store_without_rename(tmp_path)
    simulate_to(bucket / "run", SCENARIO)
    rows = read_trace(bucket / "run").rows
    (part,) = (tmp_path / "bucket/run/events.parquet").iterdir()
    part.with_name("a-copy.parquet").write_bytes(part.read_bytes())
    assert read_trace(bucket / "run").rows == rows


def test_the_folder_of_a_delta_table_is_not_read_as_a_trace(tmp_path: Path) -> None:
    simulate_to(tmp_path / "run", SCENARIO)
    events = tmp_path / "run/events.parquet"
    part = events.rename(tmp_path / "part.parquet")
    (events / "_delta_log").mkdir(parents=True)
    part.rename(events / "part.parquet")
    with pytest.raises(TraceError, match=r"events.parquet is a Delta table"):
        read_trace(tmp_path / "run")


KILLED = """
import sys, time
from pathlib import Path
from antecede.sim import Scenario, simulate_to
from tests.trace.object_store import store_without_rename

def wait(simulator):
    print("under way", flush=True)
    time.sleep(600)

_, bucket = store_without_rename(Path(sys.argv[1]))
simulate_to(bucket / "run", Scenario(processes=10, messages=2000), wait)
"""


def test_a_killed_process_leaves_nothing_that_counts_as_a_trace(tmp_path: Path) -> None:
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "root")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"under way\n"
        process.send_signal(signal.SIGKILL)
    assert list((tmp_path / "root/bucket/run/events.parquet").iterdir())
    with pytest.raises(TraceError, match="unfinished"):
        read_trace(tmp_path / "root/bucket/run")


@pytest.mark.parametrize(
    "arguments", [["merge", "URI", "x"], ["study", "run", "quick", "--out", "URI"]]
)
def test_a_command_that_needs_a_local_path_refuses_a_uri(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = "s3://key:secret@bucket/x"
    with pytest.raises(SystemExit) as caught:
        main([uri if each == "URI" else each for each in arguments])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert "s3://***@bucket/x: a URI is not supported here; give a local path" in err
    assert "secret" not in err
