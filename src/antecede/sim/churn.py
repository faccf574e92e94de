"""Who comes and goes, and which links an overlay gains and loses, at given times.

For broadcast on an overlay. A process that joins is not there before: it sends nothing,
and what is transmitted to it is lost. From its joining on it has links to its contacts and
they to it. A process that leaves stops; every other process is told that its link to it,
if it has one, is gone. A process that crashes (:class:`antecede.sim.network.Network`)
stops too, and nobody is told.
"""

from dataclasses import dataclass
from math import inf

from antecede.errors import ConfigError

__all__ = ["Churn", "Join", "Leave", "LinkChange"]


@dataclass(frozen=True, kw_only=True)
class Join:
    """A process becomes a member."""

    process: int
    at_s: float
    contacts: tuple[int, ...]
    """To whom it has links at first, and they to it."""


@dataclass(frozen=True, kw_only=True)
class Leave:
    """A process is a member no more."""

    process: int
    at_s: float


@dataclass(frozen=True, kw_only=True)
class LinkChange:
    """The overlay gains a link from ``source`` to ``target``, or loses it."""

    source: int
    target: int
    at_s: float
    up: bool


@dataclass(frozen=True, kw_only=True)
class Churn:
    """All changes of a run."""

    joins: tuple[Join, ...] = ()
    leaves: tuple[Leave, ...] = ()
    links: tuple[LinkChange, ...] = ()

    def __post_init__(self) -> None:
        """Raise ConfigError if a time makes no sense, or a process joins twice."""
        moments = [join.at_s for join in self.joins]
        moments += [leave.at_s for leave in self.leaves]
        moments += [change.at_s for change in self.links]
        for moment in moments:
            if not 0 <= moment < inf:
                raise ConfigError(f"churn needs times of at least 0, got {moment}")
        for what, processes in (
            ("joins", [join.process for join in self.joins]),
            ("leaves", [leave.process for leave in self.leaves]),
        ):
            if len(set(processes)) != len(processes):
                raise ConfigError(f"a process {what} twice")
        joined = {join.process: join.at_s for join in self.joins}
        for leave in self.leaves:
            if leave.at_s < joined.get(leave.process, 0.0):
                raise ConfigError(f"process {leave.process} leaves before it joins")

    def __bool__(self) -> bool:
        """Whether anything changes at all."""
        return bool(self.joins or self.leaves or self.links)

    def check_processes(self, processes: int) -> None:
        """Raise ConfigError if a process is named that there is not."""
        named = [join.process for join in self.joins]
        named += [leave.process for leave in self.leaves]
        named += [contact for join in self.joins for contact in join.contacts]
        for change in self.links:
            named += [change.source, change.target]
        for process in named:
            if not 0 <= process < processes:
                raise ConfigError(f"the churn names process {process} of {processes}")
