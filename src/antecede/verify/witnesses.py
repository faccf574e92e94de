"""Find the chain of messages that makes a violation one.

A copy of b was delivered at a process before a, though a happened before b. The chain
leads from a to b, each message sent or delivered at the process that then sent the next. It
lies between the sends of a and of b. So the run is read again: to learn which message a is,
to find its send, and, between the two sends only, to build the chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.verify.kernels.stream import Rows, Stream
from antecede.verify.oracle import MessageId

__all__ = ["Suspect", "find_chains"]

Message = tuple[int, int]
"""A message, as the dense number of its source, and its own number."""
Line = tuple[bool, int, Message]
"""A row: whether it is a send, the process, the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A copy that was delivered too early, and the row that shows it."""

    process: int
    """Where, as a dense number."""
    source: int
    """Whose message it is, as a dense number."""
    number: int
    """Which of the source's messages."""
    send: int
    """The row of its send."""
    limit: int
    """The row at which the process delivered a message that happened before it."""


def find_chains(stream: Stream, suspects: Sequence[Suspect]) -> list[tuple[MessageId, ...]]:
    """Return a shortest chain for each suspect, from what should have come first."""
    if not suspects:
        return []
    starts = _messages_at(stream, {suspect.limit for suspect in suspects})
    sends = _sends_of(stream, set(starts.values()))
    searches = [
        _Search(
            start=starts[suspect.limit],
            end=(suspect.source, suspect.number),
            first=sends[starts[suspect.limit]],
            last=suspect.send,
        )
        for suspect in suspects
    ]
    first = min(search.first for search in searches)
    last = max(search.last for search in searches)
    for rows in stream.forward(first, last):
        lines = _lines(rows)
        for search in searches:
            start, stop = np.searchsorted(rows.row, [search.first, search.last + 1])
            search.pass_lines(lines[start:stop])
    ids = stream.processes.first
    return [
        tuple(MessageId(int(ids[source]), number) for source, number in search.chain())
        for search in searches
    ]


def _messages_at(stream: Stream, places: set[int]) -> dict[int, Message]:
    """Return the messages that are delivered at these rows."""
    wanted = np.array(sorted(places))
    found: dict[int, Message] = {}
    for rows in stream.forward(int(wanted[0]), int(wanted[-1])):
        for i in np.flatnonzero(np.isin(rows.row, wanted)).tolist():
            found[int(rows.row[i])] = (int(rows.source[i]), int(rows.number[i]))
    return found


def _sends_of(stream: Stream, messages: set[Message]) -> dict[Message, int]:
    """Return the rows at which these messages are sent."""
    sources = np.array(sorted({source for source, _ in messages}))
    numbers = np.array(sorted({number for _, number in messages}))
    found: dict[Message, int] = {}
    for rows in stream.forward():
        near = rows.is_send & np.isin(rows.number, numbers) & np.isin(rows.source, sources)
        for i in np.flatnonzero(near).tolist():
            message = (int(rows.source[i]), int(rows.number[i]))
            if message in messages:
                found[message] = int(rows.row[i])
        if len(found) == len(messages):
            break
    return found


def _lines(rows: Rows) -> list[Line]:
    messages = zip(rows.source.tolist(), rows.number.tolist(), strict=True)
    columns = (rows.is_send.tolist(), rows.process.tolist(), messages)
    return list(zip(*columns, strict=True))


@dataclass(slots=True, kw_only=True)
class _Search:
    """Follows everything that the first message happened before, until the last one."""

    start: Message
    end: Message
    first: int
    last: int
    links: dict[Message, tuple[int, Message]] = field(default_factory=dict)
    """For each message reached: how many links from the start, and the one before it."""
    nearest: dict[int, tuple[int, Message]] = field(default_factory=dict)
    """For each process reached: the message it knows with the fewest links, and them."""

    def pass_lines(self, lines: list[Line]) -> None:
        """Take in the next rows between the sends of the start and of the end."""
        for is_send, process, message in lines:
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
