"""Churn: processes that join and leave, and changes of overlay links, at given times.

Churn is for broadcast on an overlay. Before a process joins, it sends nothing, and frames
to it are lost. When it joins, links between it and its contacts are added in both
directions. A process that leaves stops; every other process gets a ``disconnect`` for its
link to it. A process that crashes (:class:`antecede.sim.network.Network`) stops without
notice.
"""

from collections.abc import Sequence
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
    """The processes with links to and from it at first."""


@dataclass(frozen=True, kw_only=True)
class Leave:
    """A process stops being a member."""

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
        """Raise ConfigError if a time, a repeated join or leave, or a link is invalid."""
        times = [join.at_s for join in self.joins]
        times += [leave.at_s for leave in self.leaves]
        times += [change.at_s for change in self.links]
        for time in times:
            if not 0 <= time < inf:
                raise ConfigError(f"churn needs finite times of at least 0, got {time}")
        joined = {join.process: join.at_s for join in self.joins}
        left = {leave.process: leave.at_s for leave in self.leaves}
        if len(joined) != len(self.joins) or len(left) != len(self.leaves):
            raise ConfigError("a process joins twice, or leaves twice")
        for leave in self.leaves:
            if leave.at_s <= joined.get(leave.process, -1.0):
                raise ConfigError(f"process {leave.process} leaves before it has joined")
        for join in self.joins:
            for contact in join.contacts:
                _check_link(joined, left, join.process, contact, join.at_s)
                if joined.get(contact, -1.0) == join.at_s:
                    raise ConfigError(
                        f"processes {join.process} and {contact} join at the same moment:"
                        " give them their links later"
                    )
        for change in self.links:
            _check_link(joined, left, change.source, change.target, change.at_s)

    def __bool__(self) -> bool:
        return bool(self.joins or self.leaves or self.links)

    def check_processes(self, processes: int) -> None:
        """Raise ConfigError if a process is not below ``processes``."""
        named = [join.process for join in self.joins]
        named += [leave.process for leave in self.leaves]
        named += [contact for join in self.joins for contact in join.contacts]
        for change in self.links:
            named += [change.source, change.target]
        for process in named:
            if not 0 <= process < processes:
                raise ConfigError(f"the churn names process {process} of {processes}")

    def check_crashes(self, crashes: Sequence[tuple[int, float]]) -> None:
        """Raise ConfigError if a process crashes before it joins."""
        joined = {join.process: join.at_s for join in self.joins}
        for process, at_s in crashes:
            if at_s <= joined.get(process, -1.0):
                raise ConfigError(f"process {process} crashes before it has joined")

    def initial_links(
        self, links: Sequence[Sequence[int]] | None, processes: int
    ) -> list[list[int]]:
        """Return the overlay without the processes that join later.

        Args:
            links: The links of each process; None for links to all others.
            processes: The number of processes.

        Raises:
            ConfigError: The links are for another number of processes, or lead to a process
                that joins later.
        """
        absent = {join.process for join in self.joins}
        present = [process for process in range(processes) if process not in absent]
        if links is None:
            return [
                [other for other in present if other != process]
                if process not in absent
                else []
                for process in range(processes)
            ]
        if len(links) != processes:
            raise ConfigError(f"an overlay for {processes} processes has {len(links)} rows")
        for process in range(processes):
            for other in links[process]:
                if not 0 <= other < processes or other == process:
                    raise ConfigError(f"the overlay has a link from {process} to {other}")
                if process in absent or other in absent:
                    raise ConfigError(
                        f"the overlay has a link from {process} to {other} before both are"
                        " members"
                    )
        return [list(row) for row in links]


def _check_link(
    joined: dict[int, float],
    left: dict[int, float],
    source: int,
    target: int,
    at_s: float,
) -> None:
    """Raise ConfigError unless both processes are members when the link changes."""
    if source == target:
        raise ConfigError(f"process {source} cannot have a link to itself")
    for process in (source, target):
        if not joined.get(process, 0.0) <= at_s < left.get(process, inf):
            raise ConfigError(
                f"a link of process {process} changes at {at_s} s, when it is not a member"
            )
