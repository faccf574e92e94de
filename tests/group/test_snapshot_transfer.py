"""The transfer of a snapshot in chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.errors import PeerError
from antecede.group.codec import encode_control
from antecede.group.frames import Chunk, Leaving, SnapshotHeader, SnapshotStart
from antecede.group.snapshot_transfer import (
    SnapshotReceiver,
    SnapshotSender,
    digest_of,
)

STATE_BYTES_MAX = 1000


def header(size: int) -> SnapshotHeader:
    return SnapshotHeader((), (), bytes(range(256)) * (size // 256 + 1))


@given(size=st.integers(0, 900), chunk=st.integers(1, 300), window=st.integers(1, 5))
def test_a_snapshot_arrives_as_it_was_sent_within_the_window(
    size: int, chunk: int, window: int
) -> None:
    sender = SnapshotSender(4, header(size), chunk, window)
    receiver = SnapshotReceiver(sender.start(), STATE_BYTES_MAX)
    under_way = sender.chunks()
    while under_way:
        assert len(under_way) <= window
        ack = receiver.add(under_way.pop(0))
        assert ack.admission == 4
        assert sender.acknowledge(ack.received)
        under_way += sender.chunks()
    assert sender.is_done
    assert receiver.is_complete
    assert receiver.snapshot() == header(size)


def test_a_repeated_confirmation_is_no_progress() -> None:
    sender = SnapshotSender(1, header(500), 100, 2)
    assert len(sender.chunks()) == 2
    assert sender.acknowledge(100)
    assert not sender.acknowledge(100)
    assert len(sender.chunks()) == 1


def test_more_than_was_sent_cannot_be_confirmed() -> None:
    sender = SnapshotSender(1, header(500), 100, 2)
    sender.chunks()
    with pytest.raises(PeerError, match="201 bytes confirmed, only 200 were sent"):
        sender.acknowledge(201)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (Chunk(1, 1, b"a"), "chunk at 1 of a snapshot, expected 0"),
        (Chunk(1, 0, b""), "chunk of 0 bytes at 0 of 4"),
        (Chunk(1, 0, b"abcde"), "chunk of 5 bytes at 0 of 4"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(chunk: Chunk, reason: str) -> None:
    receiver = SnapshotReceiver(SnapshotStart(1, 4, b""), STATE_BYTES_MAX)
    with pytest.raises(PeerError, match=reason):
        receiver.add(chunk)


def test_a_wrong_checksum_is_noticed() -> None:
    data = encode_control(header(0))
    receiver = SnapshotReceiver(
        SnapshotStart(1, len(data), digest_of(data)), STATE_BYTES_MAX
    )
    receiver.add(Chunk(1, 0, data[:-1] + b"?"))
    with pytest.raises(PeerError, match="checksum"):
        receiver.snapshot()


def test_something_else_than_a_snapshot_is_refused() -> None:
    data = encode_control(Leaving(1))
    receiver = SnapshotReceiver(
        SnapshotStart(1, len(data), digest_of(data)), STATE_BYTES_MAX
    )
    receiver.add(Chunk(1, 0, data))
    with pytest.raises(PeerError, match="begins with Leaving"):
        receiver.snapshot()


def test_a_snapshot_above_the_limit_is_refused_at_its_announcement() -> None:
    with pytest.raises(PeerError, match="snapshot_bytes_max"):
        SnapshotReceiver(SnapshotStart(1, 1 << 40, b""), STATE_BYTES_MAX)
