"""Logs with vector clocks: the messages in them, and clocks that make no sense."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.errors import ConfigError
from antecede.ingest import Findings
from antecede.ingest.event_table import DELIVER, SEND
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.story import (
    SHIVIZ,
    LoggedEvent,
    as_shiviz,
    as_tracechecker,
    clocks_by_messages,
    histories,
    judge,
    random_log,
    read,
    tracechecker_line,
    write,
)

A, B = "alice", "bob"


def lines(*clocks: tuple[str, dict[str, int]]) -> str:
    """Write a log of events that say nothing but their clock."""
    return "".join(f"-\n{process} {json.dumps(clock)}\n" for process, clock in clocks)


def faults(findings: Findings) -> list[tuple[str, int]]:
    """Return what is wrong with clocks, and the first line of each."""
    assert findings.faults is not None
    return [(fault.what, fault.places[0].line) for fault in findings.faults]


def holes(findings: Findings) -> list[tuple[str, int, str | None]]:
    return [(h.what, h.places[0].line, h.places[0].process) for h in findings.holes]


def test_messages_are_inferred_from_clocks(tmp_path: Path) -> None:
    ingested = read(write(tmp_path / "log", SHIVIZ), tmp_path / "out")
    assert histories(ingested) == {
        A: [("local", None), ("send", "alice:1"), ("deliver", "bob:1")],
        B: [("deliver", "alice:1"), ("send", "bob:1")],
    }
    assert ingested.findings.faults == ()
    assert ingested.findings.unknown == 0


def test_what_came_along_with_a_message_is_no_message_of_its_own(tmp_path: Path) -> None:
    """Carol hears from bob, who had heard from alice: alice did not write to carol."""
    text = lines(
        (A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {A: 1, B: 1, "carol": 1})
    )  # fmt: skip
    ingested = read(write(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)["carol"] == [("deliver", "bob:1")]


def test_one_event_may_receive_from_several_at_once(tmp_path: Path) -> None:
    text = lines((A, {A: 1}), (B, {B: 1}), ("carol", {A: 1, B: 1, "carol": 1}))
    ingested = read(write(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)["carol"] == [("deliver", "alice:1"), ("deliver", "bob:1")]


def test_an_event_receives_before_it_sends(tmp_path: Path) -> None:
    text = lines(
        (A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {A: 1, B: 1, "carol": 1})
    )  # fmt: skip
    ingested = read(write(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)[B] == [("deliver", "alice:1"), ("send", "bob:1")]


def test_the_own_entry_orders_a_process_whatever_the_order_of_lines(
    tmp_path: Path,
) -> None:
    text = lines((A, {A: 1}), (A, {A: 3, B: 1}), (A, {A: 2}), (B, {A: 1, B: 1}))
    ingested = read(write(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested)[A] == [
        ("send", "alice:1"), ("local", None), ("deliver", "bob:1"),
    ]  # fmt: skip
    (note,) = ingested.findings.notes
    assert (note.count, note.places[0].line, note.places[0].process) == (1, 5, A)


def test_clocks_alone_never_show_that_order_held(tmp_path: Path) -> None:
    told = judge(write(tmp_path / "log", SHIVIZ), tmp_path / "out")
    assert told.exit_code == 4
    assert "leaves no mark" in str(told)


def test_it_held_if_every_event_that_receives_shows_something_new(tmp_path: Path) -> None:
    log = write(tmp_path / "log", SHIVIZ)
    told = judge(log, tmp_path / "out", receives="^Got")
    assert told.exit_code == 0, str(told)


def test_an_event_that_receives_nothing_new_is_a_hole(tmp_path: Path) -> None:
    """Bob hears from alice twice, the earlier message last."""
    text = (
        'Send\nalice {"alice":1}\nSend\nalice {"alice":2}\n'
        'Got\nbob {"bob":1, "alice":2}\nGot\nbob {"bob":2, "alice":2}\n'
    )
    told = judge(write(tmp_path / "log", text), tmp_path / "out", receives="^Got")
    assert told.exit_code == 4
    assert holes(told.ingested.findings) == [
        ("receives whose clock shows nothing new", 8 - 1, B)
    ]


@pytest.mark.parametrize(
    ("text", "fault", "line"),
    [
        (
            lines((B, {B: 1}), (A, {A: 1, B: 1}), (A, {A: 2})),
            "clocks that go backwards",
            5,
        ),
        (
            lines((A, {A: 1}), (B, {A: 1, B: 1}), ("carol", {B: 1, "carol": 1})),
            "clocks that do not know what the message received was sent with",
            5,
        ),
    ],
    ids=["backwards", "not dominated"],
)
def test_clocks_that_contradict_each_other_are_a_violation(
    text: str, fault: str, line: int, tmp_path: Path
) -> None:
    told = judge(write(tmp_path / "log", text), tmp_path / "out")
    assert faults(told.ingested.findings) == [(fault, line)]
    assert told.exit_code == 1
    assert "clocks   violated (1)" in str(told)
    assert f"log:{line}" in str(told)


@pytest.mark.parametrize(
    ("text", "hole", "line", "process"),
    [
        (
            lines((A, {A: 1}), (A, {A: 3})),
            "events before which others of their process are missing",
            3,
            A,
        ),
        (
            lines((A, {A: 2})),
            "events before which others of their process are missing",
            1,
            A,
        ),
        (
            lines((A, {A: 1}), (A, {A: 1}), (A, {A: 2})),
            "events in a place that another event of their process has",
            3,
            A,
        ),
        (
            lines((A, {A: 1}), (B, {A: 7, B: 1})),
            "clocks that know of events of alice that are not there",
            3,
            B,
        ),
        (
            lines((A, {A: 1, "zoë": 2})),
            "clocks that know of events of the unknown process zoë that are not there",
            1,
            A,
        ),
        (
            lines((A, {A: 1}), (A, {B: 1})),
            "unread: its clock has no entry of its own process",
            3,
            A,
        ),
    ],
    ids=["gap", "no start", "same place", "unknown event", "unknown process", "no own"],
)
def test_a_hole_names_line_and_process_and_leaves_the_verdict_unknown(
    text: str, hole: str, line: int, process: str, tmp_path: Path
) -> None:
    told = judge(write(tmp_path / "log", text), tmp_path / "out", receives="never")
    assert (hole, line, process) in holes(told.ingested.findings)
    assert told.ingested.findings.unknown == 1
    assert told.exit_code == 4
    assert f"log:{line} ({process})" in str(told)


def test_clocks_that_know_of_each_other_go_round_in_a_circle(tmp_path: Path) -> None:
    text = lines((A, {A: 1, B: 1}), (B, {A: 1, B: 1}))
    with pytest.raises(ConfigError, match=r"log:\d \((alice|bob)\).*circle"):
        read(write(tmp_path / "log", text), tmp_path / "out")


def test_a_token_says_what_is_sent_and_received(tmp_path: Path) -> None:
    send = LoggedEvent(A, {A: 1}, "x")
    log = [send, LoggedEvent(B, {A: 1, B: 1}, "x", True, send)]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    assert histories(told.ingested) == {
        A: [("send", "alice:1")],
        B: [("deliver", "alice:1")],
    }
    assert told.exit_code == 0


def test_a_token_that_is_overtaken_is_a_violation(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(A, {A: 2}, "y"),
        LoggedEvent(B, {A: 2, B: 1}, "y", True),
        LoggedEvent(B, {A: 2, B: 2}, "x", True),
    ]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    assert told.exit_code == 1
    assert told.clock_faults == 0
    assert "bob delivered alice:2 (line 2) before alice:1 (line 1)" in str(told)


def test_a_token_received_twice_is_not_delivered_once(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(B, {A: 1, B: 1}, "x", True),
        LoggedEvent(B, {A: 1, B: 2}, "x", True),
    ]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    assert told.report.statuses[Property.ONCE] is Status.VIOLATED


def test_a_token_that_nobody_received_leaves_only_liveness_unknown(tmp_path: Path) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(A, {A: 2}, "y"),
        LoggedEvent(B, {A: 2, B: 1}, "y", True),
    ]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    unknown = [p for p, status in told.report.statuses.items() if status is Status.UNKNOWN]
    assert unknown == [Property.LIVE]
    assert told.ingested.findings.notes[0].places[0].line == 1


@pytest.mark.parametrize(
    ("change", "hole", "line"),
    [
        (lambda log: log.pop(0), "receives without a send", 1),
        (
            lambda log: log.insert(1, LoggedEvent(A, {A: 2}, "x")),
            "sends of a token that another event has sent already",
            2,
        ),
    ],
    ids=["no send", "two sends"],
)
def test_a_token_without_its_one_send_is_a_hole(
    change: "object", hole: str, line: int, tmp_path: Path
) -> None:
    log = [
        LoggedEvent(A, {A: 1}, "x"),
        LoggedEvent(B, {A: 1, B: 1}, "x", True),
        LoggedEvent(B, {A: 1, B: 2}),
    ]
    change(log)  # type: ignore[operator]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    assert (hole, line) in [each[:2] for each in holes(told.ingested.findings)]
    assert told.exit_code == 4


def test_a_clock_that_knows_what_no_token_told_is_a_fault(tmp_path: Path) -> None:
    log = [LoggedEvent(A, {A: 1}), LoggedEvent(B, {A: 1, B: 1})]
    text = as_tracechecker([*log, LoggedEvent(B, {A: 1, B: 2}, "x")])
    told = judge(write(tmp_path / "log", text), tmp_path / "out")
    assert faults(told.ingested.findings) == [
        ("clocks that know more than messages told", 2)
    ]
    assert told.exit_code == 1


def test_a_clock_that_does_not_know_what_its_token_was_sent_with_is_a_fault(
    tmp_path: Path,
) -> None:
    log = [LoggedEvent(A, {A: 1}, "x"), LoggedEvent(B, {B: 1}, "x", True)]
    told = judge(write(tmp_path / "log", as_tracechecker(log)), tmp_path / "out")
    assert faults(told.ingested.findings) == [
        ("clocks that do not know what the message received was sent with", 2)
    ]


@given(seed=st.integers(0, 10**6))
def test_happened_before_by_tokens_equals_the_clocks_of_any_log(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = random_log(seed)
    where = tmp_path_factory.mktemp("log")
    ingested = read(write(where / "log", as_tracechecker(log)), where / "out")
    recorded = {line: event.clock for line, event in enumerate(log, 1)}
    assert clocks_by_messages(ingested) == recorded
    assert ingested.findings.faults == ()
    assert ingested.findings.unknown == 0


@given(seed=st.integers(0, 10**6))
def test_messages_inferred_from_clocks_were_sent_and_explain_every_clock(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = random_log(seed)
    where = tmp_path_factory.mktemp("log")
    ingested = read(write(where / "log", as_shiviz(log)), where / "out")
    draft = ingested.written.draft
    event_at = {2 * place + 1: event for place, event in enumerate(log)}
    rows = list(zip(draft.kind, draft.message, draft.line, strict=True))
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
    assert ingested.findings.faults == ()
    assert ingested.findings.holes == ()


@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_clock_of_which_one_entry_is_wrong_does_not_pass(
    seed: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The broken variant of the two properties above."""
    log = random_log(seed)
    event = log[data.draw(st.integers(0, len(log) - 1))]
    process = data.draw(st.sampled_from(sorted(event.clock)))
    event.clock[process] += data.draw(st.sampled_from([-1, 1]))
    where = tmp_path_factory.mktemp("log")
    text = "".join(tracechecker_line(each) for each in log)
    found: object = None
    try:
        findings = read(write(where / "log", text), where / "out").findings
        found = findings.faults or findings.holes
    except ConfigError as error:
        found = "circle" in str(error)
    assert found
