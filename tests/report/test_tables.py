import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError, StorageError
from antecede.report.tables import Tables, read_tables


def test_every_row_of_every_table_is_read(study: Path, tables: Tables) -> None:
    (read,) = tables.studies
    assert len(read.cells) == pq.read_table(study / "cells.parquet").num_rows == 72
    assert len(read.summary) == pq.read_table(study / "summary").num_rows
    assert len(read.verdicts) == pq.read_table(study / "verdicts").num_rows
    measures = pq.read_table(study / "measures").to_pylist()
    found = [
        {"cell": cell, "measure": measure, "value": value}
        for cell, values in read.values.items()
        for measure, value in values.items()
    ]
    assert found == measures


def test_a_row_has_the_parameters_of_its_runs(tables: Tables) -> None:
    rows = tables.rows("latency_mean", protocol="hybrid")
    assert len(rows) == 6
    losses = {row.network: tables.parameters(row)["loss"] for row in rows}
    assert losses == {"even": 0.0, "rough": 0.05}


def test_a_directory_of_several_studies_is_read(study: Path, tmp_path: Path) -> None:
    shutil.copytree(study, tmp_path / "one")
    shutil.copytree(study, tmp_path / "two")
    note = {"name": "other", "title": ""}
    (tmp_path / "two" / "study.json").write_text(json.dumps(note))
    assert [each.name for each in read_tables([tmp_path]).studies] == ["small", "other"]


def test_a_study_that_is_given_twice_is_an_error(study: Path, tmp_path: Path) -> None:
    shutil.copytree(study, tmp_path / "again")
    with pytest.raises(ConfigError, match="'small' is given twice"):
        read_tables([study, tmp_path / "again"])


def test_a_directory_without_tables_is_an_error_with_the_command_to_run(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="antecede study run NAME"):
        read_tables([tmp_path])


def test_every_directory_must_have_a_study(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no study tables in {tmp_path}"):
        read_tables([study, tmp_path])


def test_an_unfinished_study_is_an_error(study: Path, tmp_path: Path) -> None:
    shutil.copytree(study, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "summary")
    with pytest.raises(ConfigError, match=r"no table summary .* not finished"):
        read_tables([tmp_path / "half"])


@pytest.mark.parametrize("name", ["study.json", "cells.parquet"])
def test_a_damaged_file_is_named_in_the_error(
    study: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(study, tmp_path / "bad")
    (tmp_path / "bad" / name).write_text("{")
    with pytest.raises(StorageError, match=name):
        read_tables([tmp_path / "bad"])
