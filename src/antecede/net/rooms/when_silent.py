"""The policies of a room for a silent member: block, keep some messages, or remove."""

from dataclasses import dataclass, replace
from typing import Final, Self

from antecede.core.process import NEVER
from antecede.engine.limits import Limits
from antecede.errors import ConfigError

__all__ = ["REMOVE_AFTER_S", "WhenSilent"]

REMOVE_AFTER_S: Final = 30.0
"""Default time after which a silent member is removed."""
WINDOWS_PER_BUFFER: Final = 4
"""Out-of-order messages that are held from one member, in windows of that member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenSilent:
    """The policy of a room for a member that does not answer while messages wait for it.

    Use :meth:`block`, :meth:`keep` or :meth:`remove`. All policies keep the messages to a
    silent member, but for different times. A member that was removed and is alive joins
    again, with a snapshot, and both sides get :class:`~antecede.engine.events.Gap` events.
    """

    remove_after_s: float
    """The time after which the member is removed; infinite for never."""
    messages_max: int = 0
    """The number of messages to a silent member at which it is removed; 0 for no such
    limit."""
    bytes_max: int = 0
    """The payload bytes of these messages at which it is removed."""

    def __post_init__(self) -> None:
        """Raise ConfigError if a value is out of range."""
        if not self.remove_after_s > 0:
            raise ConfigError(
                f"when_silent: the time must be above 0, got {self.remove_after_s}"
            )
        for name in ("messages_max", "bytes_max"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")

    @classmethod
    def block(cls) -> Self:
        """Never remove the member: senders wait as soon as its window is full."""
        return cls(remove_after_s=NEVER)

    @classmethod
    def keep(cls, messages: int, bytes_max: int = 64 << 20) -> Self:
        """Keep up to ``messages`` messages for it, and remove it when there are more.

        No sender waits for a member that counts as silent (``Limits.silence_s``). The
        limits also replace ``window_copies_max`` and ``window_bytes_max`` of the node in
        this room. All members need the same limits.
        """
        if messages < 1 or bytes_max < 1:
            raise ConfigError(
                f"keep needs at least 1 message and 1 byte, got {messages} and {bytes_max}"
            )
        return cls(remove_after_s=NEVER, messages_max=messages, bytes_max=bytes_max)

    @classmethod
    def remove(cls, after_s: float = REMOVE_AFTER_S) -> Self:
        """Remove the member after a time; until then senders wait if its window is full."""
        if after_s == NEVER:
            raise ConfigError("remove needs a finite time; use block to never remove")
        return cls(remove_after_s=after_s)

    @property
    def is_keeping(self) -> bool:
        """Whether a number of messages ends the wait, not a time."""
        return self.messages_max > 0

    @property
    def is_blocking(self) -> bool:
        """Whether the member is never removed."""
        return self.remove_after_s == NEVER and not self.is_keeping

    def limits(self, node: Limits) -> Limits:
        """Return the limits of a room with this policy, from those of the node."""
        chosen = replace(node, peer_timeout_s=self.remove_after_s)
        if not self.is_keeping:
            return chosen
        buffer = max(node.reorder_buffer_max, WINDOWS_PER_BUFFER * self.messages_max + 1)
        return replace(
            chosen,
            window_copies_max=self.messages_max,
            window_bytes_max=self.bytes_max,
            retained_copies_max=max(node.retained_copies_max, 2 * self.messages_max),
            reorder_buffer_max=buffer,
        )
