"""Traces of real systems, where they are at hand: the figures of docs/traces.md."""

import json
import re
from pathlib import Path

import pytest

from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.story import clocks_by_messages, judge

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="optional: shared data")

AKKA = r"\[akka://Broadcast/user/(?<host>\w+)\] (?<clock>\{.*?\}) (?<event>.*)"


def test_happened_before_by_tokens_equals_the_recorded_clocks(tmp_path: Path) -> None:
    """Event by event: the clocks are read from the file anew, the rest from the trace."""
    path = DATA / "tracechecker" / "example1.log"
    lines = path.read_text(encoding="utf-8").splitlines()
    recorded = {n: json.loads(line)["VectorClock"] for n, line in enumerate(lines, 1)}
    told = judge(path, tmp_path / "out")
    assert len(recorded) == 809
    assert clocks_by_messages(told.ingested) == recorded
    assert told.exit_code == 0
    assert (told.report.messages, told.report.deliveries) == (179, 179)
    assert told.ingested.findings.faults == ()


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
    told = judge(DATA / "shiviz" / name, tmp_path / "out", **options)
    findings = told.ingested.findings
    assert findings.faults == ()
    assert (findings.processes, findings.records) == (processes, records)
    assert told.report.deliveries == deliveries
    assert told.exit_code == 4
    # The messages that were inferred explain every clock of the file.
    text = (DATA / "shiviz" / name).read_text(encoding="utf-8")
    found = re.findall(r"\{[^{}]*\}", text)
    recorded = sorted(sorted(json.loads(clock).items()) for clock in found)
    worked_out = clocks_by_messages(told.ingested).values()
    assert sorted(sorted(clock.items()) for clock in worked_out) == recorded


def test_one_is_held_if_it_is_told_which_events_receive(tmp_path: Path) -> None:
    options = {"regex": AKKA, "receives": "^Received", "ignore": "was not delivered"}
    told = judge(DATA / "shiviz" / "reliable-broadcast.log", tmp_path / "out", **options)
    assert told.exit_code == 0
    assert told.ingested.findings.records == 116


@pytest.mark.parametrize(
    ("name", "spans", "messages", "causal", "fifo", "skewed", "unknown"),
    [
        ("onlineboutique-03_53", 23019, 11016, 343, 341, 18, 0),
        ("trainticket-08_45", 5108, 1613, 4, 4, 198, 9),
        ("trainticket-08_52", 10243, 3190, 8, 4, 342, 16),
        ("trainticket-08_54", 4376, 1392, 0, 0, 144, 0),
    ],
    ids=["boutique", "rough tickets", "tickets", "tickets held"],
)
def test_calls_of_microservices_are_judged(
    name: str,
    spans: int,
    messages: int,
    causal: int,
    fifo: int,
    skewed: int,
    unknown: int,
    tmp_path: Path,
) -> None:
    told = judge(DATA / "nezha" / f"{name}_trace.csv.gz", tmp_path / "out")
    findings, report = told.ingested.findings, told.report
    assert (findings.records, findings.unknown) == (spans, unknown)
    assert report.messages == report.deliveries == messages
    assert report.counts[Property.CAUSAL] == causal
    assert report.counts[Property.FIFO] == fifo
    assert findings.skew is not None
    assert findings.skew.count == skewed
    assert report.statuses[Property.ONCE] is (Status.UNKNOWN if unknown else Status.HELD)
