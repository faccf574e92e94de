"""What is not known: figures in the verdict, and tables that were rewritten."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.ingest import ingest
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.trace.writer import TraceWriter
from antecede.verify import Property
from antecede.verify.verdict import Status
from antecede.verify.verifier import verify_trace
from tests.ingest.foreign_samples import (
    MESSAGES_CSV,
    SHIVIZ,
    SHOP_SPANS,
    changed,
    span_csv,
    verify_file,
    write_sample,
)
from tests.trace.s3_server import OPTIONAL_STORES

IN_ORDER = changed(changed(SHOP_SPANS, "e", begin=72, end=75), "d", end=85)
"""The spans of the shop without a violation: four messages."""
EQUAL = changed(IN_ORDER, "e", begin=50)
"""Stöck delivers both requests at 50, so the order of one of them is unknown."""
UNREAD = span_csv(IN_ORDER) + "one,line\n"


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["verify", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_a_verdict_counts_the_judged_and_the_unknown_deliveries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "file", span_csv(EQUAL))
    code, text = output(capsys, file)
    assert code == 4
    for which in Property:
        line = (
            f"  {which.value:14} unknown: no violation among 3 of 4 deliveries, 1 unknown"
        )
        assert line in text.splitlines()
    code, text = output(capsys, file, "--json")
    assert code == 4
    assert json.loads(text)["properties"]["fifo"] == {
        "status": "unknown", "count": 0, "judged": 3, "violated": 0, "unknown": 1,
    }  # fmt: skip


def test_a_violation_among_unknown_deliveries_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stock receives one message more, whose send is not recorded."""
    file = write_sample(tmp_path / "file", MESSAGES_CSV + "shop,stock,,80\n")
    code, text = output(capsys, file)
    assert code == 1
    assert "  fifo           violated (1) among 3 of 4 deliveries, 1 unknown\n" in text
    assert (
        "  no-duplication unknown: no violation among 3 of 4 deliveries, 1 unknown\n"
        in text
    )


def test_an_unreadable_record_may_hide_any_number_of_deliveries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sample(tmp_path / "file", UNREAD)
    code, text = output(capsys, file)
    assert code == 4
    assert (
        "  causal         unknown: no violation found, 4 deliveries unknown because an"
        " unknown number is missing\n" in text
    )
    _, text = output(capsys, file, "--json")
    found = json.loads(text)["properties"]["causal"]
    assert (found["judged"], found["violated"], found["unknown"]) == (0, 0, 4)


def test_a_dropped_message_counts_all_its_targets(tmp_path: Path) -> None:
    """B receives x, which c receives, too, at the time of y; the later row is dropped."""
    text = "from,to,sent,received,id\nd,b,2,5,y\na,b,1,5,x\na,c,1,9,x\nd,c,3,10,z\n"
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert verdict.trace_verdict.delivery_counts(Property.CAUSAL) == (2, 0, 2)
    assert verdict.ingested.summary.unknown == 1


@pytest.mark.parametrize("text", [span_csv(EQUAL), UNREAD, SHIVIZ])
def test_a_trace_that_was_kept_has_the_same_figures(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write_sample(tmp_path / "file", text), tmp_path / "out"
    code, first = output(capsys, file, "--out", out)
    again, second = output(capsys, out)
    assert code == again == 4
    figures = [line for line in first.splitlines() if line.startswith("  causal")]
    assert len(figures) == 1
    assert figures[0] in second


def write_events(tmp_path: Path, text: str) -> pa.Table:
    (ingested,) = ingest([write_sample(tmp_path / "file", text)], tmp_path / "trace")
    assert verify_trace(ingested.directory).status is Status.UNKNOWN
    return pq.read_table(tmp_path / "trace" / "events.parquet")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (span_csv(EQUAL), "the events mark 1 deliveries as missing"),
        (UNREAD, "the events mark an unknown number of deliveries as missing"),
        (SHIVIZ, "the events mark an unknown number of deliveries as missing"),
    ],
    ids=["counted", "unread", "clocks"],
)
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_copy_of_the_events_stays_unknown(
    text: str,
    reason: str,
    is_shuffled: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A copy has no run.json, and not the metadata of the Parquet file."""
    table = write_events(tmp_path, text).replace_schema_metadata(None)
    if is_shuffled:
        table = table.take(pa.array(range(table.num_rows - 1, -1, -1)))
        table = table.drop_columns(["step", "target", "payload_bytes"])
    pq.write_table(table, tmp_path / "copy.parquet")
    code, out = output(capsys, tmp_path / "copy.parquet")
    assert code == 4
    assert f"unknown: {reason}\n" in out
    assert "held" not in out
    if "1 deliveries" in reason:
        assert (
            "  fifo           unknown: no violation among 3 of 4 deliveries, 1 unknown"
            in out
        )


def test_a_delta_copy_stays_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deltalake = pytest.importorskip("deltalake", reason=OPTIONAL_STORES)
    deltalake.write_deltalake(tmp_path / "table", write_events(tmp_path, span_csv(EQUAL)))
    code, out = output(capsys, tmp_path / "table")
    assert code == 4
    assert "no violation among 3 of 4 deliveries, 1 unknown" in out


def test_an_old_trace_without_such_events_stays_unknown(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "old", "r") as writer:
        send = Event(process=0, kind=Kind.SEND, source=0, number=1, targets=(1,))
        deliver = Event(process=1, kind=Kind.DELIVER, source=0, number=1, target=1)
        for batch in events_to_table([send, deliver], "r").to_batches():
            writer.write_batch(batch)
        writer.close(RunInfo(run="r", missing=["2 spans without a parent"]))
    verdict = verify_trace(tmp_path / "old")
    assert verdict.reasons == ("2 spans without a parent",)
    assert verdict.delivery_counts(Property.CAUSAL) == (0, 0, 1)


def test_names_are_shown_and_not_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write_sample(tmp_path / "file", span_csv(SHOP_SPANS)), tmp_path / "out"
    for arguments in ([file, "--out", out], [out]):
        code, text = output(capsys, *arguments, "--json")
        assert code == 1
        first = json.loads(text)["violations"][0]
        assert (first["process"], first["message"]) == ("stöck", "shop:2")
        assert first["chain"] == ["shop:1", "shop:2"]
        assert first["text"].startswith("causal: stöck delivered shop:2")
    code, text = output(capsys, out)
    assert "causal: stöck delivered shop:2 before shop:1" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sent twice", "message shop:1 is sent twice"),
        ("foreign", "stöck sends shop:1, which is not its own message"),
        ("too early", "shop delivered stöck:1 before it can have been sent"),
    ],
)
def test_errors_name_processes(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directory's name looks like a message."""
    shop, stock = 0, 1
    send = Event(process=shop, kind=Kind.SEND, source=shop, number=1, targets=(stock,))
    deliver = Event(process=stock, kind=Kind.DELIVER, source=shop, number=1, target=stock)
    back = Event(process=stock, kind=Kind.SEND, source=stock, number=1, targets=(shop,))
    received = Event(process=shop, kind=Kind.DELIVER, source=stock, number=1, target=shop)
    events = {
        "sent twice": [send, send],
        "foreign": [
            Event(process=stock, kind=Kind.SEND, source=shop, number=1, targets=())
        ],
        "too early": [received, send, deliver, back],
    }[change]
    path = tmp_path / "process 1 0:1"
    with TraceWriter(path, "r") as writer:
        for batch in events_to_table(events, "r").to_batches():
            writer.write_batch(batch)
        writer.close(RunInfo(run="r", names={shop: "shop", stock: "stöck"}))
    assert main(["verify", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"antecede: {path}: {message}\n" in error
    assert main(["show", str(path), "--svg", str(tmp_path / "x.svg")]) == 2
    assert message in capsys.readouterr().err
    assert read_trace(path).info.names[stock] == "stöck"
