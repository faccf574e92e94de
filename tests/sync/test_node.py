"""Nodes for threads: real sockets, real threads, and processes that are interrupted."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import ConfigError, Limits, LocalError, Message, WindowFull, sync
from tests.net.limits import quick_limits

PROCESS_TIMEOUT_S = 120


@contextmanager
def open_pair(**options: Any) -> Iterator[tuple[sync.Node, sync.Node]]:  # noqa: ANN401
    """Open two nodes that know each other."""
    options.setdefault("limits", quick_limits())
    with sync.Node("ann", **options) as ann, sync.Node("bob", **options) as bob:
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        yield ann, bob


def run_program(text: str, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
        **options,
    )


def test_messages_of_every_kind_arrive() -> None:
    with open_pair() as (ann, bob):
        assert ann.send("bob", b"one") == 1
        assert ann.multicast(["bob"], b"two") == 2
        assert ann.broadcast(b"three") == 3
        received = [bob.receive() for _ in range(3)]
        assert [message.data for message in received] == [b"one", b"two", b"three"]
        assert [message.number for message in received] == [1, 2, 3]
        assert {message.source for message in received} == {"ann"}
        ann.flush()
        assert (ann.name, ann.peers) == ("ann", ["bob"])
        assert (bob.stats().inbox, ann.stats().in_flight) == (0, 0)
        assert "antecede" in bob.metrics()
        assert ann.blocked_messages() == []
        bob.commit(*received)  # Without a journal this does nothing.


def test_a_node_takes_the_arguments_of_the_asynchronous_node() -> None:
    with pytest.raises(ConfigError, match="node name"):
        sync.Node("")
    with pytest.raises(TypeError, match="no_such_option"):
        sync.Node("ann", no_such_option=1)  # type: ignore[call-arg]


def test_a_timeout_raises_and_takes_no_message() -> None:
    with open_pair() as (ann, bob):
        with pytest.raises(TimeoutError, match=r"^bob: no message .* after 0\.01 s$"):
            bob.receive(timeout=0.01)
        with pytest.raises(TimeoutError, match="after 0 s"):
            bob.receive(timeout=0)
        ann.send("bob", b"late")
        ann.flush(timeout=60)
        assert bob.receive(timeout=0).data == b"late"


def test_a_send_that_finds_no_room_ends_with_its_timeout() -> None:
    limits = quick_limits(window_copies_max=2)
    with sync.Node("ann", limits=limits) as ann:
        ann.add_peer("nobody", "127.0.0.1:9")
        ann.send("nobody", b"1")
        ann.send("nobody", b"2")
        with pytest.raises(TimeoutError, match=r"ann: there was no room .* to nobody"):
            ann.send("nobody", b"3", timeout=0.01)
        with pytest.raises(WindowFull):
            ann.send("nobody", b"3", wait=False)
        with pytest.raises(TimeoutError, match="not delivered everywhere after"):
            ann.flush(timeout=0.01)
        ann.close(0)


def test_an_error_of_the_node_reaches_the_caller() -> None:
    with open_pair() as (ann, _):
        with pytest.raises(LocalError, match="nobody"):
            ann.send("nobody", b"")
        with pytest.raises(LocalError, match="not the string"):
            ann.multicast("bob", b"")
        ann.remove_peer("bob", stopped=True)
        assert ann.peers == []


def test_a_node_that_is_not_open_is_an_error_that_names_the_fix() -> None:
    node = sync.Node("ann")
    node.close()  # Closing a node that is not open does nothing.
    for call in (lambda: node.send("bob", b""), node.receive, lambda: node.address):
        with pytest.raises(LocalError, match=r"use `with sync\.Node"):
            call()
    with node:
        pass
    node.close()
    with pytest.raises(LocalError, match="ann is closed; open a new node"):
        node.send("ann", b"")
    with pytest.raises(LocalError, match="ann is closed"):
        node.receive()
    assert list(node) == []
    with pytest.raises(LocalError, match="a node opens once"):
        node.open()


@pytest.mark.parametrize(
    "wait",
    [lambda node: node.receive(), lambda node: list(node), lambda node: node.flush()],
    ids=["receive", "iterate", "flush"],
)
def test_closing_in_one_thread_ends_the_wait_in_another(
    wait: Callable[[sync.Node], object],
) -> None:
    node = sync.Node("ann", limits=quick_limits())
    node.open()
    node.add_peer("nobody", "127.0.0.1:9")
    node.send("nobody", b"never acked")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait, node)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        node.close(0)
        outcome = waiting.exception(60)
    assert outcome is None or isinstance(outcome, LocalError)


def test_threads_send_and_receive_at_once_and_every_message_arrives_once() -> None:
    senders, each = 4, 50
    with open_pair() as (ann, bob), ThreadPoolExecutor(8) as threads:

        def send(thread: int) -> list[int]:
            return [ann.send("bob", b"%d %d" % (thread, i)) for i in range(each)]

        def receive() -> list[Message]:
            return [bob.receive(timeout=60) for _ in range(senders * each // 2)]

        receiving = [threads.submit(receive) for _ in range(2)]
        sending = [threads.submit(send, thread) for thread in range(senders)]
        numbers = sorted(number for future in sending for number in future.result())
        assert numbers == list(range(1, senders * each + 1))
        received = [future.result() for future in receiving]
        for messages in received:  # Each thread takes them in the order of delivery.
            assert [m.number for m in messages] == sorted(m.number for m in messages)
        everything = {message.data for messages in received for message in messages}
        assert everything == {
            b"%d %d" % (t, i) for t in range(senders) for i in range(each)
        }


def test_an_iteration_ends_when_the_node_is_closed() -> None:
    with ThreadPoolExecutor(1) as threads:
        with open_pair() as (ann, bob):
            reading = threads.submit(lambda: [message.data for message in bob])
            for data in (b"a", b"b", b"c"):
                ann.send("bob", data)
            ann.flush()
            while bob.stats().inbox:  # Delivered; the iteration takes them at once.
                pass
        assert reading.result(60) == [b"a", b"b", b"c"]


def test_a_reply_never_arrives_before_the_question() -> None:
    """Three threads, each with its node; the question is slow to eve only by chance."""
    names = ("ann", "bob", "eve")
    nodes = {name: sync.Node(name, limits=quick_limits()) for name in names}
    with nodes["ann"] as ann, nodes["bob"] as bob, nodes["eve"] as eve:
        for node in nodes.values():
            for peer in nodes.values():
                if peer is not node:
                    node.add_peer(peer.name, peer.address)
        with ThreadPoolExecutor(1) as threads:

            def answer() -> None:
                for _ in range(20):
                    question = bob.receive(timeout=60)
                    bob.broadcast(b"re: " + question.data)

            answering = threads.submit(answer)
            for number in range(20):
                ann.broadcast(b"%d" % number)
            answering.result(60)
        seen: list[bytes] = []
        for _ in range(40):
            data = eve.receive(timeout=60).data
            assert not data.startswith(b"re: ") or data[4:] in seen
            seen.append(data)


def test_an_interrupted_receive_loses_no_message() -> None:
    """Signals interrupt the wait at any time: the message is taken or still there."""
    done = run_program(
        """
        import signal, threading
        from antecede import sync
        from antecede.sync import background_loop

        class Interrupted(Exception):
            pass

        def interrupt(number, frame):
            # Elsewhere, the interrupted caller could lose a message that it has got.
            while frame is not None:
                if frame.f_code is background_loop._Call.run.__code__:
                    raise Interrupted
                frame = frame.f_back

        signal.signal(signal.SIGALRM, interrupt)
        messages, interrupted, received = 300, 0, []
        with sync.Node("ann") as ann, sync.Node("bob") as bob:
            ann.add_peer("bob", bob.address)
            bob.add_peer("ann", ann.address)

            def send_all():
                for number in range(messages):
                    ann.send("bob", b"%d" % number)

            sending = threading.Thread(target=send_all)
            sending.start()
            while len(received) < messages:
                signal.setitimer(signal.ITIMER_REAL, 0.00002 * (len(received) % 20 + 1))
                try:
                    received.append(int(bob.receive().data))
                except Interrupted:
                    interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            sending.join()
        assert received == list(range(messages)), received
        assert interrupted > 0
        print("end")
        """
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_a_node_with_a_journal_commits_from_any_thread(tmp_path: Path) -> None:
    journal = tmp_path / "bob.journal"
    with open_pair(journal=None) as (ann, _):
        ann.remove_peer("bob", stopped=True)
        with sync.Node("bob2", journal=journal, limits=quick_limits()) as bob:
            bob.add_peer("ann", ann.address)
            ann.add_peer("bob2", bob.address)
            ann.send("bob2", b"kept")
            ann.send("bob2", b"left")
            first, second = bob.receive(), bob.receive()
            bob.commit(first)
            with pytest.raises(LocalError, match=r"use antecede\.sync\.Node"):
                asyncio.run(_commit(second))
            address = bob.address
        with sync.Node("bob2", bind=address, journal=journal, limits=quick_limits()) as bob:
            again = bob.receive(timeout=60)
            assert (again.data, again.number) == (b"left", second.number)


async def _commit(message: Message) -> None:
    await message.commit()


def test_a_callback_in_the_thread_of_the_loop_cannot_wait_for_the_loop() -> None:
    with open_pair() as (ann, _):
        outcome: list[BaseException] = []

        async def call() -> None:
            try:
                ann.stats()
            except LocalError as error:
                outcome.append(error)

        assert ann._loop is not None
        ann._loop.call(call)
        assert "must not call methods of antecede.sync.Node" in str(outcome[0])


def test_ctrl_c_ends_a_wait_and_closes_the_node() -> None:
    program = """
        from antecede import sync
        with sync.Node("ann") as node:
            print("waiting", flush=True)
            node.receive()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PROCESS_TIMEOUT_S)
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"


def test_the_interpreter_exits_while_nodes_are_open_and_a_thread_waits(
    tmp_path: Path,
) -> None:
    done = run_program(
        """
        import sys, threading
        from antecede import sync
        node = sync.Node("ann", journal=sys.argv[1] if sys.argv[1:] else None)
        node.open()
        node.send("ann", b"to itself")
        waiting = threading.Thread(target=lambda: list(node), daemon=True)
        waiting.start()
        print("end")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_has_a_loop_of_its_own() -> None:
    done = run_program(
        """
        import os
        from antecede import LocalError, sync
        before = sync.Node("before")
        before.open()
        child = os.fork()
        if child == 0:
            try:
                before.send("before", b"")
            except LocalError as error:
                assert "after the fork" in str(error)
            with sync.Node("after") as node:
                node.send("after", b"")
                assert node.receive(timeout=60).data == b""
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        before.send("before", b"still here")
        assert before.receive(timeout=60).data == b"still here"
        before.close()
        print("end")
        """
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


# The asynchronous node, called from a wrong thread.


@pytest.mark.parametrize(
    "call",
    [
        lambda node: node.send("bob", b""),
        lambda node: node.multicast(["bob"], b""),
        lambda node: node.broadcast(b""),
        lambda node: node.receive(),
        lambda node: node.flush(),
        lambda node: node.remove_peer("bob"),
        lambda node: node.close(),
    ],
    ids=["send", "multicast", "broadcast", "receive", "flush", "remove_peer", "close"],
)
def test_the_asynchronous_node_refuses_a_call_on_another_loop(
    call: Callable[[antecede.Node], Any],
) -> None:
    async def on_another_loop(node: antecede.Node) -> None:
        with pytest.raises(LocalError, match=r"ann belongs to another event loop.*sync"):
            await call(node)

    async def main() -> None:
        async with antecede.Node("ann", limits=Limits()) as ann:
            ann.add_peer("bob", "127.0.0.1:9")
            await asyncio.to_thread(lambda: asyncio.run(on_another_loop(ann)))
            with pytest.raises(LocalError, match="belongs to another event loop"):
                await asyncio.to_thread(ann.add_peer, "eve", "127.0.0.1:10")
            assert ann.peers == ["bob"]
            stats = ann.stats()
            assert (stats.queued, stats.in_flight) == (0, 0)  # Nothing has changed.
            await ann.close(0)

    asyncio.run(main())


def test_events_and_reports_of_waiting_messages() -> None:
    with sync.Node("ann", limits=quick_limits()) as ann:
        events = ann.events()
        with sync.Node("bob", limits=quick_limits()) as bob:
            ann.add_peer("bob", bob.address)
            bob.add_peer("ann", ann.address)
            ann.send("bob", b"")
            assert next(events).peer == "bob"
            ann.flush()
        ann.add_peer("nobody", "127.0.0.1:9")
        number = ann.send("nobody", b"")
        assert any("nobody" in str(report) for report in ann.waiting("ann", number))
        ann.close(0)
    list(events)  # It ends with the node.
