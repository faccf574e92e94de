"""Fragmentation and reassembly of messages.

The first byte of a payload is its kind: a whole message, or the first, a middle or the last
fragment of a message. To the protocol, every fragment is a message of its own; a
reassembled message takes the number of its last fragment. This preserves causal order: an
event before the send of the message is before the send of its last fragment, and an event
after the delivery of the message is after the delivery of its last fragment.

A sender may stop between two fragments. The first fragment of another message therefore
discards an incomplete one.
"""

from typing import Final

from antecede.errors import PeerError

__all__ = ["FIRST", "LAST", "MIDDLE", "WHOLE", "WHOLE_PREFIX", "Reassembly", "fragment"]

WHOLE: Final = 0
MIDDLE: Final = 1
LAST: Final = 2
FIRST: Final = 3

WHOLE_PREFIX: Final = b"\x00"
MIDDLE_PREFIX: Final = b"\x01"
LAST_PREFIX: Final = b"\x02"
FIRST_PREFIX: Final = b"\x03"


def fragment(data: bytes, payload_bytes_max: int) -> list[bytes]:
    """Return the payloads of a message, each at most ``payload_bytes_max`` bytes long."""
    if len(data) < payload_bytes_max:
        return [WHOLE_PREFIX + data]
    step = payload_bytes_max - 1
    payloads = [
        MIDDLE_PREFIX + data[start : start + step] for start in range(0, len(data), step)
    ]
    payloads[0] = FIRST_PREFIX + payloads[0][1:]
    payloads[-1] = LAST_PREFIX + payloads[-1][1:]
    return payloads


class Reassembly:
    """The fragments of one source's incomplete message."""

    __slots__ = ("fragments", "size_bytes")

    fragments: list[bytes]
    size_bytes: int

    def __init__(self) -> None:
        self.fragments = []
        self.size_bytes = 0

    def add(self, payload: bytes, message_bytes_max: int) -> bytes | None:
        """Add a fragment, and return the message if this was its last fragment.

        Raise PeerError, and discard the message, if the payload is not a fragment, does
        not continue a message, or makes the message too large.
        """
        kind = payload[0] if payload else -1
        if kind == FIRST:
            self.clear()
        self.size_bytes += len(payload) - 1
        if (
            kind not in (FIRST, MIDDLE, LAST)
            or (kind != FIRST and not self.fragments)
            or self.size_bytes > message_bytes_max
        ):
            self.clear()
            raise PeerError(
                f"invalid fragment: kind {kind}, {len(payload)} bytes, in a message of at"
                f" most {message_bytes_max} bytes"
            )
        self.fragments.append(payload[1:])
        if kind != LAST:
            return None
        data = b"".join(self.fragments)
        self.clear()
        return data

    def clear(self) -> None:
        """Discard the fragments."""
        self.fragments.clear()
        self.size_bytes = 0
