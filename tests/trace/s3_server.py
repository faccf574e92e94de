"""An S3-compatible server on this machine: ``rclone serve s3``."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY, SECRET = "test-access-key", "test/secret+key"
OPTIONAL_STORES = "optional: stores and tables; `make test-stores` installs the packages"
QUOTED_SECRET = "test%2Fsecret%2Bkey"


@dataclass(frozen=True)
class S3Server:
    """A running server with the bucket ``bucket``."""

    root: Path
    """The directory whose subdirectories are the buckets."""
    address: str
    """Host and port."""

    def uri(self, path: str, secret: str = QUOTED_SECRET, scheme: str = "s3") -> str:
        """Return a URI with credentials; the path begins with the bucket."""
        return (
            f"{scheme}://{KEY}:{secret}@{path}"
            f"?scheme=http&endpoint_override={self.address}&region=us-east-1"
        )

    def environment(self) -> dict[str, str]:
        """Return variables with which a plain URI reaches the server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ALLOW_HTTP": "true",
        }


def rclone() -> str:
    """Return the path of rclone; skip the test if it is not installed."""
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    if found is None:
        pytest.skip(OPTIONAL_STORES)
    return found


@contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    """Run a server whose buckets are the subdirectories of a directory."""
    program = rclone()
    (root / "bucket").mkdir(parents=True)
    command = [program, "serve", "s3", str(root), "--addr", "127.0.0.1:0"]
    command += ["--auth-key", f"{KEY},{SECRET}", "--config", os.devnull]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            found = re.search(r"http://(127\.0\.0\.1:\d+)", line)
            if found:
                yield S3Server(root, found[1])
                return
        pytest.fail("rclone does not start: " + "".join(lines))
    finally:
        process.terminate()
        process.communicate()
