"""The messages that a newcomer holds until its snapshot is complete, and its cut."""

from collections.abc import Iterable

from antecede.group.member import CutEntry, RoomMessage

__all__ = ["CutFilter", "HeldMessages"]


class HeldMessages:
    """The messages of the application that were delivered before the snapshot."""

    __slots__ = ("_bytes", "_bytes_max", "_count_max", "_messages")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._messages: list[RoomMessage] = []
        self._bytes = 0

    def hold(self, message: RoomMessage) -> bool:
        """Keep a message; return False, and do not keep it, if it exceeds a limit."""
        size = self._bytes + len(message.data)
        if len(self._messages) >= self._count_max or size > self._bytes_max:
            return False
        self._messages.append(message)
        self._bytes = size
        return True

    def release(self) -> list[RoomMessage]:
        """Remove and return all messages, in the order of their delivery."""
        messages = self._messages
        self._messages = []
        self._bytes = 0
        return messages


class CutFilter:
    """Drops the messages that the snapshot contains; they may still arrive after it."""

    __slots__ = ("_numbers",)

    def __init__(self, cut: Iterable[CutEntry] = ()) -> None:
        self._numbers = {(entry.source, entry.history): entry.number for entry in cut}

    def __bool__(self) -> bool:
        """Return whether a message may still be dropped."""
        return bool(self._numbers)

    def contains(self, message: RoomMessage) -> bool:
        """Return whether the snapshot contains the message."""
        key = (message.source, message.history)
        last = self._numbers.get(key)
        if last is None:
            return False
        if message.number <= last:
            return True
        # Messages of one history arrive in the order of their numbers.
        del self._numbers[key]
        return False
