"""The log of the online verifier finds chains, for a bounded time and effort."""

import pytest

from antecede.verify.online import event_log
from antecede.verify.online.event_log import PROCESS_SHIFT, EventLog


def note(log: EventLog, process: int, source: int, number: int) -> None:
    """Add a send if the process is the source, otherwise a delivery."""
    low = source << 1 | (process == source)
    log.processes.append(process << PROCESS_SHIFT | low)
    log.numbers.append(number)


def chained_log(stamps: tuple[float, ...]) -> EventLog:
    """Return a log in which each process sends a message to the next, in chunks of two."""
    log = EventLog()
    note(log, 0, 0, 70)
    for process, stamp in enumerate(stamps, 1):
        note(log, process, process - 1, 70 - process + 1)
        note(log, process, process, 70 - process)
        log.compact(stamp, process + 1, 0.0)
    return log


def test_a_chain_leads_through_chunks_and_new_events() -> None:
    log = chained_log((1.0, 2.0, 3.0))
    note(log, 4, 3, 67)
    note(log, 4, 4, 66)
    assert [each.count for each in log.chunks] == [3, 2, 2]
    expected = [(0, 70), (1, 69), (2, 68), (3, 67), (4, 66)]
    assert log.find_chain((0, 70), 1, (4, 66), 5) == expected
    assert log.find_chain((1, 69), 2, (3, 67), 4) == expected[1:4]
    assert log.find_chain((2, 68), 3, (2, 90), 9) == [(2, 68), (2, 90)]


def test_old_events_are_forgotten() -> None:
    log = chained_log((1.0, 2.0, 3.0))
    log.compact(4.0, 4, 2.0)
    assert [each.stamp for each in log.chunks] == [2.0, 3.0]
    assert log.find_chain((0, 70), 1, (3, 67), 4) == []
    assert log.find_chain((1, 69), 2, (3, 67), 4) == []
    assert log.find_chain((2, 68), 3, (3, 67), 4) == [(2, 68), (3, 67)]


def test_a_search_that_takes_too_long_finds_nothing_until_the_next_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "SEARCHED_MAX", 10)
    log = chained_log((1.0, 2.0, 3.0))
    expected = [(0, 70), (1, 69), (2, 68), (3, 67)]
    assert log.find_chain((0, 70), 1, (3, 67), 4) == expected
    assert log.find_chain((0, 70), 1, (3, 67), 4) == []
    log.compact(4.0, 4, 0.0)
    assert log.find_chain((0, 70), 1, (3, 67), 4) == expected
