"""The settings of a membership."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["MembershipSettings"]


def _any_newcomer(name: str) -> bool:
    return True


def _always(remover: str, name: str) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class MembershipSettings:
    """Limits and time-outs of a membership, and the policy of removal."""

    may_found: bool = True
    """Whether a node founds the room if all nodes that it can ask have no such room."""
    agree: Callable[[str, str], bool] = _always
    """Called with the names of a remover and of the member that it has removed: whether
    this node removes the member, too."""
    accept: Callable[[str], bool] = _any_newcomer
    """Called with the name of a newcomer that asks this node for admission."""
    can_admit: Callable[[str], bool] = _any_newcomer
    """Called with the name of a newcomer: whether it can be admitted now, because its
    removal is not under way any more."""
    members_max: int = 256
    """The members of the room, newcomers included, above which newcomers are refused."""
    snapshot_bytes_max: int = 64 << 20
    """The largest snapshot to send or to accept."""
    held_messages_max: int = 65_536
    """Messages that a newcomer holds until its snapshot is there."""
    held_bytes_max: int = 64 << 20
    """The payload bytes of these."""
    chunk_bytes: int = 32 << 10
    """The size of the parts of a snapshot."""
    chunks_under_way_max: int = 8
    """Parts that are sent and not yet confirmed by the newcomer."""
    join_timeout_s: float = 60.0
    """After how long an attempt to join fails."""
    answer_timeout_s: float = 3.0
    """After how long without any sign of a sponsor a newcomer asks another member; twice
    as long at each further attempt. A sponsor gives a sign three times as often."""
    retry_s: float = 0.25
    """The wait before a node is asked again that had no such room, or was busy."""
