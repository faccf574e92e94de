"""Logs with vector clocks: inferred messages, missing events, inconsistent clocks."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.errors import TraceError
from antecede.ingest import IngestSummary
from antecede.ingest.event_table import DELIVER, SEND
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.foreign_samples import (
    SHIVIZ,
    LoggedEvent,
    as_shiviz,
    as_tracechecker,
    clocks_by_messages,
    histories,
    ingest_file,
    random_log,
    tracechecker_line,
    verify_file,
    write_sample,
)

A, B = "alice", "bob"


def clock_log(*clocks: tuple[str, dict[str, int]]) -> str:
    """Return a ShiViz log of events with these clocks."""
    return "".join(f"-\n{process} {json.dumps(clock)}\n" for process, clock in clocks)


def clock_errors(summary: IngestSummary) -> list[tuple[str, int]]:
    """Return the descriptions of clock errors, and the first line of each."""
    assert summary.clock_errors is not None
    return [(e.description, e.locations[0].line) for e in summary.clock_errors]


def missing(summary: IngestSummary) -> list[tuple[str, int, str | None]]:
    return [
        (d.description, d.locations[0].line, d.locations[0].process)
        for d in summary.missing
    ]


def test_messages_are_inferred_from_clocks(tmp_path: Path) -> None:
    ingested = ingest_file(write_sample(tmp_path / "log", SHIVIZ), tmp_path / "out")
    assert histories(ingested) == {
        A: [("local", None), ("send", "alice:1"), ("deliver", "bob:1")],
        B: [("deliver", "alice:1"), ("send", "bob:1")],
    }
    assert ingested.summary.clock_errors == ()
    assert ingested.summary.unknown == 0


def test_an_entry_that_came_with_another_message_is_not_a_message(tmp_path: Path) -> None:
    """Carol receives from Bob, who received from Alice: Alice sent nothing to Carol."""
    text = clock_log(
        (A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {A: 1, B: 1, "carol": 1})
    )  # fmt: skip
    ingested = ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)["carol"] == [("deliver", "bob:1")]


def test_one_event_can_receive_several_messages(tmp_path: Path) -> None:
    text = clock_log((A, {A: 1}), (B, {B: 1}), ("carol", {A: 1, B: 1, "carol": 1}))
    ingested = ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)["carol"] == [("deliver", "alice:1"), ("deliver", "bob:1")]


def test_an_event_receives_before_it_sends(tmp_path: Path) -> None:
    text = clock_log(
        (A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {A: 1, B: 1, "carol": 1})
    )  # fmt: skip
    ingested = ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)[B] == [("deliver", "alice:1"), ("send", "bob:1")]


def test_the_own_entry_orders_a_process_for_any_order_of_lines(
    tmp_path: Path,
) -> None:
    text = clock_log((A, {A: 1}), (A, {A: 3, B: 1}), (A, {A: 2}), (B, {A: 1, B: 1}))
    ingested = ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)[A] == [
        ("send", "alice:1"), ("local", None), ("deliver", "bob:1"),
    ]  # fmt: skip
    (note,) = ingested.summary.notes
    assert (note.count, note.locations[0].line, note.locations[0].process) == (1, 5, A)


def test_a_verdict_from_clocks_alone_is_unknown(tmp_path: Path) -> None:
    verdict = verify_file(write_sample(tmp_path / "log", SHIVIZ), tmp_path / "out")
    assert verdict.status is Status.UNKNOWN
    assert "do not show a message that was overtaken" in str(verdict)


def test_the_properties_hold_if_every_marked_receive_raises_an_entry(
    tmp_path: Path,
) -> None:
    log = write_sample(tmp_path / "log", SHIVIZ)
    verdict = verify_file(log, tmp_path / "out", receives="^Got")
    assert verdict.status is Status.HELD, str(verdict)


def test_a_marked_receive_that_raises_no_entry_is_missing_information(
    tmp_path: Path,
) -> None:
    """Bob receives two messages of Alice, the earlier message last."""
    text = (
        'Send\nalice {"alice":1}\nSend\nalice {"alice":2}\n'
        'Got\nbob {"bob":1, "alice":2}\nGot\nbob {"bob":2, "alice":2}\n'
    )
    verdict = verify_file(
        write_sample(tmp_path / "log", text), tmp_path / "out", receives="^Got"
    )
    assert verdict.status is Status.UNKNOWN
    assert missing(verdict.ingested.summary) == [
        ("receives that raise no entry of the clock", 7, B)
    ]


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [
        (
            clock_log((B, {B: 1}), (A, {A: 1, B: 1}), (A, {A: 2})),
            "clocks with a decreasing entry",
            5,
        ),
        (
            clock_log((A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {B: 1, "carol": 1})),
            "clocks of receives below the clock of their send",
            5,
        ),
    ],
    ids=["decreasing", "below send"],
)
def test_inconsistent_clocks_are_a_violation(
    text: str, error: str, line: int, tmp_path: Path
) -> None:
    verdict = verify_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert clock_errors(verdict.ingested.summary) == [(error, line)]
    assert verdict.status is Status.VIOLATED
    assert "clocks         violated (1)" in str(verdict)
    assert f"log:{line}" in str(verdict)


@pytest.mark.parametrize(
    ("text", "description", "line", "process"),
    [
        (
            clock_log((A, {A: 1}), (A, {A: 3})),
            "events whose predecessor in their process is missing",
            3,
            A,
        ),
        (
            clock_log((A, {A: 2})),
            "events whose predecessor in their process is missing",
            1,
            A,
        ),
        (
            clock_log((A, {A: 1}), (A, {A: 1}), (A, {A: 2})),
            "events with the own entry of another event",
            3,
            A,
        ),
        (
            clock_log((A, {A: 1}), (B, {A: 7, B: 1})),
            "clocks with missing events of alice",
            3,
            B,
        ),
        (
            clock_log((A, {A: 1, "zoë": 2})),
            "clocks with missing events of the unknown process zoë",
            1,
            A,
        ),
        (
            clock_log((A, {A: 1}), (A, {B: 1})),
            "unread: the clock has no entry for its own process",
            3,
            A,
        ),
    ],
    ids=["gap", "no start", "same entry", "unknown event", "unknown process", "no own"],
)
def test_missing_information_is_located_and_leaves_the_verdict_unknown(
    text: str, description: str, line: int, process: str, tmp_path: Path
) -> None:
    verdict = verify_file(
        write_sample(tmp_path / "log", text), tmp_path / "out", receives="never"
    )
    assert (description, line, process) in missing(verdict.ingested.summary)
    assert verdict.ingested.summary.unknown == 1
    assert verdict.status is Status.UNKNOWN
    assert f"log:{line} ({process})" in str(verdict)


def test_clocks_that_include_each_other_are_a_cycle(tmp_path: Path) -> None:
    text = clock_log((A, {A: 1, B: 1}), (B, {A: 1, B: 1}))
    with pytest.raises(TraceError, match=r"log:\d \((alice|bob)\).*cycle"):
        ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")


def test_a_token_identifies_a_message(tmp_path: Path) -> None:
    send = LoggedEvent(A, {A: 1}, "x")
    log = [send, LoggedEvent(B, {A: 1, B: 1}, "x", True, send)]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    assert histories(verdict.ingested) == {
        A: [("send", "alice:1")],
        B: [("deliver", "alice:1")],
    }
    assert verdict.status is Status.HELD


def test_a_token_that_is_overtaken_is_a_violation(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(A, {A: 2}, "y"),
        LoggedEvent(B, {A: 2, B: 1}, "y", True),
        LoggedEvent(B, {A: 2, B: 2}, "x", True),
    ]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    assert verdict.status is Status.VIOLATED
    assert verdict.clock_error_count == 0
    assert "bob delivered alice:2 (line 2) before alice:1 (line 1)" in str(verdict)


def test_a_token_received_twice_violates_no_duplication(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(B, {A: 1, B: 1}, "x", True),
        LoggedEvent(B, {A: 1, B: 2}, "x", True),
    ]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    assert verdict.trace_verdict.statuses[Property.NO_DUPLICATION] is Status.VIOLATED


def test_a_token_without_a_receive_leaves_only_liveness_unknown(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(A, {A: 2}, "y"),
        LoggedEvent(B, {A: 2, B: 1}, "y", True),
    ]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    unknown = [
        p
        for p, status in verdict.trace_verdict.statuses.items()
        if status is Status.UNKNOWN
    ]
    assert unknown == [Property.LIVENESS]
    assert verdict.ingested.summary.notes[0].locations[0].line == 1


@pytest.mark.parametrize(
    ("change", "description", "line"),
    [
        (lambda log: log.pop(0), "receives without a send", 1),
        (
            lambda log: log.insert(1, LoggedEvent(A, {A: 2}, "x")),
            "sends of a token that another event sent",
            2,
        ),
    ],
    ids=["no send", "two sends"],
)
def test_a_token_without_exactly_one_send_is_missing_information(
    change: "object", description: str, line: int, tmp_path: Path
) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(B, {A: 1, B: 1}, "x", True),
        LoggedEvent(B, {A: 1, B: 2}),
    ]
    change(log)  # type: ignore[operator]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    assert (description, line) in [each[:2] for each in missing(verdict.ingested.summary)]
    assert verdict.status is Status.UNKNOWN


def test_an_entry_that_no_token_explains_is_a_clock_error(tmp_path: Path) -> None:
    log = [LoggedEvent(A, {A: 1}), LoggedEvent(B, {A: 1, B: 1})]
    text = as_tracechecker([*log, LoggedEvent(B, {A: 1, B: 2}, "x")])
    verdict = verify_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert clock_errors(verdict.ingested.summary) == [
        ("clocks with an entry that no message explains", 2)
    ]
    assert verdict.status is Status.VIOLATED


def test_a_receive_with_a_clock_below_its_send_is_a_clock_error(
    tmp_path: Path,
) -> None:
    log = [LoggedEvent(A, {A: 1}, "x"), LoggedEvent(B, {B: 1}, "x", True)]
    verdict = verify_file(
        write_sample(tmp_path / "log", as_tracechecker(log)), tmp_path / "out"
    )
    assert clock_errors(verdict.ingested.summary) == [
        ("clocks of receives below the clock of their send", 2)
    ]


@pytest.mark.long
@given(seed=st.integers(0, 10**6))
def test_happened_before_by_tokens_equals_the_clocks_of_random_logs(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = random_log(seed)
    directory = tmp_path_factory.mktemp("log")
    ingested = ingest_file(
        write_sample(directory / "log", as_tracechecker(log)), directory / "out"
    )
    recorded = {line: event.clock for line, event in enumerate(log, 1)}
    assert clocks_by_messages(ingested) == recorded
    assert ingested.summary.clock_errors == ()
    assert ingested.summary.unknown == 0


@pytest.mark.long
@given(seed=st.integers(0, 10**6))
def test_messages_inferred_from_clocks_were_sent_and_explain_every_clock(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = random_log(seed)
    directory = tmp_path_factory.mktemp("log")
    ingested = ingest_file(
        write_sample(directory / "log", as_shiviz(log)), directory / "out"
    )
    table = ingested.written.table
    event_at = {2 * index + 1: event for index, event in enumerate(log)}
    rows = list(zip(table.kind, table.message, table.line, strict=True))
    sent = {message: event_at[int(line)] for kind, message, line in rows if kind == SEND}
    inferred = {
        (id(sent[message]), id(event_at[int(line)]))
        for kind, message, line in rows
        if kind == DELIVER
    }
    assert inferred <= {(id(event.cause), id(event)) for event in log if event.cause}
    assert clocks_by_messages(ingested) == {
        line: event.clock for line, event in event_at.items()
    }
    assert ingested.summary.clock_errors == ()
    assert ingested.summary.missing == ()


@pytest.mark.long
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_wrong_entry_of_a_clock_is_detected(
    seed: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The negative test of the two properties above."""
    log = random_log(seed)
    event = log[data.draw(st.integers(0, len(log) - 1))]
    process = data.draw(st.sampled_from(sorted(event.clock)))
    event.clock[process] += data.draw(st.sampled_from([-1, 1]))
    directory = tmp_path_factory.mktemp("log")
    text = "".join(tracechecker_line(each) for each in log)
    found: object = None
    try:
        summary = ingest_file(
            write_sample(directory / "log", text), directory / "out"
        ).summary
        found = summary.clock_errors or summary.missing
    except TraceError as error:
        found = "cycle" in str(error)
    assert found
