"""The addresses of nodes as bytes, for definitions on an overlay.

An address is what a driver passes to the engine: a string, or a tuple of a string and
numbers, such as those of Python's sockets. The parts are separated by zero bytes.
"""

__all__ = ["decode_address", "encode_address"]


def encode_address(address: object) -> bytes:
    """Return an address as bytes; empty if it has none of the known forms."""
    if isinstance(address, str):
        return address.encode()
    if isinstance(address, tuple) and all(isinstance(part, str | int) for part in address):
        return b"\0".join(str(part).encode() for part in address)
    return b""


def decode_address(data: bytes) -> object:
    """Return the address that bytes stand for; None if there is none."""
    try:
        host, *numbers = data.decode().split("\0")
        parts = [int(number) for number in numbers]
    except ValueError:
        return None
    if not host:
        return None
    return (host, *parts) if parts else host
