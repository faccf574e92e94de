"""The parameters of a room."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from antecede.core.process import NEVER
from antecede.errors import ConfigError
from antecede.group.settings import MembershipSettings
from antecede.net.payloads import check_callable
from antecede.net.rooms.snapshots import Restore, Take
from antecede.net.udp import Address

__all__ = ["RoomArguments", "RoomOptions", "make_options"]

logger = logging.getLogger(__name__)

JOIN_TIMEOUT_S: Final = 60.0
"""Default time that a node tries to join a room: longer than two leases, because a node
that was removed is admitted only after these."""
SEARCH_TIMEOUT_S: Final = 30.0
"""How long a node waits for the first answer of a seed, at most."""
SILENCE_LIMIT_S: Final = 30.0
"""Default time after which a silent member is removed."""
WHEN_SILENT: Final = ("remove", "block")
"""What a room does with a silent member."""


class RoomArguments(TypedDict, total=False):
    """The options of :meth:`antecede.Node.join`."""

    protocol: str
    """``hybrid``, ``hybrid-basic`` or ``bounded``; by default ``auto``: the default one."""
    snapshot: Take
    """Returns the state of the application as bytes, for nodes that join later."""
    restore: Restore
    """Replaces the state of the application by a snapshot. It is called before the first
    message, and again if others have removed the node and it joins again."""
    members: Mapping[str, str | Address]
    """Names and addresses of the members of a room that nobody joins or leaves; the same
    at all of them."""
    found: bool | None
    """True to found the room at once, False never to found it, None (the default) to found
    it if nobody else has it."""
    timeout_s: float
    """How long to try to join; by default 60 seconds, and 30 if no seed answers."""
    agree: Callable[[str, str], bool]
    """Called with the names of a member and of another one that it has removed; returns
    whether to remove that one here, too. By default, and if it raises, it is removed."""
    when_silent: str
    """What happens with a member that is silent while messages wait for it: ``"remove"``,
    the default, removes it after ``silence_limit_s``; ``"block"`` lets senders wait as soon
    as its window is full."""
    silence_limit_s: float
    """By default 30 seconds."""
    settings: MembershipSettings
    """Limits of snapshots and members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """The validated options of a room."""

    protocol: str = "auto"
    snapshot: Take | None = None
    restore: Restore | None = None
    members: Mapping[str, str | Address] | None = None
    found: bool | None = None
    timeout_s: float = JOIN_TIMEOUT_S
    agree: Callable[[str, str], bool] | None = None
    when_silent: str = "remove"
    silence_limit_s: float = SILENCE_LIMIT_S
    settings: MembershipSettings = field(default_factory=MembershipSettings)

    def __post_init__(self) -> None:
        """Raise ConfigError if a parameter is invalid."""
        check_callable(self.snapshot, "snapshot")
        check_callable(self.restore, "restore")
        check_callable(self.agree, "agree")
        if not self.timeout_s > 0:
            raise ConfigError(f"timeout_s must be above 0, got {self.timeout_s}")
        if self.when_silent not in WHEN_SILENT:
            raise ConfigError(
                f"when_silent must be one of {', '.join(WHEN_SILENT)}, got"
                f" {self.when_silent!r}"
            )
        if not self.silence_limit_s > 0:
            raise ConfigError(
                f"silence_limit_s must be above 0, got {self.silence_limit_s}"
            )

    @property
    def search_timeout_s(self) -> float:
        """How long to wait for the first answer of a seed."""
        return min(self.timeout_s, SEARCH_TIMEOUT_S)

    @property
    def peer_timeout_s(self) -> float:
        """After how long a silent member is removed; infinite for never."""
        return self.silence_limit_s if self.when_silent == "remove" else NEVER

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
    """Return a function of the application that logs what it raises, and then decides."""

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
