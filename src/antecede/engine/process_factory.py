"""Makes the process of a node, if the protocol suits it and its limits."""

from collections.abc import Sequence
from dataclasses import replace

from antecede.core.config import EXCHANGE_TIMEOUT_S, ProcessConfig
from antecede.core.overlay.directory import Directory
from antecede.core.process import NEVER, ProcessBase, ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.limits import Limits
from antecede.errors import ConfigError

__all__ = ["group_of", "limits_of", "make_process"]


def group_of(info: ProtocolInfo, name: str, members: Sequence[str]) -> list[str]:
    """Return the names whose indices are process ids.

    These are all members if the membership of the protocol is fixed, else only the node.
    """
    return [name] if info.capabilities.dynamic else sorted({*members, name})


def limits_of(info: ProtocolInfo, limits: Limits | None) -> Limits:
    """Return the limits of a node; the defaults if None.

    With a fixed membership, frames grow with the group, so that IP may have to fragment
    datagrams. Such a node does not search for a larger datagram.
    """
    bounds = limits if limits is not None else Limits()
    if info.capabilities.dynamic:
        return bounds
    return replace(bounds, datagram_bytes_max=bounds.base_bytes)


def make_process(
    info: ProtocolInfo,
    name: str,
    history: int,
    members: Sequence[str],
    limits: Limits,
    budget_bytes: int,
) -> ProcessBase:
    """Return a process; raise ConfigError if the protocol does not suit the limits.

    On an overlay, a node that knows members is a newcomer: it joins through one of them.
    """
    can = info.capabilities
    group = group_of(info, name, members)
    id = ProcessId(group.index(name))  # noqa: A001 (the word for it)
    is_on_overlay = can.overlay and can.dynamic
    config = ProcessConfig(
        processes=0 if can.dynamic and not can.overlay else len(group),
        policy=limits.timer_policy,
        reorder_buffer_max=limits.reorder_buffer_max,
        budget_bytes=budget_bytes,
        directory=Directory(name, history) if is_on_overlay else None,
        newcomers=frozenset([id] if is_on_overlay and members else []),
        exchange_s=limits.exchange_s if is_on_overlay else 0.0,
        exchange_timeout_s=min(EXCHANGE_TIMEOUT_S, limits.exchange_s / 3),
        linger_s=limits.linger_s,
        ping_timeout_s=limits.ping_timeout_s,
        seed=history,
    )
    process = info.make(id, config)
    can_remove = process.recovery is not None or is_on_overlay
    if limits.peer_timeout_s < NEVER and not can_remove:
        raise ConfigError(f"{info.name} cannot remove a peer; leave out peer_timeout_s")
    return process
