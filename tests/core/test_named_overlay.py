"""Overlays whose processes share no ids: definitions, translation, dropped frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.codec import Frame, decode, encode
from antecede.core.config import ProcessConfig
from antecede.core.link import TIMEOUTS_MAX, ReliableLink
from antecede.core.link_frames import Segment
from antecede.core.overlay.definition import Definition, named_ids, translated
from antecede.core.overlay.directory import OWN_ID, Directory
from antecede.core.overlay.named_overlay import NamedOverlay
from antecede.core.overlay.spray_frames import Answer, Forward, Offer, Subscribe
from antecede.core.overlay.spray_overlay import (
    LinkNotice,
    SprayOverlay,
    UnlinkNotice,
)
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.pc_broadcast.frames import (
    Newcomer,
    Ping,
    Pong,
    Summary,
    Welcome,
)
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.registry import protocol
from antecede.errors import ConfigError, PeerError

INFO = protocol("pc-broadcast")
BOB, CID = ProcessId(1), ProcessId(2)


def make(name: str, *, newcomer: bool = False, reliable: bool = True) -> NamedOverlay:
    """Return the process of a node, without the link layer."""
    config = ProcessConfig(
        processes=1,
        directory=Directory(name, 7),
        newcomers=frozenset([OWN_ID]) if newcomer else frozenset(),
        exchange_s=60.0,
        reliable=reliable,
    )
    process = INFO.make(OWN_ID, config)
    assert isinstance(process, NamedOverlay)
    return process


def directory_of(process: NamedOverlay) -> Directory:
    assert process.overlay is not None
    return process.overlay.directory


def transmitted(process: ProcessBase, target: ProcessId) -> list[Frame]:
    return [each.frame for each in process.frames_to_transmit() if each.target == target]


def known(process: NamedOverlay, name: str, address: bytes = b"") -> ProcessId:
    """Let a process know another one, and return its id."""
    directory = directory_of(process)
    found = directory.id_of(name, 7)
    directory.set_address(found, address or name.encode())
    return found


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@given(st.integers(0, 2**40), NAMES, st.integers(0, 2**63 - 1), st.binary(max_size=255))
def test_a_definition_is_encoded(id: int, name: str, history: int, address: bytes) -> None:
    definition = Definition(id, name.encode(), history, address)
    datagram = encode([definition])
    assert len(datagram) == 1 + definition.size()
    (read,) = decode(datagram, INFO.read)
    assert isinstance(read, Definition)
    assert (read.id, read.name, read.history, read.address) == (
        id,
        name.encode(),
        history,
        address,
    )


@pytest.mark.parametrize(
    ("name", "address"), [(b"", b""), (b"n" * 256, b""), (b"ann", b"a" * 256)]
)
def test_names_and_addresses_of_invalid_length_are_refused(
    name: bytes, address: bytes
) -> None:
    datagram = encode([Definition(5, name, 7, address)])
    with pytest.raises(PeerError, match="invalid definition of process 5"):
        decode(datagram, INFO.read)


def test_a_definition_with_another_head_is_refused() -> None:
    datagram = encode([Definition(5, b"ann", 7, b"")])
    flagged = bytes([datagram[0], datagram[1] ^ 1]) + datagram[2:]
    with pytest.raises(PeerError):
        decode(flagged, INFO.read)


@given(st.binary(max_size=40))
def test_hostile_bytes_are_frames_or_errors(data: bytes) -> None:
    process = make("ann")
    try:
        frames = decode(b"\x01\x7e" + data, INFO.read)
    except PeerError:
        return
    for frame in frames:
        try:
            process.receive(BOB, frame, 0.0)
        except PeerError:
            continue


@pytest.mark.parametrize(
    ("frame", "ids"),
    [
        (RelayedMessage(CID, 3, b"x"), [2]),
        (Ping(BOB, CID, 1, True), [1, 2]),
        (Summary(1, {BOB: 4, CID: 5}), [1, 2]),
        (Offer(1, [BOB, CID]), [1, 2]),
        (Answer(1, [CID]), [2]),
        (Forward(CID), [2]),
        (LinkNotice(2), [2]),
        (LinkNotice(-1), []),
        (UnlinkNotice(), []),
        (Subscribe(), []),
        (Pong(1), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_id_in_a_frame_is_translated(frame: Frame, ids: list[int]) -> None:
    assert named_ids(frame) == ids
    other = translated(frame, lambda each: ProcessId(each + 10))
    assert named_ids(other) == [each + 10 for each in ids]
    back = translated(other, lambda each: ProcessId(each - 10))
    assert encode([back]) == encode([frame])


def test_a_definition_precedes_the_first_frame_that_names_an_id() -> None:
    ann = make("ann")
    bob, cid = known(ann, "bob"), known(ann, "cid", b"somewhere")
    ann.connect(bob, 0.0)
    ann.receive(bob, Subscribe(), 0.0)
    ann.frames_to_transmit()
    ann.receive(cid, Subscribe(), 0.0)
    first, second = transmitted(ann, bob)
    assert isinstance(first, Definition)
    assert (first.id, first.name, first.address) == (cid, b"cid", b"somewhere")
    assert isinstance(second, Forward)
    ann.receive(cid, Subscribe(), 0.0)
    (again,) = transmitted(ann, bob)
    assert isinstance(again, Forward)


def test_a_process_is_known_by_its_name_and_history() -> None:
    ann = make("ann")
    bob = known(ann, "bob")
    ann.receive(bob, Definition(5, b"cid", 7, b"there"), 0.0)
    ann.receive(bob, Definition(6, b"cid", 9, b""), 0.0)
    ann.receive(bob, Definition(9, b"ann", 7, b""), 0.0)
    directory = directory_of(ann)
    ann.receive(bob, RelayedMessage(ProcessId(5), 1, b"x"), 0.0)
    ann.receive(bob, RelayedMessage(ProcessId(6), 1, b"y"), 0.0)
    ann.receive(bob, RelayedMessage(ProcessId(0), 1, b"z"), 0.0)
    sources = [directory.identity(each.source) for each in ann.messages_to_deliver()]
    assert sources == [("cid", 7), ("cid", 9), ("bob", 7)]
    with pytest.raises(PeerError, match="this process has not sent it"):
        ann.receive(bob, RelayedMessage(ProcessId(9), 1, b"own"), 0.0)


def test_a_directory_lists_the_processes_and_reports_new_ones() -> None:
    directory = Directory("ann", 7)
    reported: list[tuple[int, str, int]] = []
    directory.on_new = lambda *process: reported.append(process)
    bob = directory.id_of("bob", 7)
    assert directory.id_of("bob", 7) == bob
    assert directory.id_of("ann", 7) == OWN_ID
    unknown = directory.new_id()
    assert (directory.knows(bob), directory.knows(unknown)) == (True, False)
    assert len(directory) == 2
    assert directory.identities() == [(OWN_ID, "ann", 7), (bob, "bob", 7)]
    assert reported == [(bob, "bob", 7)]


def test_the_overlay_shows_its_links_and_its_broadcasts() -> None:
    ann = make("ann", newcomer=True)
    bob = known(ann, "bob")
    ann.connect(bob, 0.0)
    links = ann.overlay
    assert links is not None
    assert links.peers() == ann.inner.links == [bob]
    assert (links.is_newcomer, links.unsafe_peers()) == (True, [bob])
    assert ann.broadcast(b"x", 0.0) == 1
    assert ann.next_timer() == ann.inner.next_timer()
    ann.disconnect(bob, 1.0)
    assert links.peers() == [bob]  # The link lingers.
    ann.handle_timer(1e6)
    assert links.peers() == []


@pytest.mark.parametrize(
    "frame",
    [
        RelayedMessage(ProcessId(8), 1, b"x"),
        Offer(1, [ProcessId(8)]),
        Definition(0, b"bob", 7, b""),
        Definition(5, b"\xff", 7, b""),
    ],
    ids=["message", "offer", "own id", "name"],
)
def test_what_is_not_defined_is_refused(frame: Frame) -> None:
    ann = make("ann")
    bob = known(ann, "bob")
    with pytest.raises(PeerError):
        ann.receive(bob, frame, 0.0)
    assert ann.messages_to_deliver() == []


def test_a_directory_needs_an_overlay_that_changes() -> None:
    config = ProcessConfig(processes=1, directory=Directory("ann", 7))
    with pytest.raises(ConfigError, match="set exchange_s"):
        INFO.make(OWN_ID, config)
    with pytest.raises(ConfigError, match="must have the id 0"):
        NamedOverlay(_overlay(BOB), Directory("ann", 7))


def _overlay(id: ProcessId) -> SprayOverlay:
    config = ProcessConfig(processes=2, exchange_s=60.0, reliable=True)
    process = INFO.make(id, config)
    assert isinstance(process, SprayOverlay)
    return process


# The link layer drops frames to a peer that is down.


def test_a_link_is_unsafe_again_after_frames_were_dropped() -> None:
    process = PcBroadcast(OWN_ID, [BOB, CID])
    process.broadcast(b"1", 0.0)
    assert len(process.frames_to_transmit()) == 2
    process.segments_dropped(BOB, 1.0)
    assert process.links == [CID]
    assert process.unsafe_links == [BOB]
    process.frames_to_transmit()
    process.broadcast(b"2", 2.0)
    assert [each.target for each in process.frames_to_transmit()] == [CID]
    assert process.buffered_for(BOB) == 1
    process.segments_dropped(ProcessId(9), 3.0)  # There is no link to it.
    assert process.links == [CID]


def test_a_new_link_to_a_newcomer_welcomes_it_if_there_are_no_messages() -> None:
    process = PcBroadcast(OWN_ID)
    process.receive(BOB, Newcomer(), 0.0)
    assert process.frames_to_transmit() == []
    process.connect(BOB, 1.0)
    summary, welcome = transmitted(process, BOB)
    assert isinstance(summary, Summary)
    assert summary.delivered == {}
    assert isinstance(welcome, Welcome)
    assert process.links == [BOB]


def test_ids_are_defined_again_after_frames_were_dropped() -> None:
    config = ProcessConfig(processes=1, directory=Directory("ann", 7), exchange_s=1e6)
    ann = INFO.make(OWN_ID, config)
    assert isinstance(ann, ReliableLink)
    assert ann.overlay is not None
    directory = ann.overlay.directory
    bob, cid = directory.id_of("bob", 7), directory.id_of("cid", 7)
    ann.connect(bob, 0.0)

    def defined() -> list[int]:
        return [
            each.frame.frame.id
            for each in ann.frames_to_transmit()
            if isinstance(each.frame, Segment)
            and isinstance(each.frame.frame, Definition)
            and not each.is_retransmission
        ]

    ann.receive(cid, Segment(1, 0, Subscribe()), 0.0)
    assert defined() == [cid]
    ann.disconnect(bob, 0.0)
    now = 0.0
    for _ in range(TIMEOUTS_MAX + 1):
        now += 1000.0
        ann.handle_timer(now)
    ann.frames_to_transmit()
    assert ann.backlog(bob) == 0  # All frames to bob were dropped.
    ann.connect(bob, now)
    ann.receive(cid, Segment(2, 0, Subscribe()), now)
    assert defined() == [cid]
