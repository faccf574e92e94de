"""``node.waiting``: what a message waits for, asked from node to node."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from antecede import Limits, Node
from antecede.net.wait_reports import JoinReport, WaitReport
from tests.net.simulated import Group
from tests.net.test_events import (
    KEY,
    OTHER_KEY,
    Events,
    deadlock,
    duplicate_name,
    full_inbox,
    not_added_back,
)


def waits(
    group: Group, name: str, source: str | None = None, number: int | None = None
) -> list[WaitReport]:
    """Return what a node reports."""
    found = group.call(name, group.nodes[name].waiting(source, number))
    assert isinstance(found, list)
    return found


def texts(*arguments: Any) -> list[str]:  # noqa: ANN401 (those of waits)
    return [str(report) for report in waits(*arguments)]


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_the_chain_ends_at_the_silent_process(protocol: str) -> None:
    """Ann's message to cid is not acked, so that bob has no permit for his own to cid.

    Ann hears nothing of cid from second 1 on; bob asks at second 32.
    """
    with Group() as group:
        group.open_all("ann", "bob", "cid", protocol=protocol)
        for peer in ("bob", "cid"):
            group.send("ann", peer, b"0")
        group.run(1)
        group.simulation.partition(["ann"], ["cid"])
        group.send("ann", "cid", b"1")
        group.send("ann", "bob", b"2")
        group.run(0.5)
        group.send("bob", "cid", b"3")
        group.run(30.4)
        (report,) = waits(group, "bob", "bob", 1)
        assert report.waiting_for == ("ann", "cid")
        text = str(report)
        assert text.startswith(
            "bob:1 to cid waits for a permit of ann, which waits for an ack of cid, silent"
            " for 3"
        )
        assert text in texts(group, "bob")
        # The delivered message of ann that has no permit waits for the same.
        (missing,) = texts(group, "bob", "ann", 4)
        assert missing.startswith("ann:4 to bob waits for a permit of ann, which waits")


def test_a_held_message_leads_to_the_copy_that_was_lost_before_it() -> None:
    """Under ``bounded``, cid holds bob's message until ann's message has arrived."""
    with Group() as group:
        group.open_all("ann", "bob", "cid", protocol="bounded")
        for source, target in (("ann", "cid"), ("bob", "cid"), ("ann", "bob")):
            group.send(source, target, b"0")
        group.run(1)
        group.simulation.block("ann", "cid")
        group.send("ann", "cid", b"1")
        group.send("ann", "bob", b"2")
        group.run(0.5)
        group.send("bob", "cid", b"3")
        group.run(0.5)
        (text,) = texts(group, "bob", "bob", 2)
        assert text.startswith(
            "bob:2 to cid waits for an ack of cid, which holds it until ann:3 arrives,"
            " silent for "
        )


def test_a_peer_that_was_never_met_is_named_with_its_address() -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.simulation.block("ann", "bob")
        group.send("ann", "bob", b"1")
        group.run(30)
        (text,) = texts(group, "ann")
        assert text == (
            "ann:1 to bob waits for an ack of bob, which was never met: no answer from"
            " 10.0.0.2:9000 for 30 s"
        )


def test_a_delivered_message_does_not_wait() -> None:
    with Group() as group:
        group.open_all("ann", "bob")
        group.send("ann", "bob", b"1")
        group.run(1)
        assert waits(group, "ann", "ann", 1) == []
        assert waits(group, "bob", "ann", 1) == []
        assert waits(group, "bob") == []
        # Ann says what she knows of a message that she has not sent.
        assert "is not known to ann" in texts(group, "bob", "ann", 7)[0]


def test_a_peer_that_does_not_answer_is_named_in_time() -> None:
    """Bob has just stopped, so ann does not know yet that he is silent."""
    with Group() as group:
        group.open_all("ann", "bob")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.kill("bob")
        group.send("ann", "bob", b"2")
        before = group.simulation.now
        (text,) = texts(group, "ann", "ann", 2)
        assert group.simulation.now - before < 3.5
        assert "silent for" in text or "did not answer" in text


def wrong_key(group: Group, events: Events) -> None:
    group.open("ann", "bob", key=KEY)
    group.open("bob", "ann", key=OTHER_KEY)
    group.send("ann", "bob", b"x")


def full_inbox_of_bob(group: Group, events: Events) -> None:
    limits = Limits(lease_s=2.0, inbox_messages_max=4)
    group.open_all("ann", "bob", limits=limits, receive=False)

    async def send(node: Node) -> None:
        for _ in range(200):
            await node.send("bob", b"x")

    group.start_task("ann", send)


def other_protocol(group: Group, events: Events) -> None:
    group.open("ann", "bob", protocol="hybrid")
    group.open("bob", "ann", protocol="bounded")
    group.send("ann", "bob", b"x")


FAULTS: list[tuple[Callable[[Group, Events], None], str, str]] = [
    (wrong_key, "ann", "cannot be decrypted: give both nodes the same key"),
    (other_protocol, "ann", "protocol bounded, not hybrid"),
    (not_added_back, "bob", "which has removed bob: call add_peer there"),
    (full_inbox_of_bob, "ann", "which has a full inbox: its application receives nothing"),
    (full_inbox, "bob", "which has a full inbox: its application receives nothing"),
    (deadlock, "ann", "these wait for each other"),
    (duplicate_name, "bob", "two running nodes have the name bob"),
]
"""What is wrong, the node that is asked, and what its answer says."""


@pytest.mark.parametrize(
    ("fault", "name", "text"), FAULTS, ids=[fault.__name__ for fault, _, _ in FAULTS]
)
def test_the_answer_names_the_fault(
    fault: Callable[[Group, Events], None], name: str, text: str
) -> None:
    with Group() as group:
        fault(group, Events())
        group.run(12)
        found = texts(group, name)
        assert any(text in each for each in found), found


def test_protocols_without_permits_name_the_silent_peer() -> None:
    with Group() as group:
        group.open_all("ann", "bob", protocol="fifo")
        group.run(1)
        group.kill("bob")
        group.send("ann", "bob", b"1")
        group.run(20)
        (text,) = texts(group, "ann")
        assert "waits for an ack of bob, silent for" in text


def test_many_questions_are_answered_within_the_rate() -> None:
    async def ask(node: Node) -> list[list[WaitReport | JoinReport]]:
        return await asyncio.gather(*(node.waiting("ann", 9) for _ in range(200)))

    with Group() as group:
        group.open_all("ann", "bob")
        group.run(1)
        found = group.call("bob", ask(group.nodes["bob"]))
        answered = [report for (report,) in found if "is not known to ann" in str(report)]
        assert 50 <= len(answered) <= 50 * 5  # 50 per second, for up to four seconds.
        assert len(answered) < 200
