"""``unordered`` and ``fifo``: baselines that deliver a message when it arrives.

Both use the same process, whose messages carry a number only. They differ in the link
below: that of ``fifo`` keeps the order of each pair. Neither keeps causal order; they show
what it costs, and what happens without it.

::

    MESSAGE       number, payload length (LEB128), payload       flag: must be 0
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.errors import LocalError, PeerError

__all__ = ["MESSAGE", "Baseline", "BaselineMessage", "read_baseline"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class BaselineMessage(PayloadFrame):
    """A copy of an application message with its number."""

    __slots__ = ()

    KIND: ClassVar[int] = MESSAGE

    def metadata_size(self) -> int:
        return 1 + width_of(self.number) + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_baseline(reader: Reader) -> Frame:
    """Read one frame of the baselines."""
    if reader.head() != MESSAGE or reader.flag:
        raise reader.refuse()
    return BaselineMessage(reader.number(), reader.payload())


class Baseline(ProcessBase):
    """A process of the baselines."""

    __slots__ = ("_clock",)

    def __init__(self, id: ProcessId) -> None:
        super().__init__(id)
        self._clock = 0

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        check_now(now)
        members = checked_targets(targets)
        data = checked_payload(payload)
        self._clock += 1
        number = self._clock
        for target in dict.fromkeys(members):  # Each once.
            if target == self._id:
                self._deliveries.append(Delivery(self._id, number, data))
            else:
                self._transmits.append(Transmit(target, BaselineMessage(number, data)))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, BaselineMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        if frame.number < 1:
            raise PeerError(f"invalid {frame}: number must be at least 1")
        self._deliveries.append(Delivery(source, frame.number, frame.payload))
