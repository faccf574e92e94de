"""Traces of real systems: the numbers in docs/how-to/verify-foreign-traces.md."""

import json
import re
from pathlib import Path

import pytest

from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.foreign_samples import clocks_by_messages, verify_file

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="optional: shared data")

AKKA = r"\[akka://Broadcast/user/(?<host>\w+)\] (?<clock>\{.*?\}) (?<event>.*)"


def test_happened_before_by_tokens_equals_the_recorded_clocks(tmp_path: Path) -> None:
    """The recorded clocks are read from the file, the messages from the trace."""
    path = DATA / "tracechecker" / "example1.log"
    lines = path.read_text(encoding="utf-8").splitlines()
    recorded = {n: json.loads(line)["VectorClock"] for n, line in enumerate(lines, 1)}
    verdict = verify_file(path, tmp_path / "out")
    assert len(recorded) == 809
    assert clocks_by_messages(verdict.ingested) == recorded
    assert verdict.status is Status.HELD
    assert (verdict.trace_verdict.messages, verdict.trace_verdict.deliveries) == (179, 179)
    assert verdict.ingested.summary.clock_errors == ()


@pytest.mark.parametrize(
    ("name", "processes", "records", "deliveries", "options"),
    [
        ("chord.log", 8, 1235, 541, {}),
        ("tsviz_fslock_24t_4sp.log", 30, 2001, 98, {}),
        ("reliable-broadcast.log", 4, 117, 48, {"regex": AKKA}),
    ],
    ids=["chord", "fslock", "broadcast"],
)
def test_clocks_of_shiviz_logs_are_consistent(
    name: str,
    processes: int,
    records: int,
    deliveries: int,
    options: dict[str, str],
    tmp_path: Path,
) -> None:
    verdict = verify_file(DATA / "shiviz" / name, tmp_path / "out", **options)
    summary = verdict.ingested.summary
    assert summary.clock_errors == ()
    assert (summary.processes, summary.records) == (processes, records)
    assert verdict.trace_verdict.deliveries == deliveries
    assert verdict.status is Status.UNKNOWN
    # The inferred messages explain every clock of the file.
    text = (DATA / "shiviz" / name).read_text(encoding="utf-8")
    found = re.findall(r"\{[^{}]*\}", text)
    recorded = sorted(sorted(json.loads(clock).items()) for clock in found)
    computed = clocks_by_messages(verdict.ingested).values()
    assert sorted(sorted(clock.items()) for clock in computed) == recorded


def test_the_properties_of_a_log_with_marked_receives_hold(tmp_path: Path) -> None:
    options = {"regex": AKKA, "receives": "^Received", "ignore": "was not delivered"}
    verdict = verify_file(
        DATA / "shiviz" / "reliable-broadcast.log", tmp_path / "out", **options
    )
    assert verdict.status is Status.HELD
    assert verdict.ingested.summary.records == 116


@pytest.mark.parametrize(
    ("name", "spans", "messages", "causal", "fifo", "skewed", "unknown"),
    [
        ("onlineboutique-03_53", 23019, 11016, 343, 341, 18, 0),
        ("trainticket-08_45", 5108, 1613, 4, 4, 198, 9),
        ("trainticket-08_52", 10243, 3188, 8, 4, 340, 18),
        ("trainticket-08_53", 2853, 892, 0, 0, 70, 0),
        ("trainticket-08_54", 4376, 1390, 0, 0, 142, 2),
    ],
    ids=["boutique", "coarse tickets", "tickets", "tickets held", "tickets late"],
)
def test_calls_of_microservices_are_verified(
    name: str,
    spans: int,
    messages: int,
    causal: int,
    fifo: int,
    skewed: int,
    unknown: int,
    tmp_path: Path,
) -> None:
    verdict = verify_file(DATA / "nezha" / f"{name}_trace.csv.gz", tmp_path / "out")
    summary, report = verdict.ingested.summary, verdict.trace_verdict
    assert (summary.records, summary.unknown) == (spans, unknown)
    assert report.messages == report.deliveries == messages
    assert report.counts[Property.CAUSAL] == causal
    assert report.counts[Property.FIFO] == fifo
    assert summary.skew is not None
    assert summary.skew.count == skewed
    assert report.statuses[Property.NO_DUPLICATION] is (
        Status.UNKNOWN if unknown else Status.HELD
    )
