"""Messages that a process of ``bounded`` holds, and what follows from their delivery."""

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.dependency_frames import Notes, Query
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.process import HybridProcess
from tests.core.bounded_runs import left_over
from tests.core.test_bounded_frames import message
from tests.core.test_bounded_removal import sent_messages
from tests.core.test_peer_removal import delivered

ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX = (ProcessId(index) for index in range(7))
HOLD_S = 10.0


def make(budget: int = UNBOUNDED) -> HybridProcess:
    """Make a process that applies the rule for held messages of silent senders."""
    process = make_bounded(ZERO, budget_bytes=budget)
    assert process.dependencies is not None
    process.dependencies.enable(HOLD_S)
    return process


def test_a_held_message_of_a_sender_that_is_not_silent_does_not_wait() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), HOLD_S)
    assert delivered(process) == [(2, 1), (1, 1)]


def test_a_held_message_of_a_silent_sender_releases_a_queued_copy() -> None:
    """There is room for one entry. 1:2 does not list that of 1:1, which is settled then."""
    process = make(5)
    process.receive(ONE, message(1, inherited=[Entry(3, 4, 1)]), 0.0)
    process.receive(TWO, message(1, inherited=[Entry(3, 5, 1)]), 0.0)
    process.send([SIX], b"", 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 0, 2)]), 0.0)
    process.receive(TWO, message(2, 1, inherited=[Entry(3, 5, 1)]), 2 * HOLD_S)
    assert delivered(process) == [(1, 1), (2, 1), (2, 2)]
    assert sent_messages(process) == []
    process.receive(ONE, Query(Notes(0, [], [], [])), 2 * HOLD_S)
    assert delivered(process) == [(1, 2)]
    assert [target for target, _ in sent_messages(process)] == [SIX]


def test_a_message_that_no_longer_lists_an_entry_leaves_nothing_that_waits_for_it() -> None:
    """The copy that the entry named was abandoned, so 1:1 is retransmitted without it."""
    process = make_bounded(ZERO)
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    assert delivered(process) == []
    process.receive(ONE, MessageFrame(1, 0, True, b""), 0.0)
    assert delivered(process) == [(1, 1)]
    assert left_over(process) == []
