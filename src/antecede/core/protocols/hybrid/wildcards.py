"""The wildcards of ``bounded``: targets with more undelivered copies than fit on a message.

A wildcard for a target on a message says that copies to the target in the past of the
message may not be delivered, without naming them. A process keeps

* the *received* wildcards that are not cleared,
* the *sent* wildcards: those on its messages to peers. A sent wildcard is cleared when no
  copy to the target in the past of the message can be undelivered. Then the peer gets a
  note.
"""

from bisect import insort

from antecede.core.process import NO_PROCESS, UNBOUNDED

__all__ = ["Wildcard", "SentWildcard", "WildcardTable"]


class Wildcard:
    """A wildcard that a delivered message brought."""

    __slots__ = ("asked", "next_ask", "number", "position", "reporter", "target")

    target: int
    reporter: int
    """The process whose message brought it."""
    number: int
    """The number of that message."""
    position: int
    """The number of deliveries with entries before that one."""
    next_ask: float
    """When to ask the reporter whether the wildcard is cleared."""
    asked: int
    """How often the reporter was asked."""

    def __init__(
        self, target: int, reporter: int, number: int, position: int, next_ask: float
    ) -> None:
        self.target = target
        self.reporter = reporter
        self.number = number
        self.position = position
        self.next_ask = next_ask
        self.asked = 0


class SentWildcard:
    """A wildcard on a message to a peer."""

    __slots__ = ("last", "number", "peer", "position")

    position: int
    """The number of deliveries with entries before the send of the message."""
    number: int
    """The number of the message."""
    peer: int
    """The target of the message; NO_PROCESS if it was forgotten."""
    last: int
    """The last own copy to the target of the wildcard up to that message, 0 if none."""

    def __init__(self, position: int, number: int, peer: int, last: int) -> None:
        self.position = position
        self.number = number
        self.peer = peer
        self.last = last

    def __lt__(self, other: "SentWildcard") -> bool:
        return self.number < other.number


class WildcardTable:
    """The wildcards of a process, by target."""

    __slots__ = ("received", "sent")

    received: dict[int, dict[Wildcard, None]]
    """In the order of delivery."""
    sent: dict[int, list[SentWildcard]]
    """In the order of sending."""

    def __init__(self) -> None:
        self.received = {}
        self.sent = {}

    def is_before(self, target: int, position: int, peer: int) -> bool:
        """Return whether a copy to ``peer`` has a wildcard for ``target`` in its past.

        A wildcard that the peer itself brought does not count.
        """
        received = self.received.get(target)
        if received is not None:
            for wildcard in received:
                if wildcard.position >= position:
                    return False
                if wildcard.reporter != peer:
                    return True
        return False

    def before(self, position: int, peer: int) -> list[int]:
        """Return the targets of all wildcards in the past of a copy to ``peer``."""
        return [
            target for target in self.received if self.is_before(target, position, peer)
        ]

    def add(self, wildcard: Wildcard) -> None:
        """Add a received wildcard."""
        self.received.setdefault(wildcard.target, {})[wildcard] = None

    def remove(self, wildcard: Wildcard) -> None:
        """Remove a received wildcard."""
        received = self.received[wildcard.target]
        del received[wildcard]
        if not received:
            del self.received[wildcard.target]

    def first_position(self, target: int) -> int:
        """Return the lowest position of the received wildcards, or UNBOUNDED."""
        received = self.received.get(target)
        return UNBOUNDED if received is None else next(iter(received)).position

    def add_sent(self, target: int, wildcard: SentWildcard) -> None:
        """Add a sent wildcard."""
        insort(self.sent.setdefault(target, []), wildcard)

    def last_sent_position(self, target: int) -> int:
        """Return the highest position of the sent wildcards for a target, or -1."""
        sent = self.sent.get(target)
        return -1 if sent is None else sent[-1].position

    def first_sent(self, target: int, peer: int) -> int:
        """Return the first message to a peer with a wildcard that is not cleared.

        The peer may be one that was forgotten, and has returned. Return UNBOUNDED if there
        is no such message.
        """
        sent = self.sent.get(target)
        if sent is not None:
            for wildcard in sent:
                if wildcard.peer in (peer, NO_PROCESS):
                    return wildcard.number
        return UNBOUNDED

    def forget(self, peer: int) -> None:
        """Forget to which peer messages with wildcards were sent."""
        for sent in self.sent.values():
            for wildcard in sent:
                if wildcard.peer == peer:
                    wildcard.peer = NO_PROCESS

    def take_cleared(
        self, target: int, first_position: int, acked: int
    ) -> list[SentWildcard]:
        """Remove and return the sent wildcards for a target that are cleared now.

        There must be sent ones. Nothing for the target is in the past of a copy up to
        ``first_position``, and own copies to it are acked up to ``acked``.
        """
        sent = self.sent[target]
        count = 0
        while count < len(sent):
            wildcard = sent[count]
            if wildcard.position > first_position or wildcard.last > acked:
                break
            count += 1
        cleared = sent[:count]
        if count == len(sent):
            del self.sent[target]
        else:
            del sent[:count]
        return cleared
