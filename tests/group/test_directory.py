"""What a node answers about rooms that it is not in."""

from antecede.group.codec import decode_control, encode_control
from antecede.group.directory import ROOMS_MAX, SEEKERS_MAX, Directory
from antecede.group.effects import SendControl
from antecede.group.frames import Answer, AnswerKind, Inquiry, Leaving, Request
from tests.group.protocol_rooms import member


def ask(directory: Directory, name: str, room: str = "r", now: float = 0.0) -> Answer:
    """Ask for a room, and return the answer."""
    inquiry = encode_control(Inquiry(f"address of {name}"))
    (effect,) = directory.receive_control(name, room, inquiry, now)
    assert isinstance(effect, SendControl)
    assert effect.target == name
    answer = decode_control(effect.data)
    assert isinstance(answer, Answer)
    assert answer.kind is AnswerKind.ABSENT
    return answer


def test_the_second_one_that_asks_learns_of_the_first() -> None:
    directory = Directory()
    assert ask(directory, "a").seekers == ()
    assert ask(directory, "b").seekers == (("a", "address of a"),)
    assert ask(directory, "a").seekers == (("b", "address of b"),)
    assert ask(directory, "c", "other room").seekers == ()


def test_a_node_is_forgotten_that_has_asked_long_ago() -> None:
    directory = Directory(keep_s=10.0)
    ask(directory, "a", now=0.0)
    assert directory.seekers("r", 10.0) == [("a", "address of a")]
    assert directory.seekers("r", 10.1) == []


def test_a_request_is_answered_and_other_messages_are_not() -> None:
    directory = Directory()
    request = encode_control(Request("hybrid", member("a")))
    (effect,) = directory.receive_control("a", "r", request, 0.0)
    assert isinstance(effect, SendControl)
    assert decode_control(effect.data) == Answer(AnswerKind.ABSENT, ())
    assert directory.receive_control("a", "r", encode_control(Leaving(1)), 0.0) == []


def test_rooms_and_nodes_are_limited() -> None:
    directory = Directory()
    for number in range(ROOMS_MAX + 1):
        ask(directory, "a", f"room {number}")
    assert directory.seekers("room 0", 0.0) == []
    assert directory.seekers("room 1", 0.0) != []
    for number in range(SEEKERS_MAX + 1):
        ask(directory, f"n{number}", "crowded")
    names = [name for name, _ in directory.seekers("crowded", 0.0)]
    assert names == [f"n{number}" for number in range(1, SEEKERS_MAX + 1)]
