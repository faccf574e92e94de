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
    """Whether a node founds the room if all nodes that it can ask answer that they are not
    members."""
    agree: Callable[[str, str], bool] = _always
    """Called with the names of a remover and of the member that it has removed: whether
    this node removes the member, too."""
    accept: Callable[[str], bool] = _any_newcomer
    """Called with the name of a newcomer that asks this node for admission."""
    can_admit: Callable[[str], bool] = _any_newcomer
    """Called with the name of a newcomer; returns whether it can be admitted now, because
    no removal of it is under way."""
    members_max: int = 256
    """The maximum number of members of the room, with those that are catching up; further
    newcomers are refused."""
    snapshot_bytes_max: int = 64 << 20
    """The largest snapshot to send or to accept."""
    held_messages_max: int = 65_536
    """The maximum number of messages that a newcomer holds until its snapshot is
    complete."""
    held_bytes_max: int = 64 << 20
    """The maximum number of payload bytes of these messages."""
    chunk_bytes: int = 32 << 10
    """The size of the parts of a snapshot."""
    chunks_under_way_max: int = 8
    """The maximum number of parts that are sent and not yet confirmed by the newcomer."""
    join_timeout_s: float = 60.0
    """The time after which an attempt to join fails."""
    answer_timeout_s: float = 3.0
    """The time without a message of its sponsor after which a newcomer asks another member;
    doubled at each further attempt. A sponsor sends a message three times in this
    period."""
    retry_s: float = 0.25
    """The wait before a node that is not a member, or was busy, is asked again."""
