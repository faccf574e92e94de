"""Makes the process of a node, if the protocol suits it and its limits."""

from collections.abc import Sequence
from typing import Final

from antecede.core.config import EXCHANGE_TIMEOUT_S, ProcessConfig
from antecede.core.overlay.directory import Directory
from antecede.core.process import NEVER, ProcessBase, ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.limits import Limits
from antecede.engine.pieces import FRAME_BYTES_MAX
from antecede.errors import ConfigError

__all__ = ["MEMBERS_MAX", "group_of", "make_process"]

COUNTER_BYTES_MAX: Final = 5
"""The encoded bytes of a counter below 2**35."""
MEMBERS_MAX: Final = int((FRAME_BYTES_MAX / 2 / COUNTER_BYTES_MAX) ** 0.5)
"""The maximum number of members of a group with a fixed membership. A frame of ``matrix``
has a counter for each pair of them, and half of the largest frame remains for a payload."""


def group_of(info: ProtocolInfo, name: str, members: Sequence[str]) -> list[str]:
    """Return the names whose indices are process ids.

    These are all members if the membership of the protocol is fixed, else only the node.
    Raise ConfigError if there are too many.
    """
    if info.capabilities.dynamic:
        return [name]
    group = sorted({*members, name})
    if len(group) > MEMBERS_MAX:
        raise ConfigError(
            f"{info.name} cannot have {len(group)} members: their counters do not fit into"
            f" a frame; name at most {MEMBERS_MAX}, or choose bounded"
        )
    return group


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
