"""The members of a room, as one node knows them.

Each node that was ever admitted has one entry: its latest admission, and the state of this
admission. Statements about a node are ordered by admission first and state second, and an
entry only moves forward in this order. So all members come to the same entries, in whatever
order the statements reach them, and a statement that arrives twice or late changes nothing.
"""

from collections.abc import Iterator
from typing import Final

from antecede.group.frames import MemberState, RosterEntry
from antecede.group.member import Member

__all__ = ["Roster"]

GONE_MAX: Final = 1024
"""The maximum number of entries of nodes that are gone; beyond it, the oldest are
dropped."""


class Roster:
    """The latest admission of every node, without this node itself."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, RosterEntry] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether broadcasts go to the node."""
        entry = self._entries.get(name)
        return entry is not None and entry.state is not MemberState.GONE

    def __iter__(self) -> Iterator[RosterEntry]:
        """Iterate over all entries, with those of nodes that are gone."""
        return iter(self._entries.values())

    def get(self, name: str) -> RosterEntry | None:
        """Return the entry of a node, or None."""
        return self._entries.get(name)

    def admission(self, name: str) -> int:
        """Return the latest known admission of a node, or 0."""
        entry = self._entries.get(name)
        return 0 if entry is None else entry.member.admission

    def peers(self) -> list[Member]:
        """Return all nodes to which broadcasts go, sorted by name."""
        present = [
            entry.member
            for entry in self._entries.values()
            if entry.state is not MemberState.GONE
        ]
        return sorted(present, key=lambda member: member.name)

    def members(self) -> list[str]:
        """Return the names of the other members, sorted."""
        return sorted(
            name
            for name, entry in self._entries.items()
            if entry.state is MemberState.JOINED
        )

    def is_news(self, entry: RosterEntry) -> bool:
        """Return whether ``entry`` is later than the stored entry of its node."""
        known = self._entries.get(entry.member.name)
        if known is None:
            return True
        return _rank(entry) > _rank(known)

    def update(self, entry: RosterEntry) -> None:
        """Store ``entry``, which is later than the stored one."""
        name = entry.member.name
        self._entries.pop(name, None)
        self._entries[name] = entry
        if entry.state is MemberState.GONE:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        gone = [
            name for name, entry in self._entries.items() if entry.state is MemberState.GONE
        ]
        for name in gone[: len(gone) - GONE_MAX]:
            del self._entries[name]


def _rank(entry: RosterEntry) -> tuple[int, int]:
    return entry.member.admission, entry.state
