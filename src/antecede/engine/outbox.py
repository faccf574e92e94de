"""The frames to transmit to one peer at the next flush, or when the path has room."""

from collections import OrderedDict
from typing import Final

from antecede.core.codec import Frame
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.process_id import ProcessId
from antecede.core.protocols.hybrid.frames import Ack, Permit
from antecede.core.windows import PeerWindows

__all__ = ["NO_KEY", "Outbox", "message_key"]

NO_INDEX: Final = -1
NO_KEY: Final = (0, 0)
SEGMENT_SOURCE: Final = -2
"""Stands for the source in the key of a segment, which has a number of its own."""


def message_key(frame: Frame) -> tuple[int, int]:
    """Return what identifies the message in a frame, or NO_KEY for a control frame."""
    if isinstance(frame, Segment):
        return SEGMENT_SOURCE, frame.number
    number = frame.message_number()
    return (frame.message_source(), number) if number > 0 else NO_KEY


class Outbox:
    """Frames in transmission order, without acks and permits that later ones cover.

    While the path has no room, messages are *held* in the outbox, lost ones before others.
    Control frames are never held.
    """

    __slots__ = (
        "_ack_index",
        "_held",
        "_held_again",
        "_permit_index",
        "_taken_again",
        "frames",
        "has_messages",
        "needs_flush",
        "waiting",
    )

    frames: list[Frame]
    has_messages: bool
    """The frames are not only acks and permits."""
    waiting: dict[tuple[int, int], None]
    """Source and number of the messages that wait until the peer answers."""
    needs_flush: bool
    """The engine will look at this outbox in the next flush."""

    def __init__(self) -> None:
        self.frames = []
        self.waiting = {}
        self.has_messages = False
        self.needs_flush = False
        self._held: OrderedDict[tuple[int, int], Frame] = OrderedDict()
        self._held_again: OrderedDict[tuple[int, int], Frame] = OrderedDict()
        # The lost messages that the last call of take_held has returned.
        self._taken_again: dict[tuple[int, int], None] = {}
        self._ack_index = NO_INDEX
        self._permit_index = NO_INDEX

    def add(self, frame: Frame, is_retransmission: bool = False) -> None:
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
        elif self.is_holding and self._hold(frame, is_retransmission):
            return
        else:
            self.has_messages = True
        self.frames.append(frame)

    # Messages that wait for room on the path.

    @property
    def is_holding(self) -> bool:
        """Whether messages wait for room on the path."""
        return bool(self._held) or bool(self._held_again)

    @property
    def size(self) -> int:
        """How many frames wait."""
        return len(self.frames) + len(self._held) + len(self._held_again)

    def put_back(self, frames: list[Frame]) -> list[Frame]:
        """Hold the messages among some frames before all others; return the others."""
        others: list[Frame] = []
        for frame in reversed(frames):
            key = message_key(frame)
            if key == NO_KEY:
                others.append(frame)
                continue
            held = self._held_again if key in self._taken_again else self._held
            held[key] = frame
            held.move_to_end(key, last=False)
        others.reverse()
        return others

    def _hold(self, frame: Frame, is_retransmission: bool) -> bool:
        """Hold a message, in place of an earlier frame; return False for other frames."""
        key = message_key(frame)
        if key == NO_KEY:
            return False
        is_new = key not in self._held and is_retransmission
        if is_new or key in self._held_again:
            self._held_again[key] = frame
        else:
            self._held[key] = frame
        return True

    def take_held(
        self, room: int, id: ProcessId, windows: PeerWindows | None
    ) -> list[Frame]:
        """Remove and return the first held messages, about ``room`` bytes of them.

        Leave those that the window of the peer, a process with this id, does not allow.
        """
        taken: list[Frame] = []
        self._taken_again.clear()
        for held in (self._held_again, self._held):
            is_again = held is self._held_again
            while held and room > 0:
                key, frame = held.popitem(last=False)
                if windows is not None and not windows.allows(id, key[1], is_again):
                    held[key] = frame
                    held.move_to_end(key, last=False)
                    break
                room -= frame.size()
                taken.append(frame)
                if is_again:
                    self._taken_again[key] = None
        return taken

    # Emptying.

    def pop_frames(self) -> list[Frame]:
        """Return all frames that are not held, and remove them."""
        frames = self.frames
        self.frames = []
        self.has_messages = False
        self._ack_index = NO_INDEX
        self._permit_index = NO_INDEX
        if self.waiting:
            self.waiting.clear()
        return frames

    def clear(self) -> None:
        """Remove all frames."""
        self.pop_frames()
        self._held.clear()
        self._held_again.clear()
