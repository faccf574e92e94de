"""The check that a protocol suits the nodes of a group."""

from antecede.core.process import NEVER, ProcessBase
from antecede.core.registry import ProtocolInfo
from antecede.engine.limits import Limits
from antecede.errors import ConfigError

__all__ = ["check_protocol"]


def check_protocol(info: ProtocolInfo, process: ProcessBase, limits: Limits) -> None:
    """Raise ConfigError if a protocol does not suit a node, or its limits."""
    if not info.capabilities.unicast:
        raise ConfigError(f"{info.name} has no unicast; choose another protocol")
    if not info.capabilities.suits_nodes:
        raise ConfigError(
            f"{info.name} runs in the simulator only: the nodes of a dynamic group have no"
            " common process ids; choose another protocol"
        )
    if limits.peer_timeout_s < NEVER and process.recovery is None:
        raise ConfigError(f"{info.name} cannot remove a peer; leave out peer_timeout_s")
