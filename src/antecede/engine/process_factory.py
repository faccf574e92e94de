"""Makes the process of a node, if the protocol suits it and its limits."""

from collections.abc import Sequence
from dataclasses import replace

from antecede.core.config import ProcessConfig
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
