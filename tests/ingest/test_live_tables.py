"""Delta tables, Iceberg tables and Parquet event tables are verified by their live rows."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.errors import TraceError
from antecede.ingest import ingest
from antecede.ingest.formats import source
from antecede.ingest.live_tables import find_table_format, open_live_table
from antecede.sim import Scenario, simulate_to
from tests.trace.s3_server import OPTIONAL_STORES


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """Return the events of a causal run and of one that is not."""
    found = {}
    for protocol in ("hybrid", "unordered"):
        out = tmp_path_factory.mktemp("runs") / protocol
        scenario = Scenario(
            protocol=protocol, processes=4, messages=60, delay="uniform:0,1"
        )
        simulate_to(out, scenario)
        found[protocol] = pq.read_table(out / "events.parquet")
    return found


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["verify", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(range(table.num_rows - 1, -1, -1)))


def test_a_delta_table_is_verified_without_deleted_files(
    runs: dict[str, pa.Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deltalake = pytest.importorskip("deltalake", reason=OPTIONAL_STORES)
    table = tmp_path / "table"
    deltalake.write_deltalake(table, runs["unordered"])
    code, out, _ = output(capsys, table)
    assert (code, "causal" in out) == (1, True)
    deltalake.write_deltalake(table, runs["hybrid"], mode="overwrite")
    assert len(list(table.glob("*.parquet"))) == 2  # A raw read finds both.
    code, out, _ = output(capsys, table)
    assert code in (0, 4)
    assert "VIOLATED" not in out
    assert out.startswith(f"{table}\n")


def test_a_partitioned_delta_table_has_many_runs(
    runs: dict[str, pa.Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deltalake = pytest.importorskip("deltalake", reason=OPTIONAL_STORES)
    table = tmp_path / "table"
    both = shuffled(pa.concat_tables(runs.values()))
    deltalake.write_deltalake(table, both, partition_by=["run"])
    code, out, _ = output(capsys, table)
    assert code == 1
    assert f"{table} run hybrid-0\n" in out
    assert f"{table} run unordered-0\n" in out


def test_an_iceberg_table_is_verified_without_deleted_rows(
    runs: dict[str, pa.Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason=OPTIONAL_STORES)
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = sql.SqlCatalog("test", uri=uri, warehouse=tmp_path.as_uri())
    catalog.create_namespace("antecede")
    hybrid = runs["hybrid"]
    table = catalog.create_table("antecede.events", schema=hybrid.schema)
    table.append(hybrid)
    table.append(runs["unordered"])
    directory = tmp_path / "antecede/events"
    code, out, _ = output(capsys, directory)
    assert code == 1
    assert out.count(" run ") == 2
    table.delete("run = 'unordered-0'")
    for path in (directory, table.metadata_location.removeprefix("file://")):
        code, out, _ = output(capsys, path)
        assert code in (0, 4)
        assert out.startswith(f"{path}\n")
    catalog.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_delta_log/x.json", "is a table of Delta: pip install 'deltalake'"),
        ("metadata/1.metadata.json", "is a table of Iceberg: pip install 'pyiceberg["),
    ],
)
def test_a_table_without_its_package_is_one_line(
    name: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in ("deltalake", "pyiceberg", "pyiceberg.table"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("{}")
    code, out, err = output(capsys, tmp_path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_parquet_file_of_events_is_verified(
    runs: dict[str, pa.Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(shuffled(runs["unordered"]), tmp_path / "table.parquet")
    code, out, _ = output(capsys, (tmp_path / "table.parquet").as_uri())
    assert code == 1
    assert out.startswith(f"{tmp_path / 'table.parquet'}\n")
    assert find_table_format(tmp_path) is None
    assert open_live_table(tmp_path).schema.names == runs["hybrid"].schema.names


@pytest.mark.parametrize("column", ["seq", "targets"])
def test_a_table_without_a_column_is_one_line(
    column: str,
    runs: dict[str, pa.Table],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pq.write_table(runs["hybrid"].drop_columns([column]), tmp_path / "table.parquet")
    code, out, err = output(capsys, tmp_path / "table.parquet")
    assert (code, out) == (2, "")
    assert f"no column '{column}'; a table of events needs the columns process" in err
    assert err.count("\n") == 1


def test_a_gzipped_file_must_not_expand_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = b"source,target,sent,received\n"
    path = tmp_path / "messages.csv.gz"
    path.write_bytes(gzip.compress(header + b"a,b,1,2\n" * 100_000))
    monkeypatch.setattr(source, "EXPANDED_BYTES_ALLOWED", 1000)
    with pytest.raises(
        TraceError, match=r"messages.csv.gz: expands to more than [\d,]+ byte"
    ):
        ingest([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(source, "EXPANSION_MAX", 10_000)
    assert ingest([path], tmp_path / "out")


def test_a_parquet_file_must_not_expand_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"source": "a", "target": "b", "sent": 1, "received": 2}
    path = tmp_path / "messages.parquet"
    pq.write_table(pa.Table.from_pylist([row] * 1_000_000), path, compression="zstd")
    monkeypatch.setattr(source, "EXPANDED_BYTES_ALLOWED", 1000)
    with pytest.raises(TraceError, match=r"messages.parquet: expands to more than"):
        ingest([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()
