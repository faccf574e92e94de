"""Traces in an S3-compatible store."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.sim import Scenario, simulate, simulate_to
from antecede.trace.reader import read_trace
from antecede.trace.store import open_store
from antecede.verify.verifier import verify_trace
from tests.trace.s3_server import (
    KEY,
    OPTIONAL_STORES,
    QUOTED_SECRET,
    SECRET,
    S3Server,
    s3_server,
)

pytestmark = pytest.mark.heavy

SCENARIO = Scenario(processes=3, messages=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        # rclone refuses uploads of unknown length, which checksums need.
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with s3_server(tmp_path_factory.mktemp("s3")) as found:
            yield found


def is_redacted(text: str) -> bool:
    return not any(secret in text for secret in (KEY, SECRET, QUOTED_SECRET))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_trace_in_a_store_is_the_same_as_in_memory(scheme: str, server: S3Server) -> None:
    uri = server.uri(f"bucket/{scheme}/run", scheme=scheme)
    simulate_to(uri, SCENARIO)
    trace = read_trace(uri)
    assert tuple(trace.events()) == simulate(SCENARIO).history
    assert verify_trace(uri).held
    assert is_redacted(str(trace.location))
    run = server.root / f"bucket/{scheme}/run"
    assert sorted(p.name for p in run.iterdir()) == [
        "events.parquet",
        "run.json",
        "trace.partial",
    ]
    (part,) = json.loads((run / "run.json").read_text())["parts"]
    assert part["rows"] == trace.rows
    # The trace that a task of Spark gets can be read there.
    assert pickle.loads(pickle.dumps(trace)).rows == trace.rows
    assert tuple(pickle.loads(pickle.dumps(trace)).events()) == tuple(trace.events())
    with pytest.raises(ConfigError, match="already holds a trace") as caught:
        simulate_to(uri, SCENARIO)
    assert is_redacted(str(caught.value))


def test_credentials_and_endpoint_come_from_the_environment(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    simulate_to("s3://bucket/environment/run", SCENARIO)
    assert verify_trace("s3://bucket/environment/run").held


def test_a_missing_bucket_or_directory_is_one_line(server: S3Server) -> None:
    for path, reason in (
        ("nowhere/run", "no such bucket: nowhere"),
        ("bucket/nowhere", "no such file or directory"),
    ):
        with pytest.raises(TraceError) as caught:
            read_trace(server.uri(path))
        assert str(caught.value).startswith(f"cannot read s3://***@{path}?scheme=***")
        assert str(caught.value).endswith(reason)
    with pytest.raises(StorageError) as written:
        simulate_to(server.uri("nowhere/run"), SCENARIO)
    assert str(written.value).endswith("no such bucket: nowhere")
    assert is_redacted(str(written.value))


def test_a_wrong_secret_is_one_line(server: S3Server) -> None:
    uri = server.uri("bucket/denied", secret="wrong-secret")
    for error, act in (
        (TraceError, lambda: read_trace(uri)),
        (TraceError, lambda: simulate_to(uri, SCENARIO)),
    ):
        with pytest.raises(error) as caught:
            act()
        assert "access denied: check the credentials" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "wrong-secret" not in str(caught.value)
    assert not (server.root / "bucket/denied").exists()


def test_an_upload_that_the_store_refuses_names_the_setting(server: S3Server) -> None:
    program = (
        "from antecede.sim import Scenario, simulate_to;"
        f"simulate_to({server.uri('bucket/refused')!r}, Scenario(processes=3))"
    )
    done = run_python(program, AWS_REQUEST_CHECKSUM_CALCULATION="when_supported")
    last = done.stderr.strip().splitlines()[-1]
    assert "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required" in last
    assert is_redacted(last)


def run_python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **variables},
        check=False,
    )


KILLED = """
import sys, time
from antecede.sim import Scenario, simulate_to

def wait(simulator):
    print("under way", flush=True)
    time.sleep(600)

simulate_to(sys.argv[1], Scenario(processes=10, messages=2000), wait)
"""


def test_a_killed_writer_leaves_nothing_that_counts_as_a_trace(server: S3Server) -> None:
    uri = server.uri("bucket/killed/run")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, uri],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"under way\n"
        process.send_signal(signal.SIGKILL)
    assert (server.root / "bucket/killed/run/trace.partial").exists()
    with pytest.raises(TraceError, match=r"unfinished trace\.partial"):
        read_trace(uri)
    simulate_to(uri, SCENARIO)  # The same command again.
    assert verify_trace(uri).held


def test_an_error_in_a_run_leaves_no_trace(server: S3Server) -> None:
    uri = server.uri("bucket/failed/run")

    def fail(simulator: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulate_to(uri, Scenario(processes=10, messages=2000), fail)
    with pytest.raises(TraceError):
        read_trace(uri)
    assert not list(Path(server.root / "bucket/failed").rglob("*.parquet"))


def test_the_commands_take_uris_and_print_no_credentials(
    server: S3Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs = server.uri("bucket/commands")
    for seed in (1, 2):
        uri = server.uri(f"bucket/commands/run-{seed}")
        arguments = ["--processes", "3", "--seed", str(seed), "--out", uri]
        assert main(["simulate", *arguments]) == 0
    assert main(["verify", runs]) == 0
    found = capsys.readouterr()
    assert "bucket/commands/run-2" in found.out
    assert "2 runs: 2 held" in found.out
    assert is_redacted(found.out + found.err)
    rows = "source,target,sent,received\na,b,1,2\nb,a,3,4\n"
    folder = open_store(server.uri("bucket/foreign"))
    (folder / "messages.csv").write_bytes(rows.encode())
    (folder / "bad.csv").write_bytes(b"source,target,sent\na,b,1\n")
    assert main(["verify", server.uri("bucket/foreign/messages.csv")]) in (0, 4)
    assert main(["verify", server.uri("bucket/foreign/bad.csv")]) == 2
    assert main(["verify", server.uri("bucket/foreign/none.csv")]) == 2
    assert main(["verify", uri, "--spark", "on"]) == 2
    found = capsys.readouterr()
    assert "no column for the received" in found.err
    assert is_redacted(found.out + found.err)


def test_a_delta_table_in_a_store_is_verified(
    server: S3Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake", reason=OPTIONAL_STORES)
    simulate_to(tmp_path / "run", SCENARIO)
    rows = pq.read_table(tmp_path / "run/events.parquet")
    table = tmp_path / "table"
    for _ in range(2):
        deltalake.write_deltalake(table, rows, mode="overwrite")
    # The server caches directories: it would not see files that others write.
    target = open_store(server.uri("bucket/table"))
    for path in filter(Path.is_file, table.rglob("*")):
        (target / str(path.relative_to(table))).write_bytes(path.read_bytes())
    assert main(["verify", server.uri("bucket/table")]) in (0, 4)
    found = capsys.readouterr()
    assert is_redacted(found.out + found.err)
