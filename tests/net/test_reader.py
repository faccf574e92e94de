"""Tasks that wait for a message are resumed when the datagram with it arrives."""

import asyncio
from contextvars import ContextVar

import pytest

from antecede.net.reader import Reader
from tests.net.harness import LOOPS, open_nodes, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def new_reader(cancelled: list[Reader] | None = None) -> Reader:
    on_cancel = (cancelled if cancelled is not None else []).append
    return Reader(asyncio.get_running_loop(), on_cancel)


def test_a_waiting_task_runs_before_resume_returns(loop: str) -> None:
    async def main() -> None:
        reader = new_reader()
        order = []

        async def wait() -> None:
            await reader
            order.append("task")

        def resume() -> None:
            order.append("before")
            reader.resume()
            order.append("after")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(resume)
        await task
        assert order == ["before", "task", "after"]

    run(main, loop)


def test_a_resumed_task_has_its_own_context(loop: str) -> None:
    async def main() -> None:
        variable = ContextVar("variable", default="outside")
        reader = new_reader()

        async def wait() -> str:
            variable.set("task")
            await reader
            return variable.get()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(reader.resume)
        assert await task == "task"
        assert variable.get() == "outside"

    run(main, loop)


def test_a_reader_that_no_task_awaits_yet_is_done(loop: str) -> None:
    async def main() -> None:
        reader = new_reader()
        reader.resume()
        await reader

    run(main, loop)


def test_an_error_of_a_resumed_task_stays_in_the_task(loop: str) -> None:
    async def main() -> None:
        reader = new_reader()

        async def wait() -> None:
            await reader
            raise KeyError("reader")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(reader.resume)
        with pytest.raises(KeyError, match="reader"):
            await task

    run(main, loop)


def test_a_cancelled_task_reports_its_reader(loop: str) -> None:
    async def main() -> None:
        cancelled: list[Reader] = []
        reader = new_reader(cancelled)

        async def wait() -> None:
            await reader

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled == [reader]
        assert reader.cancelled()

    run(main, loop)


def test_readers_get_one_message_each_of_a_datagram(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            readers = [asyncio.create_task(b.receive()) for _ in range(3)]
            await asyncio.sleep(0)
            await a.send_many("b", [b"0", b"1", b"2"])
            received = [await reader for reader in readers]
            assert [message.data for message in received] == [b"0", b"1", b"2"]

    run(main, loop)


def test_a_resumed_reader_may_send_and_close_its_node(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):

            async def answer_and_close() -> None:
                message = await b.receive()
                await b.send("a", message.data)
                await b.close()

            closing = asyncio.create_task(answer_and_close())
            await asyncio.sleep(0)
            await a.send("b", b"last")
            assert (await a.receive()).data == b"last"
            await closing

    run(main, loop)
