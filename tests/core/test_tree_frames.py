"""``tree``: the encoding of its frames, and refusals."""

from math import inf, nan
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import Frame, ProcessId, decode, encode
from antecede.core.codec import NUMBER_MAX
from antecede.core.link import ReliableLink
from antecede.core.link_frames import Segment, read_link_frame
from antecede.core.overlay.tree_topology import Placement, Topology
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.tree import Tree, TreeMessage, read_tree
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster


def message(
    source: int, number: int, targets: list[int], payload: bytes = b""
) -> TreeMessage:
    return TreeMessage(ProcessId(source), number, [ProcessId(t) for t in targets], payload)


def fields(frame: Frame) -> tuple[int, int, list[int], bytes]:
    assert isinstance(frame, TreeMessage)
    return frame.source, frame.number, [int(t) for t in frame.targets], frame.payload


KNOWN_BYTES = [
    # Head: kind in the high nibble, then three bits of width - 1, then the flag.
    (message(2, 1, [3], b"hi"), "10 01 02 03 02 68 69"),
    (message(2, 256, [3]), "12 01 00 02 03 00"),
    (message(200, 1, [128]), "10 01 c8 01 80 01 00"),
    (message(0, 7, [3, 1], b"x"), "20 07 00 02 03 01 01 78"),
    (message(0, 7, [3, 1, 300]), "20 07 00 03 03 01 ac 02 00"),
    (message(5, 7, [], b"x"), "30 07 05 01 78"),
    (message(5, 2**63 - 1, []), "3e 7f ff ff ff ff ff ff ff 05 00"),
]


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES, ids=str)
def test_a_frame_is_encoded_and_decoded_as_documented(
    frame: TreeMessage, expected: str
) -> None:
    encoded = bytes([1]) + bytes.fromhex(expected)
    assert encode([frame]) == encoded
    assert frame.kind() == encoded[1] >> 4
    (read,) = decode(encoded, read_tree)
    assert fields(read) == fields(frame)


frames = st.builds(
    message,
    st.integers(0, 2**31 - 1),
    st.sampled_from((1, 255, 256, 65_535, 65_536, NUMBER_MAX)) | st.integers(1, NUMBER_MAX),
    st.lists(st.integers(0, 2**31 - 1), max_size=200),
    st.binary(max_size=300),
)


@pytest.mark.long
@given(st.lists(frames, min_size=1, max_size=4))
def test_decoding_inverts_encoding_and_sizes_match(sent: list[TreeMessage]) -> None:
    assert [fields(f) for f in decode(encode(sent), read_tree)] == [fields(f) for f in sent]
    for frame in sent:
        assert len(encode([frame])) == 1 + frame.size()
        assert frame.metadata_size() == len(encode([frame])) - 1 - len(frame.payload)
        assert frame.payload_size() == len(frame.payload)
        assert (frame.message_source(), frame.message_number()) == fields(frame)[:2]
        segment = Segment(3, 0, frame)
        encoded = encode([segment])
        assert len(encoded) == 1 + segment.size()
        (read,) = decode(encoded, lambda reader: read_link_frame(reader, read_tree))
        assert isinstance(read, Segment)
        assert fields(read.frame) == fields(frame)


@given(frames)
def test_a_frame_cut_short_is_refused(frame: TreeMessage) -> None:
    encoded = encode([frame])
    for length in {2, len(encoded) // 2, len(encoded) - 1} - {0, 1, len(encoded)}:
        with pytest.raises(PeerError):
            decode(encoded[:length], read_tree)


@pytest.mark.parametrize(
    ("hexadecimal", "words"),
    [
        ("00 01 00 00", "unknown frame of kind 0"),
        ("40 01 00 00", "unknown frame of kind 4"),
        ("11 01 02 03 00", "kind 1 with its flag set"),
        ("21 01 02 02 03 01 00", "kind 2 with its flag set"),
        ("31 01 02 00", "kind 3 with its flag set"),
        ("20 01 02 00 00", "multicast to 0 targets"),
        ("20 01 02 01 03 00", "multicast to 1 targets"),
        ("20 01 02 ff ff ff 7f 03 01", "cut short"),
    ],
)
def test_invalid_bytes_are_refused(hexadecimal: str, words: str) -> None:
    with pytest.raises(PeerError, match=words):
        decode(bytes([1]) + bytes.fromhex(hexadecimal), read_tree)


def test_the_repr_of_frames_and_deliveries() -> None:
    assert repr(message(2, 1, [3, 4], b"abc")) == (
        "TreeMessage(number=1, payload=3 B, source=2, targets=[3, 4])"
    )
    tree = Tree(ProcessId(0), Topology([0]))
    tree.send([ProcessId(0)], b"abc", 0.0)
    assert repr(tree.messages_to_deliver()) == "[TreeDelivery(0:1 to 0, 3 B)]"


#      0
#     / \
#    1   2      The node under test is 1.
#   / \
#  3   4
PARENTS = [0, 0, 0, 1, 1]


def busy_node() -> Tree:
    tree = Tree(ProcessId(1), Topology(PARENTS))
    tree.send([ProcessId(2)], b"", 0.0)
    tree.receive(ProcessId(0), message(2, 1, [3]), 0.0)
    return tree


NONSENSE: list[tuple[int, Frame]] = [
    (0, message(2, 0, [1])),  # numbers start at 1
    (0, message(2, -1, [])),
    (0, message(5, 1, [1])),  # an unknown source
    (0, message(-1, 1, [1])),
    (0, message(2, 1, [5])),  # an unknown target
    (0, message(2, 1, [3, 5])),
    (0, message(2, 1, [-1])),
    (2, message(2, 1, [1])),  # not a neighbour
    (2, message(2, 1, [])),
    (9, message(2, 1, [1])),  # not a node
    (0, message(3, 1, [1])),  # 3 is a descendant of 1
    (3, message(0, 1, [1])),
    (3, message(4, 1, [])),
    (0, message(1, 1, [3])),  # a message of this node
    (0, message(1, 1, [])),
    (0, message(2, 1, [0])),  # a target behind the sender
    (0, message(2, 1, [3, 2])),
    (3, message(3, 1, [3])),
    (0, message(2, 1, [3, 4, 3])),  # a target twice
    (0, BaselineMessage(1, b"")),
    (0, Frame()),
]


@pytest.mark.parametrize(("source", "frame"), NONSENSE)
def test_an_invalid_frame_raises_peer_error_and_changes_nothing(
    source: int, frame: Frame
) -> None:
    tree = busy_node()
    before = snapshot(tree)
    with pytest.raises(PeerError):
        tree.receive(ProcessId(source), frame, 1.0)
    assert snapshot(tree) == before


@pytest.mark.parametrize(
    ("source", "frame", "onward"),
    [
        (0, message(2, 1, [1]), []),
        (0, message(2, 1, [3]), [3]),
        (0, message(0, 1, [4, 1, 3]), [4, 3]),
        (3, message(3, 1, [2]), [0]),
        (3, message(3, 1, []), [0, 4]),
        (0, message(2, 1, []), [3, 4]),
    ],
    ids=str,
)
def test_a_valid_frame_is_routed(
    source: int, frame: TreeMessage, onward: list[int]
) -> None:
    tree = Tree(ProcessId(1), Topology(PARENTS))
    tree.receive(ProcessId(source), frame, 1.0)
    assert [transmit.target for transmit in tree.frames_to_transmit()] == onward
    assert len(tree.messages_to_deliver()) == (1 in frame.targets or not frame.targets)


@pytest.mark.parametrize(
    ("targets", "payload", "words"),
    [
        ([], b"", "at least one target"),
        ([-1], b"", "process id"),
        ([5], b"", "no target 5: actors are 0 to 4"),
        ([1, 0, 5], b"", "no target 5: actors are 0 to 4"),
        ([True], b"", "process id"),
        ("1", b"", "collection of process ids"),
        ([2], "text", "must be bytes, not str"),
        ([1], None, "must be bytes, not NoneType"),
    ],
)
def test_an_invalid_send_raises_local_error_and_changes_nothing(
    targets: object, payload: object, words: str
) -> None:
    tree = busy_node()
    before = snapshot(tree)
    with pytest.raises(LocalError, match=words):
        tree.send(cast("list[ProcessId]", targets), payload, 1.0)
    if not isinstance(payload, bytes):
        with pytest.raises(LocalError, match=words):
            tree.broadcast(payload, 1.0)
    assert snapshot(tree) == before


@pytest.mark.parametrize("now", [nan, inf, -inf])
def test_a_time_that_is_not_finite_raises_local_error(now: float) -> None:
    tree = busy_node()
    before = snapshot(tree)
    for refused in (
        lambda: tree.send([ProcessId(2)], b"", now),
        lambda: tree.broadcast(b"", now),
        lambda: tree.receive(ProcessId(0), message(2, 1, [1]), now),
        lambda: tree.handle_timer(now),
    ):
        with pytest.raises(LocalError, match="finite"):
            refused()
    assert snapshot(tree) == before


def test_misuse_by_the_driver_raises_local_error() -> None:
    tree = busy_node()
    before = snapshot(tree)
    with pytest.raises(LocalError, match="is this process itself"):
        tree.receive(ProcessId(1), message(2, 1, [1]), 1.0)
    with pytest.raises(LocalError, match="no overlay"):
        tree.connect(ProcessId(2), 1.0)
    with pytest.raises(LocalError, match="no overlay"):
        tree.disconnect(ProcessId(2), 1.0)
    assert snapshot(tree) == before


@pytest.mark.parametrize("id", [5, -1])
def test_a_process_must_be_a_node(id: int) -> None:
    with pytest.raises(ConfigError, match=f"no node {id} in a tree of 5 nodes"):
        Tree(ProcessId(id), Topology(PARENTS))


def test_a_placement_must_be_for_the_same_tree() -> None:
    placement = Placement(Topology(PARENTS), [4, 0])
    with pytest.raises(ConfigError, match="placement is for another tree"):
        Tree(ProcessId(0), Topology([0, 0]), placement)


def test_a_refused_frame_does_not_block_the_link() -> None:
    topology = Topology([0, 0])
    cluster = Cluster("tree", 2, make=lambda own: ReliableLink(Tree(own, topology), True))
    process = cluster.processes[1]
    with pytest.raises(PeerError):
        process.receive(ProcessId(0), Segment(1, 0, message(1, 1, [1])), 0.0)
    process.receive(ProcessId(0), Segment(2, 0, message(0, 1, [1])), 0.0)
    assert len(process.messages_to_deliver()) == 1
