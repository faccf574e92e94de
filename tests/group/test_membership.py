"""The inputs and effects of a membership, one at a time."""

from dataclasses import replace
from typing import Any

import pytest

from antecede.errors import ConfigError, LocalError, PeerError
from antecede.group.codec import decode_control, encode_control
from antecede.group.effects import (
    AddMember,
    Broadcast,
    Connect,
    Deliver,
    Effect,
    Joined,
    JoinFailed,
    Left,
    MemberChanged,
    Rejoining,
    RemoveMember,
    Restore,
    SendControl,
    SendInRoom,
    TakeSnapshot,
)
from antecede.group.frames import (
    APPLICATION,
    CONTROL,
    Added,
    Adding,
    Answer,
    AnswerKind,
    Chunk,
    ControlFrame,
    CutNotice,
    Excluded,
    Inquiry,
    JoinedNotice,
    Leaving,
    MemberState,
    Offer,
    Outdated,
    Progress,
    Refused,
    Removing,
    Request,
    RosterEntry,
    SnapshotHeader,
    SnapshotStart,
)
from antecede.group.member import CutEntry
from antecede.group.membership import RoomMembership
from antecede.group.settings import MembershipSettings
from antecede.group.snapshot_transfer import SnapshotSender
from tests.group.protocol_rooms import Arrived, member

SETTINGS = MembershipSettings(
    answer_timeout_s=3.0,
    retry_s=0.5,
    join_timeout_s=60.0,
    members_max=4,
    snapshot_bytes_max=1000,
    held_messages_max=3,
)

DISAGREEING = replace(SETTINGS, agree=lambda remover, name: False)


def make(
    name: str, *others: str, settings: MembershipSettings = SETTINGS
) -> RoomMembership:
    """Return a member of a room with ``others``."""
    membership = RoomMembership("room", "hybrid", member(name), settings)
    entries = tuple(RosterEntry(member(n), MemberState.JOINED) for n in others)
    membership.resume(encode_control(Offer(1, entries)), 0.0)
    for other in others:
        membership.member_added(other, 1, 0.0)
    membership.effects()
    return membership


def newcomer(*candidates: str, settings: MembershipSettings = SETTINGS) -> RoomMembership:
    """Return a newcomer ``x`` that has asked the candidates."""
    membership = RoomMembership("room", "hybrid", member("x"), settings)
    membership.join([(name, name) for name in candidates], 0.0)
    return membership


def told(effects: list[Effect]) -> list[Any]:
    """Return the effects, with the control messages in them decoded."""
    found: list[Any] = []
    for effect in effects:
        if isinstance(effect, SendControl):
            found.append((effect.target, decode_control(effect.data)))
        elif isinstance(effect, SendInRoom):
            found.append((effect.target, "room", decode_control(effect.data, 1)))
        elif isinstance(effect, Broadcast):
            found.append(("all", decode_control(effect.data, 1)))
        else:
            found.append(effect)
    return found


def hear(
    membership: RoomMembership, source: str, frame: ControlFrame, now: float = 0.0
) -> list[Any]:
    """Pass on a message outside the room, and return the reaction."""
    membership.receive_control(source, encode_control(frame), now)
    return told(membership.effects())


def deliver(
    membership: RoomMembership, source: str, number: int, frame: ControlFrame | bytes
) -> list[Any]:
    """Deliver a message in the room, and return the reaction."""
    if isinstance(frame, bytes):
        data = bytes((APPLICATION,)) + frame
    else:
        data = bytes((CONTROL,)) + encode_control(frame)
    membership.receive_in_room(Arrived(source, number, data), 0.0)
    return told(membership.effects())


def payloads(effects: list[Any]) -> list[bytes]:
    return [e.message.data[1:] for e in effects if isinstance(e, Deliver)]


def send_snapshot(
    membership: RoomMembership, source: str, header: SnapshotHeader, admission: int = 1
) -> list[Any]:
    """Send a whole snapshot to a newcomer, and return its last reaction."""
    sender = SnapshotSender(admission, header, 1 << 20, 1)
    hear(membership, source, sender.start())
    (chunk,) = sender.chunks()
    return hear(membership, source, chunk)


def header(*names: str, cut: tuple[CutEntry, ...] = ()) -> SnapshotHeader:
    entries = tuple(RosterEntry(member(n), MemberState.JOINED) for n in names)
    return SnapshotHeader(entries, cut, b"state")


@pytest.mark.parametrize(
    "protocol",
    ["vector", "newtop", "matrix", "optimal", "tree", "pc-broadcast", "fifo", "buffer"],
)
def test_a_protocol_whose_members_cannot_join_by_snapshot_is_refused(
    protocol: str,
) -> None:
    with pytest.raises(ConfigError, match="choose hybrid, hybrid-basic or bounded"):
        RoomMembership("room", protocol, member("a"), SETTINGS)


def test_names_have_1_to_255_bytes() -> None:
    for name in ("", "é" * 128):
        with pytest.raises(ConfigError, match="1 to 255 bytes"):
            RoomMembership("room", "hybrid", member(name), SETTINGS)
    RoomMembership("room", "hybrid", member("é" * 127), SETTINGS)


# Finding the room, and founding it.


def test_a_founder_is_the_only_member() -> None:
    membership = RoomMembership("room", "hybrid", member("a"), SETTINGS)
    membership.found(0.0)
    assert membership.effects() == [Joined(has_founded=True)]
    assert membership.members == ["a"]


def test_a_node_that_knows_nobody_founds_the_room() -> None:
    assert newcomer().effects() == [Joined(has_founded=True)]


def test_a_node_founds_the_room_when_every_candidate_has_answered_that_it_has_none() -> (
    None
):
    membership = newcomer("a", "b")
    asked = told(membership.effects())
    assert asked == [
        Connect("a", "a"), ("a", Inquiry("x")), Connect("b", "b"), ("b", Inquiry("x")),
    ]  # fmt: skip
    assert hear(membership, "a", Answer(AnswerKind.ABSENT, ())) == []
    assert hear(membership, "b", Answer(AnswerKind.ABSENT, ())) == [
        Joined(has_founded=True)
    ]


def test_a_node_asks_those_that_have_asked_before_it() -> None:
    membership = newcomer("a")
    membership.effects()
    answer = Answer(AnswerKind.ABSENT, (("b", "address"), ("x", "x")))
    assert hear(membership, "a", answer) == [
        Connect("b", "address"),
        ("b", Inquiry("x")),
    ]
    assert hear(membership, "b", Answer(AnswerKind.PRESENT, ())) == [
        ("b", Request("hybrid", member("x")))
    ]


@pytest.mark.parametrize(("other", "founds"), [("w", False), ("y", True)])
def test_of_two_nodes_that_look_for_a_room_the_first_by_name_founds_it(
    other: str, founds: bool
) -> None:
    membership = newcomer(other)
    membership.effects()
    reaction = hear(membership, other, Inquiry(other))
    assert reaction == [(other, Answer(AnswerKind.SEEKING, ()))]
    reaction = hear(membership, other, Answer(AnswerKind.SEEKING, ()))
    assert (Joined(has_founded=True) in reaction) is founds


def test_a_node_that_may_not_found_asks_again() -> None:
    membership = newcomer("a", settings=replace(SETTINGS, may_found=False))
    membership.effects()
    assert hear(membership, "a", Answer(AnswerKind.ABSENT, ())) == []
    assert membership.next_timer() == 0.5
    membership.handle_timer(0.5)
    assert told(membership.effects()) == [("a", Inquiry("x"))]


def test_without_an_answer_the_join_fails_and_says_what_to_check() -> None:
    membership = newcomer("a", "b")
    membership.effects()
    hear(membership, "b", Answer(AnswerKind.ABSENT, ()))
    membership.handle_timer(60.0)
    (failed,) = membership.effects()
    assert isinstance(failed, JoinFailed)
    assert "no answer from a: check the addresses, the key" in failed.reason
    assert membership.next_timer() is None


# Admission, at the sponsor.


def test_a_sponsor_announces_a_newcomer_before_it_sends_it_anything() -> None:
    sponsor = make("a", "b")
    x = member("x", 7)
    assert hear(sponsor, "x", Request("hybrid", x)) == [
        ("all", Adding(x)),
        AddMember(x),
        ("x", Offer(7, tuple(RosterEntry(member(n), MemberState.JOINED) for n in "ab"))),
    ]
    assert sponsor.members == ["a", "b"]
    assert [peer.name for peer in sponsor.peers] == ["b", "x"]


def test_a_sponsor_takes_the_snapshot_when_all_have_confirmed() -> None:
    sponsor = make("a", "b", "c")
    hear(sponsor, "x", Request("hybrid", member("x")))
    sponsor.member_added("x", 1, 0.0)
    assert deliver(sponsor, "b", 1, Added("x", 1)) == []
    assert sponsor.waiting_for == ["c"]
    assert deliver(sponsor, "c", 1, Added("x", 1)) == [TakeSnapshot("x", 1)]
    assert deliver(sponsor, "c", 2, Added("x", 1)) == []


def test_a_sponsor_itself_must_reach_the_present_incarnation() -> None:
    sponsor = make("a")
    hear(sponsor, "x", Request("hybrid", member("x", incarnation=5)))
    sponsor.member_added("x", 4, 0.0)
    assert sponsor.effects() == []
    sponsor.member_added("x", 5, 0.0)
    assert sponsor.effects() == [TakeSnapshot("x", 1)]


def test_a_sponsor_waits_no_longer_for_a_member_that_is_gone() -> None:
    sponsor = make("a", "b", "c")
    hear(sponsor, "x", Request("hybrid", member("x")))
    sponsor.member_added("x", 1, 0.0)
    deliver(sponsor, "b", 1, Added("x", 1))
    reaction = deliver(sponsor, "c", 1, Leaving(1))
    assert reaction == [
        RemoveMember("c", True), MemberChanged("c", "left", "c"), TakeSnapshot("x", 1),
    ]  # fmt: skip


def test_a_confirmation_of_an_earlier_attempt_does_not_count() -> None:
    sponsor = make("a", "b")
    hear(sponsor, "x", Request("hybrid", member("x", 1)))
    hear(sponsor, "x", Request("hybrid", member("x", 2)))
    sponsor.member_added("x", 1, 0.0)
    assert deliver(sponsor, "b", 1, Added("x", 1)) == []
    assert deliver(sponsor, "b", 2, Added("x", 2)) == [TakeSnapshot("x", 2)]


@pytest.mark.parametrize(
    ("request_of_x", "reason"),
    [
        (Request("bounded", member("x")), "uses the protocol hybrid"),
        (Request("hybrid", member("y")), "has 4 members, of at most 4"),
    ],
)
def test_a_sponsor_refuses_with_a_reason(request_of_x: Request, reason: str) -> None:
    sponsor = make("a", "b", "c", "d") if "members" in reason else make("a", "b")
    ((target, refused),) = hear(sponsor, request_of_x.member.name, request_of_x)
    assert target == request_of_x.member.name
    assert isinstance(refused, Refused)
    assert reason in refused.reason


def test_the_application_may_refuse_a_newcomer() -> None:
    sponsor = make("a", settings=replace(SETTINGS, accept=lambda name: name != "x"))
    ((_, refused),) = hear(sponsor, "x", Request("hybrid", member("x")))
    assert refused == Refused(1, "the application has not accepted it")
    assert hear(sponsor, "y", Request("hybrid", member("y"))) != []


def test_a_name_that_is_taken_by_the_sponsor_is_refused() -> None:
    ((_, refused),) = hear(make("a"), "a", Request("hybrid", member("a", 9)))
    assert refused == Refused(9, "the name 'a' is taken")


def test_nobody_asks_for_the_admission_of_somebody_else() -> None:
    with pytest.raises(PeerError, match="x asks for the admission of y"):
        hear(make("a"), "x", Request("hybrid", member("y")))


def test_an_old_number_of_admission_is_answered_with_the_known_one() -> None:
    sponsor = make("a", "b")
    assert hear(sponsor, "b", Request("hybrid", member("b", 1))) == [("b", Outdated(1))]
    later = hear(sponsor, "b", Request("hybrid", member("b", 2, incarnation=8)))
    assert later[1] == AddMember(member("b", 2, incarnation=8))


def test_a_sponsor_gives_signs_and_then_gives_the_newcomer_up() -> None:
    sponsor = make("a", "b")
    hear(sponsor, "x", Request("hybrid", member("x")))
    assert sponsor.next_timer() == 1.0
    sponsor.handle_timer(1.0)
    assert told(sponsor.effects()) == [("x", Progress(1, ("b",)))]
    sponsor.handle_timer(60.0)
    assert told(sponsor.effects()) == [
        RemoveMember("x", False),
        ("all", Removing("x", 1)),
        ("x", Excluded(1, 2, "a")),
    ]
    assert sponsor.next_timer() is None


def test_a_snapshot_above_the_limit_is_not_sent() -> None:
    sponsor = make("a")
    hear(sponsor, "x", Request("hybrid", member("x")))
    sponsor.member_added("x", 1, 0.0)
    sponsor.effects()
    sponsor.snapshot_taken("x", 1, bytes(1001), [], 0.0)
    ((_, refused),) = told(sponsor.effects())
    assert isinstance(refused, Refused)
    assert "1001 bytes; at most 1000" in refused.reason


# Admission, at the other members.


def test_a_member_confirms_when_its_messages_reach_the_newcomer() -> None:
    other = make("b", "a")
    x = member("x", 3, incarnation=9)
    assert deliver(other, "a", 1, Adding(x)) == [AddMember(x)]
    other.member_added("x", 8, 0.0)
    assert other.effects() == []
    other.member_added("x", 9, 0.0)
    assert told(other.effects()) == [("a", "room", Added("x", 3))]
    # Another attempt through another sponsor, of the same incarnation.
    again = replace(x, admission=4)
    assert deliver(other, "a", 2, Adding(again)) == [AddMember(again)]
    other.member_added("x", 9, 0.0)
    assert told(other.effects()) == [("a", "room", Added("x", 4))]


def test_a_restarted_newcomer_is_confirmed_only_when_it_is_reached() -> None:
    other = make("b", "a")
    deliver(other, "a", 1, Adding(member("x", 3, incarnation=9)))
    other.member_added("x", 9, 0.0)
    other.effects()
    restarted = member("x", 4, incarnation=10)
    assert deliver(other, "a", 2, Adding(restarted)) == [AddMember(restarted)]
    other.member_added("x", 9, 0.0)
    assert other.effects() == []
    other.member_added("x", 10, 0.0)
    assert told(other.effects()) == [("a", "room", Added("x", 4))]


def test_statements_about_an_earlier_admission_change_nothing() -> None:
    other = make("b", "a")
    deliver(other, "a", 1, Adding(member("x", 5)))
    for late in (Adding(member("x", 4)), Removing("x", 4)):
        assert deliver(other, "a", 2, late) == []
    assert [peer.name for peer in other.peers] == ["a", "x"]


def test_a_newcomer_is_a_member_when_it_has_caught_up() -> None:
    other = make("b", "a")
    deliver(other, "a", 1, Adding(member("x")))
    assert other.members == ["a", "b"]
    assert deliver(other, "x", 1, JoinedNotice(1)) == [MemberChanged("x", "joined", "x")]
    assert other.members == ["a", "b", "x"]


# Admission, at the newcomer.


def admitted(*names: str, settings: MembershipSettings = SETTINGS) -> RoomMembership:
    """Return a newcomer to which ``a`` has offered the room."""
    membership = newcomer("a", settings=settings)
    membership.effects()
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    entries = tuple(RosterEntry(member(n), MemberState.JOINED) for n in names)
    hear(membership, "a", Offer(1, entries))
    for name in names:
        membership.member_added(name, 1, 0.0)
    return membership


def test_an_offer_names_the_members() -> None:
    membership = newcomer("a")
    membership.effects()
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    offer = Offer(1, (RosterEntry(member("a"), MemberState.JOINED),))
    assert hear(membership, "a", offer)[0] == AddMember(member("a"))
    assert not membership.is_member
    assert hear(membership, "b", offer) == []


def test_messages_wait_for_the_snapshot_and_those_in_the_cut_are_dropped() -> None:
    membership = admitted("a", "b")
    assert payloads(deliver(membership, "a", 4, b"in the cut")) == []
    assert payloads(deliver(membership, "b", 8, b"after the cut")) == []
    reaction = send_snapshot(
        membership, "a", header("a", "b", cut=(CutEntry("a", 1, 5), CutEntry("b", 1, 7)))
    )
    assert reaction[1:] == [Restore(b"state", (CutEntry("a", 1, 5), CutEntry("b", 1, 7)))]
    membership.restored(0.0)
    assert membership.effects() == []
    reaction = deliver(membership, "a", 6, CutNotice(1))
    assert payloads(reaction) == [b"after the cut"]
    assert reaction[1:] == [("all", JoinedNotice(1)), Joined(has_founded=False)]


def test_a_message_in_the_cut_may_arrive_after_the_snapshot() -> None:
    membership = admitted("a", "b")
    send_snapshot(membership, "a", header("a", "b", cut=(CutEntry("b", 1, 5),)))
    membership.restored(0.0)
    deliver(membership, "a", 1, CutNotice(1))
    assert membership.is_filtering
    assert payloads(deliver(membership, "b", 5, b"five")) == []
    assert payloads(deliver(membership, "b", 6, b"six")) == [b"six"]
    assert not membership.is_filtering


def test_the_numbers_of_another_history_are_not_those_of_the_cut() -> None:
    membership = admitted("a", "b")
    send_snapshot(membership, "a", header("a", "b", cut=(CutEntry("b", 2, 5),)))
    membership.restored(0.0)
    deliver(membership, "a", 1, CutNotice(1))
    assert payloads(deliver(membership, "b", 1, b"restarted")) == [b"restarted"]


def test_a_newcomer_is_no_member_before_the_notice_of_the_cut() -> None:
    membership = admitted("a")
    send_snapshot(membership, "a", header("a"))
    membership.restored(0.0)
    for source, notice in (("b", CutNotice(1)), ("a", CutNotice(2))):
        assert deliver(membership, source, 1, notice) == []
    assert not membership.is_member
    deliver(membership, "a", 2, CutNotice(1))
    assert membership.is_member


def test_a_newcomer_sends_nothing_before_it_reaches_all_members() -> None:
    """The member b was restarted: what is sent to its former incarnation is lost."""
    membership = admitted("a", "b")
    again = RosterEntry(member("b", 2, incarnation=9), MemberState.JOINED)
    membership.receive_control("a", encode_control(Offer(1, (again,))), 0.0)
    send_snapshot(membership, "a", header("a", "b"))
    membership.restored(0.0)
    assert deliver(membership, "a", 1, CutNotice(1)) == []
    assert not membership.is_member
    assert membership.waiting_for == ["b"]
    membership.member_added("b", 9, 0.0)
    assert told(membership.effects()) == [
        ("all", JoinedNotice(1)), Joined(has_founded=False),
    ]  # fmt: skip


def test_a_newcomer_sends_nothing_before_it_reaches_other_newcomers() -> None:
    """What it sends to a former incarnation of y is lost, and in no snapshot for y."""
    membership = admitted("a")
    deliver(membership, "a", 1, Adding(member("y", 2, incarnation=9)))
    send_snapshot(membership, "a", header("a"))
    membership.restored(0.0)
    deliver(membership, "a", 2, CutNotice(1))
    assert not membership.is_member
    assert membership.waiting_for == ["y"]
    membership.member_added("y", 9, 0.0)
    assert membership.is_member


def test_a_newcomer_confirms_another_one_before_it_is_a_member() -> None:
    membership = admitted("a", "b")
    assert deliver(membership, "b", 1, Adding(member("y"))) == [AddMember(member("y"))]
    membership.member_added("y", 1, 0.0)
    assert told(membership.effects()) == [("b", "room", Added("y", 1))]


def test_a_silent_sponsor_is_replaced_by_another_member() -> None:
    membership = admitted("a", "b")
    assert membership.next_timer() == 3.0
    membership.handle_timer(3.0)
    assert told(membership.effects()) == [
        ("a", Inquiry("x")),
        ("b", Request("hybrid", member("x", 2))),
    ]
    # What the former sponsor sends late is of an earlier attempt.
    assert send_snapshot(membership, "a", header("a", "b")) == []


def test_the_snapshot_of_an_earlier_attempt_is_ignored() -> None:
    membership = admitted("a")
    membership.handle_timer(3.0)
    membership.effects()
    assert hear(membership, "a", Answer(AnswerKind.PRESENT, ())) == [
        ("a", Request("hybrid", member("x", 2)))
    ]
    assert send_snapshot(membership, "a", header("a"), admission=1) == []
    assert send_snapshot(membership, "a", header("a"), admission=2) != []


def test_a_sign_of_the_sponsor_extends_the_wait() -> None:
    membership = admitted("a", "b")
    hear(membership, "a", Progress(1, ("b",)), 2.0)
    assert membership.waiting_for == ("b",)
    assert membership.next_timer() == 5.0


def test_a_busy_sponsor_is_asked_again_later() -> None:
    membership = admitted("a")
    assert hear(membership, "a", Answer(AnswerKind.BUSY, ())) == [("a", Inquiry("x"))]
    assert membership.next_timer() == 0.5


def test_a_refusal_ends_the_join() -> None:
    membership = newcomer("a")
    membership.effects()
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    assert hear(membership, "a", Refused(1, "no")) == [JoinFailed("a refuses: no")]
    assert hear(membership, "a", Answer(AnswerKind.PRESENT, ())) == []


def test_a_newcomer_that_gives_up_says_goodbye_to_those_that_have_added_it() -> None:
    membership = admitted("a")
    membership.cancel(0.0)
    assert told(membership.effects()) == [("all", Leaving(1)), JoinFailed("cancelled")]


def test_a_known_admission_is_exceeded() -> None:
    membership = newcomer("a")
    membership.effects()
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    assert hear(membership, "a", Outdated(41)) == [
        ("a", Request("hybrid", member("x", 42)))
    ]
    with pytest.raises(PeerError, match="out of range"):
        hear(membership, "a", Outdated(1 << 62))


def test_a_damaged_snapshot_is_asked_for_again() -> None:
    membership = admitted("a")
    sender = SnapshotSender(1, header("a"), 1 << 20, 1)
    hear(membership, "a", sender.start())
    (chunk,) = sender.chunks()
    damaged = Chunk(1, 0, chunk.data[:-1] + b"?")
    reaction = hear(membership, "a", damaged)
    assert not any(isinstance(effect, Restore) for effect in reaction)
    assert reaction[-1] == ("a", Inquiry("x"))


def test_a_snapshot_that_is_too_large_ends_the_join() -> None:
    membership = admitted("a")
    reaction = hear(membership, "a", SnapshotStart(1, 1 << 30, b""))
    assert isinstance(reaction[-1], JoinFailed)
    assert "snapshot_bytes_max" in reaction[-1].reason


def test_too_many_held_messages_end_the_join() -> None:
    membership = admitted("a")
    for number in (1, 2, 3):
        assert deliver(membership, "a", number, b"held") == []
    reaction = deliver(membership, "a", 4, b"one too many")
    assert reaction[0] == ("all", Leaving(1))
    assert isinstance(reaction[1], JoinFailed)
    assert "held_messages_max" in reaction[1].reason


# Leaving and removal.


def test_a_member_says_goodbye_and_is_silent_then() -> None:
    membership = make("b", "a")
    membership.leave(0.0)
    assert told(membership.effects()) == [("all", Leaving(1)), Left()]
    assert deliver(membership, "a", 1, Adding(member("x"))) == []
    assert hear(membership, "x", Inquiry("x")) == [("x", Answer(AnswerKind.ABSENT, ()))]


def test_a_sponsor_that_leaves_sends_its_newcomers_away() -> None:
    sponsor = make("a", "b")
    hear(sponsor, "x", Request("hybrid", member("x")))
    sponsor.leave(0.0)
    assert told(sponsor.effects())[0] == ("x", Answer(AnswerKind.BUSY, ()))


def test_a_removal_is_taken_up_by_the_others() -> None:
    remover, other = make("a", "b", "c"), make("b", "a", "c")
    remover.remove("c", 0.0)
    removed, changed, broadcast, notice = told(remover.effects())
    assert (removed, changed) == (
        RemoveMember("c", False), MemberChanged("c", "removed", "a"),
    )  # fmt: skip
    assert broadcast == ("all", Removing("c", 1))
    assert notice == ("c", Excluded(1, 2, "a"))
    assert deliver(other, "a", 1, Removing("c", 1)) == [
        RemoveMember("c", False),
        MemberChanged("c", "removed", "a"),
        ("c", Excluded(1, 2, "a")),
    ]
    other.member_lost("c", 0.0)
    assert other.effects() == []


def test_a_member_may_disagree_with_a_removal() -> None:
    other = make("b", "a", "c", settings=DISAGREEING)
    assert deliver(other, "a", 1, Removing("c", 1)) == []
    assert other.members == ["a", "b", "c"]


def test_only_a_member_can_be_removed() -> None:
    with pytest.raises(LocalError, match="'z' is not a member of the room 'room'"):
        make("a", "b").remove("z", 0.0)


def test_a_member_that_most_have_removed_joins_again() -> None:
    membership = make("c", "a", "b")
    reaction = hear(membership, "a", Excluded(1, 2, "a"))
    assert reaction == [Rejoining("a"), ("a", Request("hybrid", member("c", 2)))]
    assert not membership.is_member
    # It holds messages from now on, like any newcomer.
    assert deliver(membership, "b", 1, b"held") == []


def test_the_larger_part_of_a_divided_room_stays() -> None:
    larger = make("c", "d", "e")
    assert hear(larger, "a", Excluded(0, 2, "a")) == [("a", Excluded(0, 3, "c"))]
    assert larger.is_member


def test_a_notice_of_an_earlier_removal_changes_nothing() -> None:
    membership = make("c", "a", "b")
    hear(membership, "a", Excluded(1, 2, "a"))
    assert hear(membership, "b", Excluded(1, 2, "a")) == []


def test_a_newcomer_that_was_removed_begins_anew() -> None:
    """Also if it has begun another attempt since: what it has sent was given up."""
    membership = newcomer("a", "b")
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    offer = Offer(1, (RosterEntry(member("a"), MemberState.JOINED),))
    hear(membership, "a", offer)
    membership.handle_timer(3.0)  # The sponsor is silent.
    membership.effects()
    rejoining, *_ = hear(membership, "b", Excluded(1, 2, "a"), 3.0)
    assert rejoining == Rejoining("b")
    assert hear(membership, "b", Excluded(1, 2, "a"), 3.0) == []  # It has begun anew.


def test_a_member_that_stays_removes_the_one_that_has_removed_it() -> None:
    """Otherwise one of two members would wait for ever for the other one."""
    membership = make("a", "b")
    assert hear(membership, "b", Excluded(1, 1, "b"), 1.0) == []
    assert membership.next_timer() == 4.0
    membership.handle_timer(3.9)
    assert membership.effects() == []
    membership.handle_timer(4.0)
    assert told(membership.effects()) == [
        RemoveMember("b", False),
        MemberChanged("b", "removed", "a"),
        ("all", Removing("b", 1)),
        ("b", Excluded(1, 1, "a")),
    ]
    assert membership.next_timer() is None


def test_a_member_that_others_remove_later_does_not_remove_the_first_one() -> None:
    membership = make("a", "b", "c")
    assert hear(membership, "b", Excluded(1, 2, "b"), 1.0) == []
    rejoining, *_ = hear(membership, "c", Excluded(1, 2, "b"), 2.0)
    assert rejoining == Rejoining("c")
    membership.handle_timer(4.0)
    assert not any(isinstance(each, RemoveMember) for each in membership.effects())


def test_a_member_whose_removal_of_a_node_is_under_way_admits_it_later() -> None:
    removing = {"x"}
    settings = replace(SETTINGS, can_admit=lambda name: name not in removing)
    sponsor = make("a", "b", settings=settings)
    for frame in (Inquiry("x"), Request("hybrid", member("x"))):
        ((_, answer),) = hear(sponsor, "x", frame)
        assert answer.kind is AnswerKind.BUSY
    ((_, answer),) = hear(sponsor, "y", Inquiry("y"))
    assert answer.kind is AnswerKind.PRESENT
    removing.clear()
    ((_, answer),) = hear(sponsor, "x", Inquiry("x"))
    assert answer.kind is AnswerKind.PRESENT
    asking = newcomer("a")
    asking.effects()
    hear(asking, "a", Answer(AnswerKind.BUSY, ()))
    asking.handle_timer(60.0)
    (failed,) = told(asking.effects())
    assert isinstance(failed, JoinFailed)
    assert "a cannot admit it yet" in failed.reason


def test_the_patience_with_a_sponsor_doubles() -> None:
    membership = newcomer("a")
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()))
    assert membership.next_timer() == 3.0
    membership.handle_timer(3.0)
    hear(membership, "a", Answer(AnswerKind.PRESENT, ()), 3.0)
    assert membership.next_timer() == 9.0


def test_nodes_that_are_found_later_are_asked() -> None:
    membership = newcomer("a")
    membership.effects()
    membership.add_candidates([("a", "a"), ("b", "b")], 1.0)
    assert told(membership.effects()) == [Connect("b", "b"), ("b", Inquiry("x"))]
    hear(membership, "b", Answer(AnswerKind.PRESENT, ()))
    membership.add_candidates([("c", "c")], 1.0)
    assert membership.effects() == []


def test_a_sender_that_is_no_member_is_told_so() -> None:
    membership = make("a", "b", "c")
    membership.remove("c", 0.0)
    membership.effects()
    membership.unknown_sender("c", 0.0)
    assert told(membership.effects()) == [("c", Excluded(1, 2, "a"))]


# Journal, and invalid input.


def test_a_restart_with_a_journal_continues_with_the_stored_members() -> None:
    membership = make("a", "b", "c")
    membership.remove("c", 0.0)
    stored = membership.roster
    restarted = RoomMembership("room", "hybrid", member("a", 50), SETTINGS)
    restarted.resume(stored, 0.0)
    assert restarted.effects()[0] == AddMember(member("b"))
    assert restarted.members == ["a", "b"]
    assert restarted.is_member
    assert deliver(restarted, "b", 1, Adding(member("c", 1))) == []


def test_a_damaged_roster_is_refused() -> None:
    restarted = RoomMembership("room", "hybrid", member("a"), SETTINGS)
    with pytest.raises(PeerError, match="damaged"):
        restarted.resume(encode_control(Leaving(1)), 0.0)


@pytest.mark.parametrize("data", [b"", b"\2", b"\1", b"\1\x01\0"])
def test_an_invalid_payload_in_the_room_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        make("a", "b").receive_in_room(Arrived("b", 1, data), 0.0)


def test_a_message_of_the_room_is_refused_outside_and_the_other_way_round() -> None:
    with pytest.raises(PeerError, match="unexpected Leaving outside the room"):
        hear(make("a", "b"), "b", Leaving(1))
    with pytest.raises(PeerError, match="unexpected Inquiry in the room"):
        deliver(make("a", "b"), "b", 1, Inquiry("b"))
