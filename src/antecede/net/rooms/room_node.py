"""The node of a room: a runtime of its own, whose datagrams the links carry."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from antecede.core.process import NEVER
from antecede.engine.carrier import CARRY_OVERHEAD_BYTES
from antecede.engine.events import NodeEvent
from antecede.engine.limits import DATAGRAM_BYTES_MIN, Limits
from antecede.engine.message import Message
from antecede.errors import ConfigError
from antecede.net.config import NodeConfig
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.room_socket import link_address
from antecede.net.rooms.when_silent import WhenSilent
from antecede.net.runtime import NodeRuntime

__all__ = ["make_room_runtime", "room_limits"]

ROOM_DIRECTORY: Final = "rooms"


def room_limits(node: Limits, policy: WhenSilent, *, is_overlay: bool = False) -> Limits:
    """Return the limits of a room: those of the node, in datagrams that links carry.

    The links find the largest datagrams of their paths. They have keep-alives, except those
    to the neighbours on an overlay, which change.
    """
    size = node.base_bytes - CARRY_OVERHEAD_BYTES
    if size < DATAGRAM_BYTES_MIN:
        raise ConfigError(
            f"rooms need datagrams of at least {DATAGRAM_BYTES_MIN + CARRY_OVERHEAD_BYTES}"
            f" bytes, not {node.base_bytes}; raise Limits.datagram_bytes_base"
        )
    return replace(
        policy.limits(node),
        datagram_bytes_base=size,
        datagram_bytes_max=size,
        keep_alive_s=node.keep_alive_s if is_overlay else NEVER,
    )


def _file_name(room: str) -> str:
    return quote(room, safe=" ")


def make_room_runtime(
    hub: LinkHub,
    node: NodeConfig,
    room: str,
    *,
    protocol: str,
    limits: Limits,
    is_control: bool = False,
    members: tuple[str, ...] = (),
    has_trace: bool = False,
    on_message: Callable[[Message], object] | None = None,
    on_event: Callable[[NodeEvent], object] | None = None,
    decode: Callable[[bytes], object] | None = None,
    filter_messages: Callable[[list[Message]], list[Message]] | None = None,
    observe_inbox_s: Callable[[float], object] | None = None,
) -> tuple[NodeRuntime, Callable[[], None]]:
    """Return a runtime for a room, and a function to call after it was closed.

    Args:
        hub: has the links.
        node: the parameters of the node.
        room: the name of the room.
        protocol: the protocol of the room.
        limits: see :func:`room_limits`.
        is_control: it is a channel of the control room.
        members: the other members at the start.
        has_trace: record a trace below that of the node, if the node records one.
        on_message: called with each message.
        on_event: called with each event.
        decode: converts payloads to values.
        filter_messages: called with the delivered messages.
        observe_inbox_s: takes the time that each message was in the inbox.
    """
    trace = None
    if has_trace and node.trace is not None:
        trace = node.trace / ROOM_DIRECTORY / _file_name(room)
    config = NodeConfig(
        name=node.name,
        bind=link_address(node.name),
        peers={name: link_address(name) for name in members},
        protocol=protocol,
        budget_bytes=node.budget_bytes,
        cipher=None,  # The links encrypt and authenticate.
        insecure=True,
        limits=limits,
        journal=None,
        journal_sync=node.journal_sync,
        trace=trace,
        run=f"{node.run}/{room}",
        segmentation=False,
        on_message=on_message,
        on_event=on_event,
        decode=decode,
        log_name=f"{node.name} in {room}" if not is_control else "",
        filter_messages=filter_messages,
        observe_inbox_s=observe_inbox_s,
    )
    host = hub.host(room, is_control=is_control)
    return NodeRuntime(config, host), lambda: hub.close(host)
