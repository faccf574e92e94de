"""Find the chain of messages that proves a violation of causal order.

A process delivered b before a, though a happened before b. The chain leads from a to b;
each of its messages was sent or delivered at the process that then sent the next one. It
lies between the sends of a and b. So the run is read again: to identify a, to find its
send, and to build the chain from the rows between the two sends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.verify.kernels.stream import Rows, Stream
from antecede.verify.oracle import MessageId

__all__ = ["EarlyDelivery", "MessageRow", "find_chain", "find_chains"]

Message = tuple[int, int]
"""The index of the source of a message, and the number of the message."""
MessageRow = tuple[bool, int, Message]
"""Whether a row is a send, the index of its process, and its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyDelivery:
    """A copy that was delivered too early."""

    process: int
    """The index of the process that delivered it."""
    source: int
    """The index of the source of the message."""
    number: int
    """The number of the message."""
    send: int
    """The row of the send of the message."""
    limit: int
    """The row at which the process delivered a message that happened before."""


def find_chains(
    stream: Stream, early_deliveries: Sequence[EarlyDelivery]
) -> list[tuple[MessageId, ...]]:
    """Return a shortest chain for each early delivery.

    A chain starts with the message that should have been delivered first.
    """
    if not early_deliveries:
        return []
    starts = _messages_at(stream, {early.limit for early in early_deliveries})
    sends = _sends_of(stream, set(starts.values()))
    searches = [
        _Search(
            start=starts[early.limit],
            end=(early.source, early.number),
            first=sends[starts[early.limit]],
            last=early.send,
        )
        for early in early_deliveries
    ]
    first = min(search.first for search in searches)
    last = max(search.last for search in searches)
    for rows in stream.forward(first, last):
        message_rows = _to_message_rows(rows)
        for search in searches:
            start, stop = np.searchsorted(rows.row, [search.first, search.last + 1])
            search.advance(message_rows[start:stop])
    ids = stream.processes.first
    return [
        tuple(MessageId(int(ids[source]), number) for source, number in search.chain())
        for search in searches
    ]


def find_chain(
    parts: Iterable[Sequence[MessageRow]], start: Message, end: Message
) -> list[Message]:
    """Return a shortest chain from one message to another, or nothing if there is none.

    Args:
        parts: Parts of a linear extension, with all rows from one send to the other.
        start: The first message.
        end: The last message.
    """
    search = _Search(start=start, end=end, first=0, last=0)
    for rows in parts:
        search.advance(rows)
        if end in search.links:
            return search.chain()
    return []


def _messages_at(stream: Stream, row_numbers: set[int]) -> dict[int, Message]:
    """Return the message that is delivered at each row."""
    wanted = np.array(sorted(row_numbers))
    found: dict[int, Message] = {}
    for rows in stream.forward(int(wanted[0]), int(wanted[-1])):
        for i in np.flatnonzero(np.isin(rows.row, wanted)).tolist():
            found[int(rows.row[i])] = (int(rows.source[i]), int(rows.number[i]))
    return found


def _sends_of(stream: Stream, messages: set[Message]) -> dict[Message, int]:
    """Return the row at which each message is sent."""
    sources = np.array(sorted({source for source, _ in messages}))
    numbers = np.array(sorted({number for _, number in messages}))
    found: dict[Message, int] = {}
    for rows in stream.forward():
        matches = np.isin(rows.number, numbers) & np.isin(rows.source, sources)
        for i in np.flatnonzero(rows.is_send & matches).tolist():
            message = (int(rows.source[i]), int(rows.number[i]))
            if message in messages:
                found[message] = int(rows.row[i])
        if len(found) == len(messages):
            break
    return found


def _to_message_rows(rows: Rows) -> list[MessageRow]:
    messages = zip(rows.source.tolist(), rows.number.tolist(), strict=True)
    columns = (rows.is_send.tolist(), rows.process.tolist(), messages)
    return list(zip(*columns, strict=True))


@dataclass(slots=True, kw_only=True)
class _Search:
    """Searches a shortest chain from one message to another."""

    start: Message
    end: Message
    first: int
    last: int
    links: dict[Message, tuple[int, Message]] = field(default_factory=dict)
    """For each message reached: its distance from the start, and its predecessor."""
    nearest: dict[int, tuple[int, Message]] = field(default_factory=dict)
    """For each process reached: the least distance of its messages, and that message."""

    def advance(self, rows: Sequence[MessageRow]) -> None:
        """Process the next rows between the sends of the start and the end."""
        for is_send, process, message in rows:
            known = self.nearest.get(process)
            if not is_send:
                link = self.links.get(message)
                if link is not None and (known is None or link[0] < known[0]):
                    self.nearest[process] = (link[0], message)
            elif message == self.start:
                self.links[message] = (0, message)
                self.nearest[process] = (0, message)
            elif known is not None:
                self.links[message] = (known[0] + 1, known[1])

    def chain(self) -> list[Message]:
        """Return the messages from the start to the end."""
        chain = [self.end]
        while chain[-1] != self.start:
            chain.append(self.links[chain[-1]][1])
        return chain[::-1]
