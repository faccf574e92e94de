"""Workers of Spark write a table of runs to an S3-compatible store, and read it."""

from pathlib import Path

import pytest

from tests.spark.child_process import run_module
from tests.trace.s3_server import KEY, QUOTED_SECRET, SECRET, s3_server


def test_workers_write_and_read_a_table_of_runs_in_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # rclone refuses uploads of unknown length, which checksums need.
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with s3_server(tmp_path) as server:
        found = run_module(
            "tests.spark.store_client",
            server.uri("bucket/runs"),
            server.uri("no-such-bucket/runs"),
        )
        (part, *_) = (server.root / "bucket" / "runs" / "events").iterdir()
        assert part.suffix == ".parquet"
    assert found["events"] > 4 * 20 * 4
    assert found["statuses"] == found["expected"]
    assert sorted(found["statuses"].values()) == ["held", "held", "violated", "violated"]
    assert "already has runs" in found["again"]
    assert "no such bucket" in found["without_bucket"]
    for message in (found["again"], found["without_bucket"]):
        assert not any(secret in message for secret in (KEY, SECRET, QUOTED_SECRET))
