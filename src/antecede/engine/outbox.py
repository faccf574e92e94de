"""The frames to transmit to one peer at the next flush."""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.link_frames import LinkAck
from antecede.core.protocols.hybrid.frames import Ack, Permit

__all__ = ["Outbox"]

NO_INDEX: Final = -1


class Outbox:
    """Frames in transmission order, without acks and permits that later ones cover."""

    __slots__ = ("_ack_index", "_permit_index", "frames", "needs_flush", "waiting")

    frames: list[Frame]
    waiting: dict[tuple[int, int], None]
    """Source and number of the messages that wait until the peer answers."""
    needs_flush: bool
    """The engine will look at this outbox in the next flush."""

    def __init__(self) -> None:
        self.frames = []
        self.waiting = {}
        self.needs_flush = False
        self._ack_index = NO_INDEX
        self._permit_index = NO_INDEX

    def add(self, frame: Frame) -> None:
        """Append a frame, or replace an earlier frame that it covers."""
        if isinstance(frame, Ack):
            index = self._ack_index
            if index >= 0:
                ack = self.frames[index]
                if isinstance(ack, Ack) and ack.arrived <= frame.delivered:
                    self.frames[index] = frame
                    return
            self._ack_index = len(self.frames)
        elif isinstance(frame, Permit):
            index = self._permit_index
            if index >= 0:
                self.frames[index] = frame
                return
            self._permit_index = len(self.frames)
        elif isinstance(frame, LinkAck):
            index = self._ack_index
            if index >= 0:
                link_ack = self.frames[index]
                if isinstance(link_ack, LinkAck) and link_ack.arrived <= frame.acked:
                    self.frames[index] = frame
                    return
            self._ack_index = len(self.frames)
        self.frames.append(frame)

    def pop_frames(self) -> list[Frame]:
        """Return all frames and empty the outbox."""
        frames = self.frames
        self.frames = []
        self._ack_index = NO_INDEX
        self._permit_index = NO_INDEX
        if self.waiting:
            self.waiting.clear()
        return frames
