"""Random keys of transmissions, which are the same under every protocol."""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.support.keyed_random import fold_in, key

__all__ = ["TransmissionKeys"]

MESSAGES: Final = 1
CONTROL_FRAMES: Final = 2


class TransmissionKeys:
    """The key of each transmission, from which the network draws its random numbers.

    A message has the same key under every protocol. It depends on the id of the workload
    rather than on the number, and on how often the message was transmitted.
    """

    __slots__ = ("_control_key", "_counts", "_message_key")

    def __init__(self, seed: int) -> None:
        root = key(seed)
        self._message_key = fold_in(root, MESSAGES)
        self._control_key = fold_in(root, CONTROL_FRAMES)
        self._counts: dict[tuple[int, int, int, int], int] = {}

    def message(
        self, source: int, target: int, origin: int, id: int, is_retransmission: bool
    ) -> int:
        """Return the key of a frame with message ``id`` of process ``origin``."""
        state = self._message_key
        if origin != source:
            state = fold_in(state, origin)  # A hop of a relay.
        state = fold_in(fold_in(fold_in(state, source), target), id)
        count = self._count(source, target, origin, id) if is_retransmission else 0
        return fold_in(state, count)

    def control(self, source: int, target: int, frame: Frame) -> int:
        """Return the key of a control frame."""
        kind = frame.kind()
        state = fold_in(fold_in(fold_in(self._control_key, source), target), kind)
        return fold_in(state, self._count(source, target, -1, kind))

    def _count(self, source: int, target: int, origin: int, id: int) -> int:
        counter = (source, target, origin, id)
        count = self._counts.get(counter, 0) + 1
        self._counts[counter] = count
        return count
