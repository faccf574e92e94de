"""The outbox: which frames wait for room on the path, and in which order they leave."""

from antecede.core.codec import Frame
from antecede.core.link_frames import Segment
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.engine.outbox import Outbox

ANN, BOB = ProcessId(0), ProcessId(1)
ROOM = 1 << 20


def message(number: int) -> MessageFrame:
    return MessageFrame(number, number - 1, False, bytes(100))


def taken(outbox: Outbox, room: int = ROOM) -> list[int]:
    return [frame.message_number() for frame in outbox.take_held(room, BOB, None)]


def test_messages_are_held_and_control_frames_are_not() -> None:
    outbox = Outbox()
    frames: list[Frame] = [Ack(1, 1), message(1), Permit(3), Segment(7, 0, Ack(2, 2))]
    others = outbox.put_back(frames)
    assert others == [frames[0], frames[2]]
    assert outbox.is_holding
    assert outbox.take_held(ROOM, BOB, None) == [frames[1], frames[3]]
    assert not outbox.is_holding


def test_held_messages_leave_in_order_but_lost_ones_before_others() -> None:
    outbox = Outbox()
    outbox.put_back([message(3), message(4)])
    outbox.add(message(5))
    outbox.add(message(1), True)
    outbox.add(message(2), True)
    outbox.add(Ack(9, 9))
    assert [type(frame) for frame in outbox.pop_frames()] == [Ack]
    first = outbox.take_held(250, BOB, None)
    assert [frame.message_number() for frame in first] == [1, 2, 3]
    outbox.put_back(first[1:])
    assert taken(outbox) == [2, 3, 4, 5]


def test_a_message_is_held_once_as_it_was_transmitted_last() -> None:
    outbox = Outbox()
    outbox.put_back([message(1), message(2)])
    newer = message(1)
    outbox.add(newer, True)
    assert outbox.size == 2
    assert outbox.take_held(50, BOB, None) == [newer]


def test_a_window_that_has_shrunk_keeps_messages_in_the_outbox() -> None:
    process = make_hybrid(ANN)
    windows = process.windows
    windows.enable()
    windows.set_window(BOB, 5, 0.0)
    for _ in range(5):
        process.send([BOB], b"x", 0.0)
    frames = [transmit.frame for transmit in process.frames_to_transmit()]
    outbox = Outbox()
    outbox.put_back(frames)
    windows.set_window(BOB, 2, 0.0)
    assert outbox.take_held(ROOM, BOB, windows) == frames[:2]
    process.receive(BOB, Ack(1, 1), 0.1)
    assert outbox.take_held(ROOM, BOB, windows) == frames[2:3]
    windows.set_window(BOB, 0, 0.1)
    assert outbox.take_held(ROOM, BOB, windows) == []
    assert outbox.size == 2
