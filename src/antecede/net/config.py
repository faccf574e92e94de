"""The validated parameters of one node."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from antecede.engine.events import NodeEvent
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.engine.sealer import DatagramCipher
from antecede.errors import ConfigError
from antecede.net.payloads import Decode, Encode, check_callable
from antecede.net.udp import Address, is_loopback

__all__ = ["NodeConfig"]

LOOPBACK_DATAGRAM_BYTES: Final = 16_384
"""Default datagram size between nodes on one machine, where the path carries 64 KiB."""
NAME_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The parameters of :class:`antecede.net.node.Node`, with addresses parsed."""

    name: str
    bind: Address
    peers: dict[str, Address]
    protocol: str
    budget_bytes: int
    cipher: DatagramCipher | None
    insecure: bool
    limits: Limits | None
    journal: Path | None
    journal_sync: bool
    trace: Path | None
    run: str
    segmentation: bool
    on_message: Callable[[Message], object] | None = None
    on_event: Callable[[NodeEvent], object] | None = None
    encode: Encode | None = None
    decode: Decode | None = None
    observe_inbox_s: Callable[[float], object] | None = None
    log_name: str | None = None
    """The name of the node in the log, if it differs from the name; empty for no log of
    events."""
    filter_messages: Callable[[list[Message]], list[Message]] | None = None
    """Called with the delivered messages; returns those for the application."""

    def __post_init__(self) -> None:
        check_callable(self.encode, "encode")
        check_callable(self.decode, "decode")
        name = self.name
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            raise ConfigError(
                f"{name!r} is not a valid node name: give a string of 1 to"
                f" {NAME_BYTES_MAX} bytes in UTF-8"
            )

    def limits_for(self, host: str) -> Limits:
        """Return the limits for a socket bound to ``host``.

        Raise ConfigError if the socket accepts datagrams from other machines and the node
        has neither a group key nor ``insecure=True``.
        """
        if self.cipher is None and not self.insecure and not is_loopback(host):
            raise ConfigError(
                f"cannot bind to {host} without a group key: only loopback addresses may be"
                " unencrypted; pass key=, or insecure=True"
            )
        if self.limits is not None:
            return self.limits
        if is_loopback(host):
            size = LOOPBACK_DATAGRAM_BYTES
            return replace(Limits(), datagram_bytes_base=size, datagram_bytes_max=size)
        return Limits()
