"""Receipts: a message was delivered at all targets, or given up."""

import asyncio
from pathlib import Path
from typing import assert_type

import pytest

from antecede import Limits, Node, sync
from antecede.errors import LocalError, StorageError
from antecede.net.receipts import Outcome, Receipt
from tests.net.harness import connect_all, open_nodes, run, stays_pending
from tests.net.simulated import Group


def receipt_of(group: Group, source: str, target: str, data: bytes = b"x") -> Receipt:
    """Send a message, and return its receipt."""
    node = group.nodes[source]
    found = group.call(source, node.send(target, data, receipt=True))
    assert isinstance(found, Receipt)
    return found


def outcome(group: Group, name: str, receipt: Receipt) -> Outcome:
    async def wait() -> Outcome:
        return await receipt

    found = group.call(name, wait())
    assert isinstance(found, Outcome)
    return found


def test_the_receipt_of_a_delivered_message() -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob", "cid") as (ann, bob, cid):
            number = assert_type(await ann.send("bob", b"0"), int)
            receipt = assert_type(await ann.send("bob", b"1", receipt=True), Receipt)
            assert receipt.number == number + 1
            assert receipt.targets == ("bob",)
            outcome = await receipt
            assert outcome == Outcome(delivered=("bob",), given_up={})
            assert outcome.is_delivered
            assert str(outcome) == "delivered at bob"
            assert [(await bob.receive()).data for _ in range(2)] == [b"0", b"1"]
            receipts = [
                await ann.multicast(["cid", "bob"], b"2", receipt=True),
                await ann.broadcast(b"3", receipt=True),
                await ann.broadcast(bytes(100_000), receipt=True),
            ]
            for receipt in receipts:
                assert (await receipt).delivered == ("bob", "cid")
                assert receipt.is_done
                assert (await receipt).is_delivered  # A second time.
            assert len((await cid.receive()).data) == 1
            own = await ann.send("ann", b"to myself", receipt=True)
            assert (await own).delivered == ("ann",)

    run(main)


def test_a_message_to_an_unreachable_peer_has_no_outcome_until_it_is_delivered() -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid")
        group.run(1)
        group.simulation.partition(["ann"], ["bob"])
        node = group.nodes["ann"]
        receipt = group.call("ann", node.broadcast(b"x", receipt=True))
        group.run(30)
        assert group.received["cid"] == [b"x"]
        assert not receipt.is_done
        group.simulation.heal()
        group.run(30)
        assert outcome(group, "ann", receipt).delivered == ("bob", "cid")


def test_a_removed_peer_gives_up_the_messages_that_it_has_not_acked() -> None:
    """Bob delivers message 1 and not message 2; cid delivers both."""
    with Group() as group:
        group.open_all("ann", "bob", "cid")
        group.run(1)
        node = group.nodes["ann"]
        first = group.call("ann", node.broadcast(b"1", receipt=True))
        group.run(1)
        group.kill("bob")
        second = group.call("ann", node.broadcast(b"2", receipt=True))
        group.run(1)
        assert not second.is_done
        group.call("ann", node.remove_peer("bob"))
        assert outcome(group, "ann", first) == Outcome(
            delivered=("bob", "cid"), given_up={}
        )
        found = outcome(group, "ann", second)
        assert found == Outcome(delivered=("cid",), given_up={"bob": "removed"})
        assert not found.is_delivered
        assert str(found) == "delivered at cid; given up for bob: removed"


def test_a_peer_that_loses_its_history_gives_up_what_it_has_not_delivered() -> None:
    with Group() as group:
        group.open_all("ann", "bob")
        group.run(1)
        delivered = receipt_of(group, "ann", "bob")
        group.run(1)
        group.kill("bob")
        lost = receipt_of(group, "ann", "bob")
        group.run(3)
        group.open("bob", "ann")
        group.run(10)
        assert outcome(group, "ann", delivered).is_delivered
        assert outcome(group, "ann", lost).given_up == {"bob": "history lost"}
        again = receipt_of(group, "ann", "bob")
        assert outcome(group, "ann", again).is_delivered


def test_a_peer_that_leaves_gives_up_what_it_has_not_delivered() -> None:
    """Ann's message does not reach bob, but his goodbye reaches ann."""
    with Group() as group:
        group.open_all("ann", "bob")
        group.run(1)
        group.simulation.block("ann", "bob")
        receipt = receipt_of(group, "ann", "bob")
        group.call("bob", group.nodes["bob"].close())
        assert not receipt.is_done  # Bob may still return, within a lease.
        group.run(10)
        assert outcome(group, "ann", receipt).given_up == {"bob": "left"}


def test_a_restarted_peer_with_a_journal_delivers_what_was_sent_meanwhile() -> None:
    with Group() as group:
        group.open_all("ann", "bob", journal=True)
        group.run(1)
        group.kill("bob")
        receipt = receipt_of(group, "ann", "bob")
        group.run(3)
        group.open("bob", "ann", journal=True)
        group.run(10)
        assert outcome(group, "ann", receipt).is_delivered


def test_a_node_that_is_closed_ends_the_wait() -> None:
    async def main() -> None:
        async with Node("ann", peers={"bob": "127.0.0.1:9"}) as ann:
            receipt = await ann.send("bob", b"x", receipt=True)

            async def wait() -> Outcome:
                return await receipt

            waiting = asyncio.ensure_future(wait())
            assert await stays_pending(waiting)
            cancelled = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            cancelled.cancel()
            assert await stays_pending(waiting)
            unread = await ann.send("bob", b"y", receipt=True)
            await ann.close(0.0)
            with pytest.raises(LocalError, match="ann was closed"):
                await waiting
            assert unread.is_done

    run(main)


def test_an_outdated_journal_is_an_error_of_the_receipt(tmp_path: Path) -> None:
    """The journal of ann is replaced by an older copy, which bob notices."""

    async def main() -> None:
        journal = tmp_path / "ann.db"
        async with Node("bob") as bob:
            async with Node("ann", journal=journal) as ann:
                connect_all(ann, bob)
                await ann.send("bob", b"1")
                await ann.flush()
            backup = journal.read_bytes()
            async with Node("ann", journal=journal, peers={"bob": bob.address}) as ann:
                bob.add_peer("ann", ann.address)
                await ann.send("bob", b"2")
                await ann.flush()
            journal.write_bytes(backup)
            nowhere = ("127.0.0.1", 9)
            async with Node("ann", journal=journal, peers={"bob": nowhere}) as ann:
                receipt = await ann.send("bob", b"3", receipt=True)
                ann.add_peer("bob", bob.address)
                bob.add_peer("ann", ann.address)
                with pytest.raises(StorageError, match="is outdated"):
                    await receipt

    run(main)


def test_many_receipts_at_once_have_the_outcomes_of_their_messages() -> None:
    """Of 200 messages to bob the first 100 are delivered; then he is removed."""
    with Group() as group:
        group.open_all("ann", "bob")
        group.run(1)
        first = [receipt_of(group, "ann", "bob") for _ in range(100)]
        group.run(1)
        group.kill("bob")
        second = [receipt_of(group, "ann", "bob") for _ in range(100)]
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        assert all(outcome(group, "ann", receipt).is_delivered for receipt in first)
        assert not any(outcome(group, "ann", receipt).is_delivered for receipt in second)
        assert not group.nodes["ann"]._runtime.receipts


def test_protocols_that_cannot_remove_a_peer_have_no_receipts() -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob", protocol="fifo") as (ann, _):
            with pytest.raises(LocalError, match="fifo has no receipts"):
                await ann.send("bob", b"x", receipt=True)

    run(main)


def test_receipts_for_threads() -> None:
    with sync.Node("ann") as ann, sync.Node("bob", limits=Limits()) as bob:
        ann.add_peer("bob", bob.address)
        receipt = ann.send("bob", b"x", receipt=True)
        with pytest.raises(TimeoutError, match="message 1 is neither delivered at bob nor"):
            receipt.wait(timeout=0.05)
        bob.add_peer("ann", ann.address)
        assert receipt.wait(timeout=60).is_delivered
        assert (receipt.number, receipt.targets, receipt.is_done) == (1, ("bob",), True)
        assert bob.receive(timeout=60).data == b"x"
        assert ann.broadcast(b"y", receipt=True).wait(timeout=60).is_delivered
        assert ann.multicast(["bob"], b"z", ordered=False) == 0
