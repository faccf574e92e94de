"""A room: causal message delivery among its members, apart from all other rooms."""

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Literal, Self, Unpack, overload

from antecede.engine.message import Message
from antecede.net.blocked_sends import Targets, named_targets
from antecede.net.events import EventIterator
from antecede.net.payloads import Payload
from antecede.net.receipts import Receipt, SendOptions
from antecede.net.rooms.membership import Membership
from antecede.net.rooms.room_core import RoomCore
from antecede.net.runtime import DRAIN_S
from antecede.net.statistics import NodeStats, runtime_stats
from antecede.net.wait_reports import JoinReport, WaitReport, find_waits

__all__ = ["Room"]


class Room:
    """One node's place in a room; :meth:`antecede.Node.join` returns it.

    A message in a room goes only to members of the room, and does not wait for nodes that
    are not members. Messages of different rooms have no order.
    """

    def __init__(self, core: RoomCore, membership: Membership) -> None:
        self._core = core
        self._membership = membership

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the room; do not wait for deliveries if the block raised."""
        await self.close(DRAIN_S if error is None else 0.0)

    @property
    def name(self) -> str:
        """The name of the room."""
        return self._core.name

    @property
    def protocol(self) -> str:
        """The protocol of the room."""
        return self._core.protocol

    @property
    def members(self) -> list[str]:
        """The names of the members, sorted, with this node."""
        return self._membership.members

    # Sending.

    @overload
    async def send(
        self, target: str, data: Payload, *, wait: bool = ..., receipt: Literal[True]
    ) -> Receipt: ...

    @overload
    async def send(self, target: str, data: Payload, **how: Unpack[SendOptions]) -> int: ...

    async def send(
        self, target: str, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send ``data`` to one member; see :meth:`antecede.Node.send`."""
        self._membership.check_target(target)
        to = Targets(names=(target,))
        return await self._core.send(to, data, wait, ordered, receipt)

    def send_nowait(self, target: str, data: Payload) -> int:
        """Send ``data`` to one member without waiting, and return its number.

        See :meth:`antecede.Node.send_nowait`.
        """
        self._membership.check_target(target)
        return self._core.send_nowait(target, data)

    @overload
    async def multicast(
        self, targets: Iterable[str], data: Payload, *, wait: bool = ...,
        receipt: Literal[True],
    ) -> Receipt: ...  # fmt: skip

    @overload
    async def multicast(
        self, targets: Iterable[str], data: Payload, **how: Unpack[SendOptions]
    ) -> int: ...

    async def multicast(
        self, targets: Iterable[str], data: Payload, *, wait: bool = True,
        ordered: bool = True, receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to several members; otherwise like :meth:`send`."""
        chosen = named_targets(targets)
        for name in chosen.names:
            self._membership.check_target(name)
        return await self._core.send(chosen, data, wait, ordered, receipt)

    @overload
    async def broadcast(
        self, data: Payload, *, wait: bool = ..., receipt: Literal[True]
    ) -> Receipt: ...

    @overload
    async def broadcast(self, data: Payload, **how: Unpack[SendOptions]) -> int: ...

    async def broadcast(
        self, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to all other members, and return its number.

        Newcomers that are catching up get it, too. If there is no other member, return 0,
        or a receipt without targets. Apply a change to your own state before you broadcast
        it, without an ``await`` between the two: a snapshot is never taken during the call.
        """
        await self._membership.wait_until_member()
        if not self._core.runtime.opened_engine().peers():
            self._core.check_open()
            return Receipt(0, ()) if receipt else 0
        to = Targets(is_broadcast=True, may_be_nobody=True)
        return await self._core.send(to, data, wait, ordered, receipt)

    async def flush(self) -> None:
        """Wait until all messages sent so far, and meanwhile, are delivered everywhere."""
        runtime = self._core.runtime
        runtime.opened_socket()
        await runtime.wait_for_acks(runtime.opened_engine())

    # Receiving.

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the messages as they are delivered, until the room is closed."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        With this call, the application states that its state contains all messages that it
        has received before: the room takes a snapshot for a newcomer at such a time.
        """
        return await self._core.next()

    async def receive(self) -> Message:
        """Return the next message; raise LocalError if the room is closed."""
        return await self._core.receive()

    async def receive_many(self, max_messages: int = 1024) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived, in order.

        Return at most ``max_messages``. Raise LocalError if the room is closed.
        """
        return await self._core.receive_many(max_messages)

    # Members.

    async def remove(self, name: str) -> None:
        """Remove a member; the others remove it, too, unless their ``agree`` forbids it.

        Messages to it that are not acked are given up, and messages of others stop waiting
        for it one lease later. A removed node that is running is notified, and joins again.
        """
        self._membership.remove(name)

    async def leave(self, drain_s: float = DRAIN_S) -> None:
        """Leave the room, and close it.

        Wait at most ``drain_s`` seconds until all messages are delivered.
        """
        await self._membership.leave(drain_s)

    async def close(self, drain_s: float = DRAIN_S) -> None:
        """Close the room, which leaves it."""
        await self._membership.leave(drain_s)

    # Statistics and events.

    def events(self) -> EventIterator:
        """Return an asynchronous iterator over the events of the room from now on.

        Its members are the peers of these events; see :meth:`antecede.Node.events`.
        """
        return self._core.events.iterate()

    def stats(self) -> NodeStats:
        """Return counters and the current state of the node in this room."""
        return runtime_stats(self._core.runtime)

    async def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[WaitReport | JoinReport]:
        """Return the reasons for which messages wait; see :meth:`antecede.Node.waiting`.

        A node that others have removed, and that joins again, has a report about that.
        """
        reason = self._membership.obstacle() if source is None and number is None else ""
        joins = [JoinReport(room=self.name, reason=reason)] if reason else []
        return [*joins, *await find_waits(self._core.runtime, source, number)]
