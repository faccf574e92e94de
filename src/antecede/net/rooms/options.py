"""The parameters of a room."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from antecede.errors import ConfigError
from antecede.group.settings import MembershipSettings
from antecede.net.payloads import check_callable
from antecede.net.rooms.room_protocol import AUTO, RoomProtocol, choose_protocol
from antecede.net.rooms.snapshots import Restore, Take
from antecede.net.rooms.when_silent import WhenSilent
from antecede.net.udp import Address

__all__ = ["RoomArguments", "RoomOptions", "make_options"]

logger = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 60.0
"""Default time that a node tries to join a room: longer than two leases, because a node
that was removed is admitted only after these."""
SEARCH_TIMEOUT_S = 30.0
"""The maximum time for which a node waits for the first answer of a seed."""


class RoomArguments(TypedDict, total=False):
    """The options of :meth:`antecede.Node.join`."""

    protocol: str
    """The protocol of the room. By default ``auto``: a node that joins takes that of the
    room, and the founder takes ``pc-broadcast`` if ``size`` is above 64 and it has no
    ``snapshot`` and no ``restore``, else ``bounded``. ``room.protocol`` is the result."""
    size: int
    """The number of members that the founder expects, for the protocol ``auto``."""
    snapshot: Take
    """Returns the state of the application as bytes, for nodes that join later."""
    restore: Restore
    """Replaces the state of the application by a snapshot. It is called before the first
    message, and again if others have removed the node and it joins again."""
    members: Mapping[str, str | Address]
    """Names and addresses of the members of a room whose members never change; the same at
    all members."""
    found: bool | None
    """True to found the room at once, False never to found it, None (the default) to found
    it if no other node has it."""
    timeout_s: float
    """The time after which a join fails; by default 60 seconds, and 30 if no seed
    answers."""
    agree: Callable[[str, str], bool]
    """Called with the names of a member and of another one that it has removed; returns
    whether to remove that one here, too. By default, and if it raises, it is removed."""
    when_silent: WhenSilent
    """The policy for a member that is silent while messages wait for it; by default
    ``WhenSilent.remove(after_s=30)``, and ``WhenSilent.block()`` under a protocol that
    cannot remove members."""
    settings: MembershipSettings
    """Limits of snapshots and members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """The validated options of a room."""

    protocol: str = AUTO
    size: int = 0
    snapshot: Take | None = None
    restore: Restore | None = None
    members: Mapping[str, str | Address] | None = None
    found: bool | None = None
    timeout_s: float = JOIN_TIMEOUT_S
    agree: Callable[[str, str], bool] | None = None
    when_silent: WhenSilent | None = None
    settings: MembershipSettings = field(default_factory=MembershipSettings)

    def __post_init__(self) -> None:
        """Raise ConfigError if a parameter is invalid."""
        check_callable(self.snapshot, "snapshot")
        check_callable(self.restore, "restore")
        check_callable(self.agree, "agree")
        if not self.timeout_s > 0:
            raise ConfigError(f"timeout_s must be above 0, got {self.timeout_s}")
        if self.size < 0:
            raise ConfigError(f"size must be at least 1, got {self.size}")
        if not isinstance(self.when_silent, WhenSilent | None):
            raise ConfigError(
                "when_silent must be WhenSilent.block(), WhenSilent.keep(messages) or"
                f" WhenSilent.remove(after_s), got {self.when_silent!r}"
            )
        if self.members is not None and self._membership_options:
            raise ConfigError(
                f"a room with members= has no {' and no '.join(self._membership_options)}:"
                " its members never change, so these options have no effect"
            )
        if self.protocol != AUTO:
            self.check(RoomProtocol(self.protocol))

    @property
    def search_timeout_s(self) -> float:
        """The time to wait for the first answer of a seed."""
        return min(self.timeout_s, SEARCH_TIMEOUT_S)

    @property
    def _membership_options(self) -> list[str]:
        """The names of the options in use that need a room that nodes join."""
        return [name for name in ("snapshot", "restore", "agree") if getattr(self, name)]

    def founded_protocol(self) -> RoomProtocol:
        """Return the protocol of the room if this node founds it."""
        if self.protocol != AUTO:
            return RoomProtocol(self.protocol)
        may_be_overlay = self.members is None and not self._membership_options
        if self.when_silent is not None:
            may_be_overlay = may_be_overlay and not self.when_silent.is_keeping
            may_be_overlay = may_be_overlay and not self.when_silent.is_blocking
        return choose_protocol(self.size, may_be_overlay=may_be_overlay)

    def check(self, protocol: RoomProtocol) -> None:
        """Raise ConfigError if the options do not fit a protocol."""
        name, policy = protocol.name, self.when_silent
        if protocol.is_fixed and self.members is None:
            raise ConfigError(
                f"a room with protocol {name!r} has fixed members: name all of them with"
                " members=, or choose hybrid, hybrid-basic, bounded or pc-broadcast"
            )
        if protocol.is_overlay and self.members is not None:
            raise ConfigError(
                f"a room with protocol {name!r} has no fixed members: leave out members=;"
                " nodes join it through seeds="
            )
        if protocol.is_overlay and self._membership_options:
            raise ConfigError(
                f"a room with protocol {name!r} has no {self._membership_options[0]}: no"
                " member knows all others; leave it out, or choose bounded"
            )
        if policy is None:
            return
        if protocol.is_fixed and not policy.is_blocking:
            raise ConfigError(
                f"{name} cannot remove a silent member: leave out when_silent, or choose"
                " bounded"
            )
        if protocol.is_overlay and (policy.is_blocking or policy.is_keeping):
            raise ConfigError(
                f"{name} replaces silent neighbours: choose WhenSilent.remove(after_s)"
            )

    def silence_policy(self, protocol: RoomProtocol) -> WhenSilent:
        """Return the policy for silent members under a protocol."""
        if self.when_silent is not None:
            return self.when_silent
        return WhenSilent.block() if protocol.is_fixed else WhenSilent.remove()

    @property
    def membership(self) -> MembershipSettings:
        """The settings of the membership."""
        return replace(
            self.settings,
            join_timeout_s=self.timeout_s,
            agree=_guarded(self.agree or self.settings.agree, "agree", otherwise=True),
            accept=_guarded(self.settings.accept, "accept", otherwise=False),
        )


def _guarded(
    function: Callable[..., bool], name: str, *, otherwise: bool
) -> Callable[..., bool]:
    """Return the function, with a logged default in place of its exceptions."""

    def decide(*arguments: str) -> bool:
        try:
            return function(*arguments)
        except Exception:
            decision = "does" if otherwise else "does not"
            logger.exception("%s has raised, and %s %s", name, decision, name)
            return otherwise

    return decide


def make_options(arguments: RoomArguments) -> RoomOptions:
    """Return the options; raise ConfigError if one is invalid."""
    for name in arguments:
        if name not in RoomArguments.__annotations__:
            known = ", ".join(RoomArguments.__annotations__)
            raise TypeError(f"join has no option {name!r}; its options are {known}")
    return RoomOptions(**arguments)
