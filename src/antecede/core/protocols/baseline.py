"""``unordered`` and ``fifo``: baselines that deliver a message as soon as it arrives.

They are the same process, which carries nothing but a message's number. What tells them
apart is the link underneath: ``fifo`` keeps the order of each pair. Neither keeps causal
order; they show what it costs, and what happens without it.

::

    MESSAGE       number, payload length (LEB128), payload       flag: must be 0
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.errors import LocalError, PeerError

__all__ = ["MESSAGE", "Plain", "PlainMessage", "read_plain"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class PlainMessage(Frame):
    """A copy of an application message with its number, and nothing else."""

    __slots__ = ("number", "payload")

    number: int
    """Its number among all messages of its sender, from 1."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, number: int, payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return f"PlainMessage({self.number}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        return 1 + width_of(self.number) + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_plain(reader: Reader) -> Frame:
    """Read one frame of the baselines."""
    if reader.head() != MESSAGE or reader.flag:
        raise reader.refuse()
    return PlainMessage(reader.number(), reader.payload())


class Plain(ProcessBase):
    """A process of the baselines; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_clock",)

    def __init__(self, id: ProcessId) -> None:
        """Start a process with no history."""
        super().__init__(id)
        self._clock = 0

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        check_now(now)
        members = checked_targets(targets)
        data = checked_payload(payload)
        self._clock += 1
        number = self._clock
        for target in dict.fromkeys(members):  # Each once.
            if target == self._id:
                self._deliveries.append(Delivery(self._id, number, data))
            else:
                self._transmits.append(Transmit(target, PlainMessage(number, data)))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Deliver what arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, PlainMessage) or frame.number < 1:
            raise PeerError(f"{frame} is no frame of this protocol")
        self._deliveries.append(Delivery(source, frame.number, frame.payload))
