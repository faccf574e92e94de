"""Grids of recorded traffic: expanded, skipped and refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from antecede.advise.recordings import RecordingReader
from antecede.errors import ConfigError
from antecede.pipeline.study.recordings import RecordedWorkload, expand_recordings
from antecede.pipeline.study.study import parse_study
from antecede.sim.workloads.program import Program
from tests.ingest.foreign_samples import write_sample

TABLE: dict[str, Any] = {
    "name": "recorded",
    "protocols": ["hybrid"],
    "processes": [4],
    "recordings": {
        "shop": {"file": "shop.csv"},
        "log": {"file": "logs/a.log", "regex": "x"},
    },
    "grids": [
        {"name": "plain"},
        {
            "name": "replayed",
            "recordings": ["shop", "log"],
            "networks": {
                "same": {"delay": "recorded", "loss": 0.5},
                "fixed": {"delay": "0.1"},
            },
        },
    ],
    "profiles": {
        "small": {"grids": {"replayed": {"recordings": ["log"], "seeds": 3}}},
        "without": {"grids": {"replayed": {"skip": True}}},
    },
}
MESSAGES = "source,target,sent,received\nann,bob,0,1\nbob,carol,2,3\nann,carol,1,4\n"


def load(name: str, keys: Mapping[str, str]) -> RecordedWorkload | None:
    """Pretend that every file is there except that of ``log``."""
    if name == "log":
        assert keys == {"file": "logs/a.log", "regex": "x"}
        return None
    return RecordedWorkload(workload="pipeline", processes=7, messages=5, delay="0.25")


def test_a_grid_becomes_one_grid_for_each_recording_that_is_there() -> None:
    study = parse_study(TABLE, None, load)
    found = {
        (c.grid, c.workload, c.network, c.scenario.workload, c.scenario.delay)
        for c in study.cells
        if c.grid != "plain"
    }
    assert found == {
        ("replayed-shop", "shop", "same", "pipeline", "0.25"),
        ("replayed-shop", "shop", "fixed", "pipeline", "0.1"),
    }
    sizes = {
        (c.scenario.processes, c.scenario.messages)
        for c in study.cells
        if c.grid == "replayed-shop"
    }
    assert sizes == {(7, 5)}
    assert study.skipped == ("replayed: no recordings logs/a.log: not in that directory",)


def test_without_a_directory_recordings_are_skipped_with_a_line() -> None:
    study = parse_study(TABLE)
    assert {cell.grid for cell in study.cells} == {"plain"}
    assert study.skipped == (
        "replayed: no recordings shop.csv, logs/a.log: set --recordings DIR",
    )


def test_a_profile_selects_recordings_and_changes_their_grids() -> None:
    def both(name: str, keys: Mapping[str, str]) -> RecordedWorkload | None:
        return RecordedWorkload(workload="pipeline", processes=3, messages=1, delay="1")

    study = parse_study(TABLE, "small", both)
    seeds = {(c.grid, c.scenario.seed) for c in study.cells if c.grid != "plain"}
    assert seeds == {("replayed-log", 0), ("replayed-log", 1), ("replayed-log", 2)}


def test_a_grid_that_a_profile_skips_reads_no_file() -> None:
    def refuse(name: str, keys: Mapping[str, str]) -> RecordedWorkload | None:
        raise AssertionError(name)

    study = parse_study(TABLE, "without", refuse)
    assert ({cell.grid for cell in study.cells}, study.skipped) == ({"plain"}, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recordings": 3}, "recordings must be a table of tables"),
        ({"recordings": {"shop": 3}}, "recordings.shop must be a table"),
        ({"recordings": {"shop": {}}}, "recordings.shop.file is missing"),
        (
            {"recordings": {"shop": {"path": "x"}}},
            "recordings.shop.path must be a str, and",
        ),
        ({"recordings": {"shop": {"file": 3}}}, "recordings.shop.file must be a str, and"),
        ({"recordings": {"log": {"file": "a"}}}, "grid replayed: unknown recording 'shop'"),
        ({"grids": [{"name": "g", "recordings": []}]}, "grid g: recordings must be a non"),
        (
            {"grids": [{"name": "g", "recordings": ["log"], "processes": [3]}]},
            "grid g: recordings determine processes; remove it",
        ),
    ],
)
def test_an_invalid_recording_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expand_recordings({**TABLE, **change}, None, None)


def test_a_file_becomes_a_workload_that_can_be_replayed(tmp_path: Path) -> None:
    write_sample(tmp_path / "shop.csv", MESSAGES)
    reader = RecordingReader(tmp_path, tmp_path / "out")
    assert reader("log", {"file": "logs/a.log"}) is None
    # Too few round trips to estimate the delay; three messages of three processes.
    found = reader("shop", {"file": "shop.csv"})
    assert found == RecordedWorkload(
        workload=f"replay:{tmp_path / 'out' / 'shop'}",
        processes=3,
        messages=1,
        delay="exponential:0.05",
    )
    assert reader("shop", {"file": "shop.csv"}) == found
    (cell,) = parse_study(
        {
            **TABLE,
            "grids": [{"name": "g", "recordings": ["shop"], "networks": {"one": {}}}],
            "profiles": {},
        },
        None,
        reader,
    ).cells
    workload = cell.scenario.make_workload()
    assert isinstance(workload, Program)
    assert cell.estimate.copies == 3


def test_recordings_must_be_in_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere is not a directory"):
        RecordingReader(tmp_path / "nowhere", tmp_path)
