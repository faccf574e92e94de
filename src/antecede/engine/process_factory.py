"""Makes the process of a node, if the protocol suits it and its limits."""

from collections.abc import Sequence
from typing import Final

from antecede.core.config import ProcessConfig
from antecede.core.process import NEVER, ProcessBase, ProcessId
from antecede.core.registry import ProtocolInfo
from antecede.engine.limits import Limits
from antecede.engine.pieces import FRAME_BYTES_MAX
from antecede.errors import ConfigError

__all__ = ["MEMBERS_MAX", "group_of", "make_process"]

COUNTER_BYTES_MAX: Final = 5
"""The encoded bytes of a counter below 2**35."""
MEMBERS_MAX: Final = int((FRAME_BYTES_MAX / 2 / COUNTER_BYTES_MAX) ** 0.5)
"""The most members of a group with a fixed membership. A frame of ``matrix`` has a counter
for each pair of them, and half of the largest frame remains for a payload."""


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
    info: ProtocolInfo, name: str, group: Sequence[str], limits: Limits, budget_bytes: int
) -> ProcessBase:
    """Return a process; raise ConfigError if the protocol does not suit a node."""
    config = ProcessConfig(
        processes=0 if info.capabilities.dynamic else len(group),
        policy=limits.timer_policy,
        reorder_buffer_max=limits.reorder_buffer_max,
        budget_bytes=budget_bytes,
    )
    process = info.make(ProcessId(group.index(name)), config)
    if not info.capabilities.suits_nodes:
        raise ConfigError(f"{info.name} runs in the simulator only; choose vector")
    if limits.peer_timeout_s < NEVER and process.recovery is None:
        raise ConfigError(f"{info.name} cannot remove a peer; leave out peer_timeout_s")
    return process
