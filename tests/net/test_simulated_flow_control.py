"""Flow control in a simulation: nothing is sent that a full inbox would drop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from antecede import Limits, Node
from antecede.engine import Message
from antecede.net.faults import Faults
from tests.net.simulated import Group

ROUND_TRIP_S = 0.02
QUIET = Faults(delay_s=ROUND_TRIP_S / 2)
SMALL = Limits(inbox_messages_max=50)


def produce(count: int, *targets: str, data: bytes = b"") -> Callable[..., Awaitable[None]]:
    """Return a coroutine that sends numbered messages to each target."""

    async def main(node: Node) -> None:
        for index in range(count):
            for target in targets:
                await node.send(target, b"%s %d " % (node.name.encode(), index) + data)

    return main


def consume(group: Group, name: str) -> None:
    """Receive all messages of a node from now on."""

    async def main(node: Node) -> None:
        async for message in node:
            group.received[name].append(message.data)

    group.start_task(name, main)


def inbox_sizes(group: Group, name: str, seconds: float) -> Iterator[int]:
    """Run, and yield the size of an inbox in short intervals."""
    for _ in range(int(seconds / 0.05)):
        group.run(0.05)
        yield len(group.nodes[name]._runtime.inbox)


def seconds_until(group: Group, condition: Callable[[], bool], limit_s: float) -> float:
    """Run until a condition holds, and return the seconds of the simulation."""
    begun = group.simulation.now
    while not condition() and group.simulation.now < begun + limit_s:
        group.run(ROUND_TRIP_S / 20)
    return group.simulation.now - begun


def retransmitted(group: Group, *names: str) -> int:
    return sum(group.nodes[name].stats().engine.retransmitted for name in names)


def dropped(group: Group, name: str) -> int:
    return group.nodes[name].stats().engine.dropped["inbox"]


def expected(name: str, count: int, data: bytes = b"") -> list[bytes]:
    return [b"%s %d " % (name.encode(), index) + data for index in range(count)]


def of(group: Group, receiver: str, sender: str) -> list[bytes]:
    """Return what a node has received from one sender."""
    return [
        data
        for data in group.received[receiver]
        if data.startswith(b"%s " % sender.encode())
    ]


SENDERS = ("ann", "bob", "cid")


def open_star(group: Group, senders: tuple[str, ...], limits: Limits = SMALL) -> None:
    """Open a hub whose application does not receive, and its senders."""
    group.open("hub", *senders, receive=False, limits=limits)
    for name in senders:
        group.open(name, "hub", limits=limits)
    group.run(1)


def test_delivery_stops_and_resumes_with_the_consumer() -> None:
    with Group(1, QUIET) as group:
        open_star(group, SENDERS)
        for name in SENDERS:
            group.start_task(name, produce(300, "hub"))
        sizes = list(inbox_sizes(group, "hub", 30))
        assert 40 <= max(sizes) <= 50 + len(SENDERS)
        assert dropped(group, "hub") == 0
        assert retransmitted(group, *SENDERS) == 0
        hub = group.nodes["hub"]
        before = hub.stats().engine.delivered
        consume(group, "hub")
        took_s = seconds_until(group, lambda: hub.stats().engine.delivered > before, 60)
        assert took_s <= 3 * ROUND_TRIP_S
        group.run(60)
        for name in SENDERS:
            assert of(group, "hub", name) == expected(name, 300)
        assert retransmitted(group, *SENDERS) == 0
        assert dropped(group, "hub") == 0
        assert group.held()


@pytest.mark.parametrize("inbox_max", [1, 2, 3, 50])
def test_an_inbox_holds_no_more_than_its_limit_and_one_message_for_each_peer(
    inbox_max: int,
) -> None:
    with Group(2, QUIET) as group:
        open_star(group, ("ann",), Limits(inbox_messages_max=inbox_max))
        group.start_task("ann", produce(500, "hub"))
        assert max(inbox_sizes(group, "hub", 5)) in (inbox_max, inbox_max + 1)
        assert dropped(group, "hub") == 0
        consume(group, "hub")
        group.run(60)
        assert of(group, "hub", "ann") == expected("ann", 500)


def test_a_peer_that_was_idle_can_use_its_room_while_another_fills_the_inbox() -> None:
    with Group(13, QUIET) as group:
        open_star(group, ("ann", "bob"))
        group.start_task("ann", produce(300, "hub"))
        group.run(10)
        group.start_task("bob", produce(300, "hub"))
        assert 40 <= max(inbox_sizes(group, "hub", 10)) <= 50 + 2
        assert dropped(group, "hub") == 0
        consume(group, "hub")
        group.run(60)
        for name in ("ann", "bob"):
            assert of(group, "hub", name) == expected(name, 300)
        assert retransmitted(group, "ann", "bob") == 0


@pytest.mark.parametrize("seed", range(4))
def test_everything_is_delivered_despite_loss_and_pauses(seed: int) -> None:
    lossy = Faults(loss=0.2, duplicate=0.05, delay_s=0.005, jitter_s=0.01)
    limits = Limits(inbox_messages_max=10, window_copies_max=64)
    with Group(seed, lossy) as group:
        group.open_all(*SENDERS, receive=False, limits=limits)

        async def consume_slowly(node: Node) -> None:
            async for message in node:
                group.received[node.name].append(message.data)
                if len(group.received[node.name]) % 50 == 0:
                    await asyncio.sleep(3)

        for name in SENDERS:
            others = [other for other in SENDERS if other != name]
            group.start_task(name, produce(150, *others))
            group.start_task(name, consume_slowly)
        group.run(400)
        for name in SENDERS:
            assert dropped(group, name) == 0
            for other in SENDERS:
                if other != name:
                    assert of(group, name, other) == expected(other, 150)
        assert group.held()


def test_a_lost_window_update_delays_and_does_not_block() -> None:
    with Group(3, QUIET) as group:
        open_star(group, ("ann",))
        group.start_task("ann", produce(300, "hub"))
        group.run(10)
        hub = group.nodes["hub"]
        before = hub.stats().engine.delivered
        injector = group.simulation.network.injector
        injector.partition(["hub"], ["ann"])
        consume(group, "hub")
        group.run(1)
        assert hub.stats().engine.delivered == before
        injector.heal()
        group.run(10)
        assert of(group, "hub", "ann") == expected("ann", 300)


@pytest.mark.parametrize("inbox_max", [1, 2])
def test_large_messages_pass_through_a_small_inbox(inbox_max: int) -> None:
    with Group(4, QUIET) as group:
        open_star(group, ("ann", "bob"), Limits(inbox_messages_max=inbox_max))
        for name in ("ann", "bob"):
            group.start_task(name, produce(3, "hub", data=bytes(50_000)))
        group.run(60)
        assert dropped(group, "hub") == 0
        consume(group, "hub")
        group.run(60)
        for name in ("ann", "bob"):
            assert of(group, "hub", name) == expected(name, 3, bytes(50_000))
        assert retransmitted(group, "ann", "bob") == 0


def test_many_peers_share_a_small_inbox() -> None:
    senders = tuple(f"peer{index}" for index in range(60))
    with Group(5, QUIET) as group:
        open_star(group, senders)
        for name in senders:
            group.start_task(name, produce(5, "hub"))
        assert 50 <= max(inbox_sizes(group, "hub", 10)) <= 50 + len(senders)
        assert dropped(group, "hub") == 0
        consume(group, "hub")
        group.run(30)
        for name in senders:
            assert of(group, "hub", name) == expected(name, 5)
        assert dropped(group, "hub") == 0
        assert retransmitted(group, *senders) == 0


def test_idle_peers_give_room_back_to_new_ones() -> None:
    """The first peers are granted most of the inbox, and never send."""
    senders = tuple(f"peer{index}" for index in range(12))
    with Group(6, QUIET) as group:
        group.open("hub", receive=True, limits=Limits(inbox_messages_max=240))
        for name in senders:
            group.add_peer("hub", name)
            group.open(name, "hub", limits=Limits())
            group.run(1)
        group.run(5)
        hub = group.nodes["hub"].engine
        reserved = [hub.sessions[name].credit.reserved for name in senders]
        assert sum(reserved) <= 240
        assert min(reserved) >= 240 // (2 * len(senders))


def test_a_restarted_receiver_grants_a_window_again() -> None:
    with Group(7, QUIET) as group:
        open_star(group, ("ann",))
        group.start_task("ann", produce(200, "hub"))
        group.run(5)
        group.kill("hub")
        group.run(1)
        group.open("hub", "ann", receive=True, limits=SMALL)
        group.run(1)
        group.start_task("ann", produce(10, "hub", data=b"again"))
        group.run(60)
        assert of(group, "hub", "ann")[-10:] == expected("ann", 10, b"again")


def test_a_restarted_sender_with_a_journal_continues() -> None:
    with Group(8, QUIET) as group:
        group.open("hub", "ann", receive=False, limits=SMALL)
        group.open("ann", "hub", journal=True, limits=SMALL)
        group.start_task("ann", produce(200, "hub"))
        group.run(5)
        group.kill("ann")
        group.open("ann", "hub", journal=True, limits=SMALL)
        group.run(5)
        assert 50 <= len(group.nodes["hub"]._runtime.inbox) <= 51
        consume(group, "hub")
        group.run(60)
        got = of(group, "hub", "ann")
        assert got == expected("ann", len(got))
        assert len(got) == 200
        assert dropped(group, "hub") == 0


def test_a_window_that_opens_again_and_again_leaves_no_message_behind() -> None:
    """The consumer takes one message at a time, and waits in between."""
    with Group(9, QUIET) as group:
        open_star(group, SENDERS, Limits(inbox_messages_max=6))
        for name in SENDERS:
            group.start_task(name, produce(40, "hub"))

        async def take_slowly(node: Node) -> None:
            while True:
                message: Message = await node.receive()
                group.received["hub"].append(message.data)
                await asyncio.sleep(0.5)

        group.start_task("hub", take_slowly)
        assert max(inbox_sizes(group, "hub", 70)) <= 6 + len(SENDERS)
        for name in SENDERS:
            assert of(group, "hub", name) == expected(name, 40)
        assert dropped(group, "hub") == 0
        assert retransmitted(group, *SENDERS) == 0


def test_blocked_messages_name_the_full_inbox() -> None:
    with Group(10, QUIET) as group:
        open_star(group, ("ann",), Limits(inbox_messages_max=4))
        group.start_task("ann", produce(10, "hub"))
        group.run(5)
        blocked = group.nodes["ann"].blocked_messages("ann", 10)
        assert [message.explanation for message in blocked] == [
            "ann:10 to hub is in flight: the inbox of hub is full, or it has not acked it"
        ]


def answer_inside_the_loop(count: int) -> Callable[[Node], Awaitable[None]]:
    """Return a coroutine that answers each message with two, inside its loop."""

    async def main(node: Node) -> None:
        (peer,) = node.peers
        for _ in range(count):
            await node.send(peer, b"question")
        async for _ in node:
            await node.send(peer, b"answer")
            await node.send(peer, b"another answer")

    return main


def test_two_nodes_that_block_each_other_are_warned_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(inbox_messages_max=20, window_copies_max=20)
    with Group(11, QUIET) as group:
        group.open_all("ann", "bob", receive=False, limits=limits)
        for name in ("ann", "bob"):
            group.start_task(name, answer_inside_the_loop(5))
        group.run(50)
        warnings = [text for text in caplog.messages if "waits in send" in text]
        assert sorted(warning[:28] for warning in warnings) == [
            "ann: waits in send to bob, w",
            "bob: waits in send to ann, w",
        ]
        assert "send from another task" in warnings[0]
        group.run(60)
        assert sum("waits in send" in text for text in caplog.messages) == 4


def test_a_slow_consumer_that_sends_from_another_task_is_not_warned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(inbox_messages_max=4, window_copies_max=4)
    with Group(12, QUIET) as group:
        group.open_all("ann", "bob", receive=False, limits=limits)

        async def take_slowly(node: Node) -> None:
            while True:
                await node.receive()
                await asyncio.sleep(1)

        for name, peer in (("ann", "bob"), ("bob", "ann")):
            group.start_task(name, produce(100, peer))
            group.start_task(name, take_slowly)
        group.run(90)
        assert caplog.records == []
