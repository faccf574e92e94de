"""Values instead of bytes: ``encode`` and ``decode`` of a node."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antecede import ConfigError, DecodeError, LocalError, Message, Node, sync
from tests.net.harness import LOOPS, open_nodes, receive_many, run
from tests.net.limits import quick_limits


class Point(msgspec.Struct):
    x: int
    y: int


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("loop", LOOPS)
def test_values_of_json_arrive_by_every_way_to_send(loop: str) -> None:
    async def main() -> None:
        names = ("ann", "bob")
        async with open_nodes(*names, encode=to_json, decode=json.loads) as (ann, bob):
            assert await ann.send("bob", {"a": [1, None]}) == 1
            assert await ann.multicast(["bob"], "text") == 2
            assert await ann.broadcast(3.5) == 3
            numbers = await ann.send_many("bob", [[], "x" * 300_000, ""])
            assert numbers[0] == 4
            assert numbers[2] > numbers[1] > 5  # A long message takes several numbers.
            assert ann.send_nowait("bob", True) == numbers[2] + 1
            messages = await receive_many(bob, 7)
            values = [message.value for message in messages]
            assert values == [{"a": [1, None]}, "text", 3.5, [], "x" * 300_000, "", True]
            assert messages[0].data == b'{"a": [1, null]}'
            assert messages[0].value is messages[0].value  # Decoded once.
            await ann.send("ann", {"to": "itself"})
            assert (await ann.receive()).value == {"to": "itself"}

    run(main, loop)


def test_structures_of_msgspec_arrive_with_their_type() -> None:
    encode = msgspec.msgpack.Encoder().encode
    decode = msgspec.msgpack.Decoder(Point).decode

    async def main() -> None:
        async with open_nodes("ann", "bob", encode=encode, decode=decode) as (ann, bob):
            await ann.send("bob", Point(1, -2))
            assert (await bob.receive()).value == Point(1, -2)

    run(main, "asyncio")


def test_without_decode_the_value_is_the_data() -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob") as (ann, bob):
            await ann.send("bob", b"raw")
            message = await bob.receive()
            assert type(message) is Message
            assert message.value is message.data

    run(main, "asyncio")


def test_a_payload_that_cannot_be_decoded_is_not_lost_and_stops_nothing() -> None:
    async def main() -> None:
        async with Node("ann") as ann, Node("bob", decode=json.loads) as bob:
            ann.add_peer("bob", bob.address)
            bob.add_peer("ann", ann.address)
            for data in (b"[1]", b"{broken", b"[2]"):
                await ann.send("bob", data)
            first, broken, second = await receive_many(bob, 3)
            assert (first.value, second.value) == ([1], [2])
            for _ in range(2):  # Also the second time.
                with pytest.raises(DecodeError) as caught:
                    _ = broken.value
            assert str(caught.value).startswith(
                "cannot decode ann:2 (7 bytes): JSONDecodeError: "
            )
            assert isinstance(caught.value.__cause__, json.JSONDecodeError)
            assert "\n" not in str(caught.value)
            assert broken.data == b"{broken"

    run(main, "asyncio")


def test_a_payload_that_cannot_be_decoded_is_redelivered_until_its_commit(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "bob.journal"

    async def main() -> None:
        limits = quick_limits()
        async with Node("ann", limits=limits) as ann:
            options: dict[str, Any] = {"journal": journal, "decode": json.loads}
            async with Node("bob", limits=limits, **options) as bob:
                ann.add_peer("bob", bob.address)
                bob.add_peer("ann", ann.address)
                await ann.send("bob", b"{broken")
                assert (await bob.receive()).data == b"{broken"
            async with Node("bob", limits=limits, **options) as bob:
                again = await bob.receive()
                with pytest.raises(DecodeError):
                    _ = again.value
                await again.commit()
            async with Node("bob", limits=limits, **options) as bob:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(bob.receive(), 0.05)

    run(main, "asyncio")


def test_a_value_that_cannot_be_encoded_is_not_sent() -> None:
    async def main() -> None:
        async with open_nodes("ann", "bob", encode=json.dumps) as (ann, bob):
            with pytest.raises(LocalError, match="encode returned str, not bytes"):
                await ann.send("bob", 1)
        async with open_nodes("ann", "bob", encode=to_json) as (ann, bob):
            with pytest.raises(TypeError, match="not JSON serializable"):
                await ann.send("bob", object())
            with pytest.raises(TypeError, match="not JSON serializable"):
                await ann.send_many("bob", [1, object()])
            assert await ann.send("bob", "the first") == 1
            assert (await bob.receive()).data == b'"the first"'

    run(main, "asyncio")


@pytest.mark.parametrize("argument", ["encode", "decode"])
def test_an_argument_that_is_not_a_function_is_an_error(argument: str) -> None:
    options: dict[str, Any] = {argument: "json"}
    with pytest.raises(ConfigError, match=f"{argument}='json' is not a function"):
        Node("ann", **options)


def test_nodes_for_threads_take_values_too() -> None:
    options: dict[str, Any] = {"encode": to_json, "decode": json.loads}
    with sync.Node("ann", **options) as ann, sync.Node("bob", **options) as bob:
        ann.add_peer("bob", bob.address)
        bob.add_peer("ann", ann.address)
        ann.send("bob", {"a": 1})
        ann.send_many("bob", [2, 3])
        assert bob.receive(timeout=60).value == {"a": 1}
        bob_values: list[object] = []
        while len(bob_values) < 2:
            bob_values += [message.value for message in bob.receive_many(timeout=60)]
        assert bob_values == [2, 3]
