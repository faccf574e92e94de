"""Rooms for threads, on real sockets."""

import threading

import pytest

from antecede import Message, sync
from antecede.errors import JoinError, LocalError
from antecede.net.rooms.events import MemberJoined


def test_threads_join_a_room_and_exchange_messages() -> None:
    state: list[bytes] = [b"one"]
    with sync.Node("ann") as ann, sync.Node("bob", seeds=[ann.address]) as bob:
        room = ann.join("r", snapshot=lambda: b",".join(state))
        events = room.events()
        assert room.broadcast(b"nobody is here") == 0
        received: list[Message] = []
        thread = threading.Thread(target=lambda: received.extend(room))
        thread.start()
        restored: list[bytes] = []
        with bob.join("r", restore=restored.append) as other:
            assert restored == [b"one"]
            assert other.members == ["ann", "bob"]
            assert (other.name, other.protocol) == ("r", room.protocol)
            assert any(isinstance(event, MemberJoined) for event in events)
            other.broadcast(b"hello", timeout=5)
            other.send("ann", b"again", timeout=5)
            other.flush(timeout=5)
            room.multicast(["bob"], b"answer", timeout=5)
            assert other.receive(timeout=5).data == b"answer"
            with pytest.raises(TimeoutError, match="no message was delivered"):
                other.receive(timeout=0)
            assert other.waiting() == []
            assert set(other.stats().peers) == {"ann"}
        assert bob.rooms == []
        room.leave()
        thread.join(10)
        assert [message.data for message in received] == [b"hello", b"again"]
        with pytest.raises(LocalError, match="closed"):
            room.receive()
        bob.leave()


def test_a_node_without_an_answer_raises_in_the_thread() -> None:
    no_answer = pytest.raises(JoinError, match=r"no member answered at 127\.0\.0\.1:9")
    with sync.Node("ann", seeds=["127.0.0.1:9"]) as ann, no_answer:
        ann.join("r", timeout_s=0.5)
