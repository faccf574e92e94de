"""The functions that convert values of an application to payloads, and back."""

from collections.abc import Callable
from typing import Any

from antecede.engine.message import Message
from antecede.errors import ConfigError, DecodeError, LocalError

__all__ = [
    "Decode",
    "Encode",
    "Payload",
    "check_callable",
    "decode_payload",
    "encode_payload",
]

Payload = Any
"""The data to send: bytes or, if the node has ``encode``, an argument of that function."""
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def check_callable(function: object, argument: str) -> None:
    """Raise ConfigError if an argument is neither a function nor None."""
    if function is not None and not callable(function):
        raise ConfigError(
            f"{argument}={function!r} is not a function: pass one, such as json.loads"
        )


def encode_payload(encode: Encode, value: Payload) -> bytes:
    """Return the payload of a value; raise LocalError if ``encode`` returns no bytes."""
    data: object = encode(value)
    if not isinstance(data, bytes):
        raise LocalError(
            f"encode returned {type(data).__name__}, not bytes; for JSON, pass"
            " encode=lambda value: json.dumps(value).encode()"
        )
    return data


def decode_payload(decode: Decode, message: Message) -> object:
    """Return the value of a message; raise DecodeError if ``decode`` fails."""
    try:
        return decode(message.data)
    except Exception as error:
        raise DecodeError(
            f"cannot decode {message.source}:{message.number} ({len(message.data)} bytes):"
            f" {type(error).__name__}: {error}; the bytes are in message.data"
        ) from error
