"""The demonstration, with few nodes and messages."""

import asyncio
import json
from pathlib import Path

import pytest

from antecede.cli import main as cli
from antecede.demo.demo import DemoConfig, run_demo
from antecede.errors import ConfigError
from antecede.net.faults import Faults


def test_the_command_prints_status_and_verdict_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--nodes 2 --messages 3 --gap 0.01 --delay 0 --jitter 0.01 --json"
    assert cli.main(["demo", *options.split(), "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"]["held"] is True
    assert list(result["nodes"]) == ["ann", "bob"]
    for status in result["nodes"].values():
        assert status["sent"] >= 3
        assert (status["queued"], status["in_flight"]) == (0, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"ann", "bob", "merged"}


def test_a_node_that_stops_is_an_error(tmp_path: Path) -> None:
    config = DemoConfig(nodes=2, protocol="unknown", faults=Faults())
    with pytest.raises(ConfigError, match="stopped before the phase 'ready'; its error"):
        asyncio.run(run_demo(config, tmp_path, lambda statuses, proxy: None))


def test_invalid_parameters_are_errors() -> None:
    with pytest.raises(ConfigError, match="nodes must be 2 to 10, not 1"):
        DemoConfig(nodes=1, faults=Faults())
    with pytest.raises(ConfigError, match="messages must be at least 1, not 0"):
        DemoConfig(messages=0, faults=Faults())
    with pytest.raises(ConfigError, match="gap_s must be above 0, not 0"):
        DemoConfig(gap_s=0.0, faults=Faults())
