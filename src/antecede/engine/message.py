"""A message as the application gets it, and how large ones travel.

The first byte of every payload on the wire says whether it is a whole message, its first
part, a part that others follow, or the last part. Parts are messages of their own to the
protocol; the whole has the number of its last part. That keeps causal order: whatever
happened before the whole was sent happened before its last part was, and whatever follows
its delivery follows that of its last part. A message whose sender gave up half-way is
forgotten when the first part of another comes.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

__all__ = ["FIRST", "LAST", "PART", "WHOLE", "WHOLE_PREFIX", "Message", "fragments"]

WHOLE: Final = 0
PART: Final = 1
LAST: Final = 2
FIRST: Final = 3

WHOLE_PREFIX: Final = b"\x00"
PART_PREFIX: Final = b"\x01"
LAST_PREFIX: Final = b"\x02"
FIRST_PREFIX: Final = b"\x03"


@mypyc_attr(acyclic=True)
class Message:
    """A delivered message; with a journal, call :meth:`done` once it is dealt with."""

    __slots__ = ("_done", "_life", "data", "number", "source", "when")

    source: str
    """Who sent it."""
    number: int
    """Its number among its source's messages, growing, the same at every target."""
    data: bytes
    """What the source sent."""
    when: float
    """When it was delivered, in seconds of the wall clock (``time.time``)."""

    def __init__(
        self,
        source: str,
        number: int,
        data: bytes,
        when: float,
        life: int = 0,
        done: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Make a message; the fields are documented on the class."""
        self.source = source
        self.number = number
        self.data = data
        self.when = when
        self._life = life
        self._done = done

    def __repr__(self) -> str:
        """Show the fields, with the data by its length."""
        return f"Message({self.source}:{self.number}, {len(self.data)} B)"

    def done(self) -> None:
        """Say that the message need not be handed over again after a restart.

        Without a journal this does nothing.
        """
        if self._done is not None:
            self._done(self.source, self._life, self.number)


def fragments(data: bytes, room: int) -> list[bytes]:
    """Cut ``data`` into payloads of at most ``room`` bytes, each with its first byte."""
    if len(data) < room:
        return [WHOLE_PREFIX + data]
    step = room - 1
    parts = [
        PART_PREFIX + data[start : start + step] for start in range(0, len(data), step)
    ]
    parts[0] = FIRST_PREFIX + parts[0][1:]
    parts[-1] = LAST_PREFIX + parts[-1][1:]
    return parts
