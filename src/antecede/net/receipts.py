"""Receipts: whether a message was delivered at all its targets, or given up."""

import asyncio
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Literal, TypedDict

from antecede.engine.engine import Engine
from antecede.engine.peer_session import ACTIVE, LEFT, PeerSession
from antecede.engine.sender import Channel
from antecede.errors import AntecedeError, LocalError

__all__ = [
    "GiveUpReason",
    "Outcome",
    "Receipt",
    "Receipts",
    "SendOptions",
    "check_receipts",
]

GiveUpReason = Literal["removed", "left", "history lost"]
"""The reason for which a copy was given up: the peer was removed, has left, or lost its
history."""


class SendOptions(TypedDict, total=False):
    """The options of a call that returns the number of a message."""

    wait: bool
    """Wait for room in the windows of the targets, instead of raising WindowFull."""
    ordered: bool
    """Keep causal order; if not, transmit one datagram once."""
    receipt: Literal[False]
    """Return the number, not a receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a message at its targets."""

    delivered: tuple[str, ...]
    """The targets that have delivered the message."""
    given_up: dict[str, GiveUpReason]
    """The other targets, with the reasons: the node does not transmit the message to them
    any more. Some of them may have delivered it, if their acks were lost."""

    @property
    def is_delivered(self) -> bool:
        """Whether all targets have delivered the message."""
        return not self.given_up

    def __str__(self) -> str:
        parts = [f"delivered at {', '.join(self.delivered)}"] if self.delivered else []
        parts += [f"given up for {name}: {why}" for name, why in self.given_up.items()]
        return "; ".join(parts)


class Receipt:
    """The receipt of one message: ``await receipt`` returns its :class:`Outcome`.

    The receipt waits until each target has delivered the message, was removed, or has left.
    A cancelled wait changes nothing; the receipt can be awaited again. Awaiting raises
    LocalError if the node is closed before the outcome is known.
    """

    def __init__(self, number: int, channels: Iterable[Channel]) -> None:
        self.number = number
        """The number of the message."""
        self._remaining = {name for name, _, _ in channels}
        self.targets = tuple(sorted(self._remaining))
        """The names of its targets."""
        self._given_up: dict[str, GiveUpReason] = {}
        self._future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if not self._remaining:
            self._future.set_result(Outcome(delivered=(), given_up={}))

    @property
    def is_done(self) -> bool:
        """Whether ``await`` returns at once."""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, Outcome]:
        return asyncio.shield(self._future).__await__()

    def resolve(self, target: str, reason: GiveUpReason | None) -> None:
        """Note that a target has delivered the message, or why its copy was given up."""
        self._remaining.discard(target)
        if reason is not None:
            self._given_up[target] = reason
        if not self._remaining and not self._future.done():
            given_up = dict(sorted(self._given_up.items()))
            delivered = tuple(name for name in self.targets if name not in given_up)
            self._future.set_result(Outcome(delivered=delivered, given_up=given_up))

    def fail(self, error: AntecedeError) -> None:
        """Raise an error in the tasks that wait, now and later."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # A receipt need not be awaited.


class Receipts:
    """The receipts of one node that have no outcome yet.

    The receiver acks the messages in order, so one number determines which of them are
    delivered. A channel ends when its copies are given up.
    """

    def __init__(self) -> None:
        self._open: dict[Channel, list[tuple[int, int, Receipt]]] = {}
        self._opened = 0

    def __bool__(self) -> bool:
        """Return whether :meth:`update` may find an outcome."""
        return bool(self._open)

    def open(
        self, engine: Engine, number: int, channels: Sequence[Channel], names: Sequence[str]
    ) -> Receipt:
        """Return the receipt of a message that was sent through these channels.

        The last fragment of the message went to the targets in ``names`` only.
        """
        receipt = Receipt(number, channels)
        for channel in channels:
            name, id, _ = channel  # noqa: A001 (the word for it)
            if name == engine.name:
                receipt.resolve(name, None)
                continue
            if name not in names:
                receipt.resolve(name, _reason(engine.sessions.get(name), id))
                continue
            self._opened += 1
            heap = self._open.setdefault(channel, [])
            heappush(heap, (number, self._opened, receipt))
        self.update(engine)
        return receipt

    def update(self, engine: Engine) -> None:
        """Find the outcomes that are known now."""
        recovery = engine.process.recovery
        assert recovery is not None  # Only these protocols have receipts.
        for channel, heap in list(self._open.items()):
            name, id, abandonments = channel  # noqa: A001 (the word for it)
            session = engine.sessions.get(name)
            if session is None or (session.id, session.abandonments) != (id, abandonments):
                for number, _, receipt in heap:
                    is_lost = engine.has_given_up(name, number)
                    receipt.resolve(name, _reason(session, id) if is_lost else None)
                heap.clear()
            else:
                _, acked, _, _ = recovery.channel_numbers(id)
                while heap and heap[0][0] <= acked:
                    _, _, receipt = heappop(heap)
                    receipt.resolve(name, None)
            if not heap:
                del self._open[channel]

    def interrupt(self, error: AntecedeError) -> None:
        """Raise an error in the tasks that wait for an outcome."""
        for heap in self._open.values():
            for _, _, receipt in heap:
                receipt.fail(error)
        self._open.clear()


def check_receipts(engine: Engine) -> None:
    """Raise LocalError unless the protocol of a node reports which copies it gives up."""
    if engine.process.recovery is None:
        raise LocalError(
            f"{engine.info.name} has no receipts, because it cannot remove peers; use"
            " bounded or hybrid"
        )


def _reason(session: PeerSession | None, id: int) -> GiveUpReason:
    """Return the reason for which the copies in a channel were given up."""
    if session is not None and session.state is LEFT:
        return "left"
    if session is not None and session.state is ACTIVE and session.id != id:
        return "history lost"
    return "removed"
