"""Tables of runs for tests."""

from functools import partial
from pathlib import Path

from antecede.sim.runner import RunSummary
from antecede.sim.simulate import Scenario, record_scenario
from antecede.trace.run_table import list_parts, read_part
from antecede.trace.run_table_writer import RunTableWriter
from antecede.trace.store import StorePath, open_store


def add_run(directory: Path | StorePath, scenario: Scenario, name: str) -> RunSummary:
    """Write a run to a part of its own."""
    with RunTableWriter(directory) as table:
        summary = record_scenario(partial(table.open_run, name), scenario, name=name)
        table.commit()
    return summary


def write_runs(directory: Path | StorePath, scenarios: dict[str, Scenario]) -> None:
    """Write runs to one part."""
    with RunTableWriter(directory) as table:
        for name, scenario in scenarios.items():
            record_scenario(partial(table.open_run, name), scenario, name=name)
        table.commit()


def part_of(directory: Path, run: str) -> Path:
    """Return the file of a run."""
    for path in list_parts(open_store(directory / "events")):
        if run in read_part(path).runs:
            assert path.local is not None
            return path.local
    raise AssertionError(f"no part has {run}")


def damage(directory: Path, run: str) -> None:
    """Overwrite rows of a run, so that they cannot be read; the footer stays valid."""
    import pyarrow.parquet as pq

    path = part_of(directory, run)
    group = read_part(open_store(path)).runs[run].first_group
    column = pq.read_metadata(path).row_group(group).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xff" * column.total_compressed_size)
