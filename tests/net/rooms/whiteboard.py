"""Applications whose state is a list of texts, in rooms of a simulation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from antecede import Limits, Node
from antecede.engine.events import NodeEvent
from antecede.net.faults import Faults
from antecede.net.rooms.room import Room
from antecede.testing import Simulation

PORT = 9000
KEY = bytes(range(32))


class Whiteboard:
    """One application: a node with rooms, and what it has seen in each."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self._host = host
        self.node: Node | None = None
        self.rooms: dict[str, Room] = {}
        self.texts: dict[str, list[str]] = {}
        self.events: list[NodeEvent] = []
        self.errors: list[BaseException] = []
        self._readers: list[asyncio.Task[None]] = []

    def open_node(self, seeds: Sequence[str], **options: Any) -> Node:  # noqa: ANN401
        """Return a node that is not open yet."""
        self.node = Node(
            self.name,
            bind=f"{self._host}:{PORT}",
            seeds=[f"{seed}:{PORT}" for seed in seeds],
            on_event=self.events.append,
            **{"insecure": True, **options},
        )
        return self.node

    async def join(
        self,
        room: str,
        *,
        reads: bool = True,
        has_snapshots: bool = True,
        **options: Any,  # noqa: ANN401 (options of join)
    ) -> Room:
        """Join a room, and read it in a task of its own."""
        assert self.node is not None
        texts = self.texts.setdefault(room, [])

        def restore(state: bytes) -> None:
            texts[:] = state.decode().split("\n") if state else []

        if has_snapshots:
            options["snapshot"] = lambda: "\n".join(texts).encode()
            options["restore"] = restore
        joined = await self.node.join(room, **options)
        self.rooms[room] = joined
        if reads:
            self._readers.append(asyncio.get_running_loop().create_task(self._read(joined)))
        return joined

    async def _read(self, room: Room) -> None:
        async for message in room:
            self.texts[room.name].append(message.data.decode())

    async def write(self, room: str, text: str) -> None:
        """Add a text, and broadcast it."""
        self.texts[room].append(text)
        await self.rooms[room].broadcast(text.encode())


class Group:
    """A simulation with one whiteboard per process."""

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.simulation = Simulation(seed, *([faults] if faults is not None else []))
        self.boards: dict[str, Whiteboard] = {}

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *error: object) -> None:
        self.simulation.close()

    def start(
        self,
        name: str,
        *seeds: str,
        host: str | None = None,
        rooms: Sequence[str] = ("r",),
        join: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 (options of Node)
    ) -> Whiteboard:
        """Start a process, on a machine of its name, that joins rooms one after another."""
        board = Whiteboard(name, host or name)
        self.boards[host or name] = board

        async def main() -> None:
            try:
                await board.open_node(seeds, **options).open()
                for room in rooms:
                    await board.join(room, **(join or {}))
            except Exception as error:
                board.errors.append(error)
            await asyncio.Event().wait()

        self.simulation.start(host or name, main, daemon=True)
        return board

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulation.run_for(seconds)

    def call(self, name: str, action: Callable[[Whiteboard], Awaitable[None]]) -> None:
        """Run a coroutine in a process until it has ended."""

        async def run() -> None:
            await action(self.boards[name])

        self.simulation.call(name, run(), 60.0)

    def write(self, name: str, text: str, room: str = "r") -> None:
        """Let one application write, and wait until its broadcast is accepted."""
        self.call(name, lambda board: board.write(room, text))

    def texts(self, name: str, room: str = "r") -> list[str]:
        """Return what an application has seen."""
        return self.boards[name].texts.get(room, [])

    def members(self, name: str, room: str = "r") -> list[str]:
        """Return the members of a room as one of them sees them."""
        return self.boards[name].rooms[room].members

    def check(self) -> None:
        """Check that no order was violated, and that nothing has failed."""
        verdict = self.simulation.verdict()
        assert verdict.held, verdict
        assert self.simulation.unhandled == []


LONG = Limits(keep_alive_s=2.0)
