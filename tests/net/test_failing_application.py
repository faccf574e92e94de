"""An application that raises on a message neither stops the node nor loses the message."""

import json
import logging
from pathlib import Path

import pytest

from antecede import Message, Node
from antecede.engine.events import MessageFailed, NodeEvent
from antecede.errors import DecodeError
from tests.net.harness import connect_all, run, wait_until


def fail_on_2(message: Message) -> None:
    if message.data == b"2":
        raise ValueError("cannot use it")


def test_a_callback_that_raises_is_reported_with_the_message_and_the_node_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[bytes] = []
    events: list[NodeEvent] = []

    def use(message: Message) -> None:
        got.append(message.data)
        fail_on_2(message)

    async def main() -> None:
        async with Node("a") as a, Node("b", on_message=use, on_event=events.append) as b:
            connect_all(a, b)
            await a.send_many("b", [b"1", b"2", b"3"])
            await a.flush()
            assert got == [b"1", b"2", b"3"]

    run(main)
    (failed,) = [event for event in events if isinstance(event, MessageFailed)]
    assert (failed.peer, failed.message.data) == ("a", b"2")
    assert isinstance(failed.error, ValueError)
    (record,) = [record for record in caplog.records if "on_message" in record.getMessage()]
    assert record.getMessage().startswith("b: on_message raised ValueError for Message(a:2")
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert record.exc_info[1] is failed.error


def test_a_message_that_the_callback_failed_for_is_redelivered_from_the_journal(
    tmp_path: Path,
) -> None:
    """Message 2 is not committed, although message 3 is."""
    got: list[bytes] = []
    again: list[bytes] = []

    def use(message: Message) -> None:
        got.append(message.data)
        fail_on_2(message)
        message.commit()

    async def main() -> None:
        journal = tmp_path / "b.db"
        async with Node("a") as a:
            async with Node("b", on_message=use, journal=journal) as b:
                connect_all(a, b)
                for data in (b"1", b"2", b"3"):
                    await a.send("b", data)
                await wait_until(lambda: len(got) == 3)

            def take(message: Message) -> None:
                again.append(message.data)
                message.commit()

            async with Node("b", on_message=take, journal=journal):
                await wait_until(lambda: bool(again))

    run(main)
    assert got == [b"1", b"2", b"3"]
    assert again == [b"2"]


def test_a_message_on_which_a_receive_loop_raises_is_redelivered_from_the_journal(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        journal = tmp_path / "b.db"
        async with Node("a") as a:

            async def use_all() -> None:
                async with Node("b", journal=journal) as b:
                    connect_all(a, b)
                    for data in (b"1", b"2", b"3"):
                        await a.send("b", data)
                    async for message in b:
                        fail_on_2(message)
                        await message.commit()

            with pytest.raises(ValueError, match="cannot use it"):
                await use_all()
            async with Node("b", journal=journal) as b:
                b.add_peer("a", a.address)
                a.add_peer("b", b.address)
                assert [(await b.receive()).data for _ in range(2)] == [b"2", b"3"]

    run(main)


def test_a_receive_loop_goes_on_after_a_payload_that_cannot_be_decoded() -> None:
    async def main() -> None:
        async with Node("a") as a, Node("b", decode=json.loads) as b:
            connect_all(a, b)
            for data in (b"1", b"}", b"3"):
                await a.send("b", data)
            found: list[object] = []
            while len(found) < 3:
                message = await b.receive()
                try:
                    found.append(message.value)
                except DecodeError:
                    found.append(message.data)
            assert found == [1, b"}", 3]

    run(main)
