"""The processes that entries name, and the ids that one node uses for them.

Entries of ``bounded`` name third processes, and the nodes of a group share no process ids.
On the wire a process is named by the hash of its node's name. As a source it is named with
its history too, because its numbers belong to that history. As a target it is not: copies
to a peer may be sent before its history is known, and a target that has lost its state gets
none of the copies that were sent to its former history.
"""

from typing import Final

__all__ = ["ANY_HISTORY", "OWN_ID", "Identity", "ProcessNames"]

Identity = tuple[int, int]
"""The hash of a name, and a history; the history of a target is ANY_HISTORY."""

ANY_HISTORY: Final = 0
OWN_ID: Final = 0
"""The id of the node itself, as a source and as a target."""
SWEEP_MIN: Final = 1024
"""A table with fewer processes keeps those that nothing names any more."""


class ProcessNames:
    """The ids of one node for processes, which no other node uses.

    Args:
        name_hash: the hash of the node's name.
        history: the history of the node.
    """

    __slots__ = ("_identities", "_ids", "_next_id", "_sweep_at", "new_sources")

    new_sources: dict[int, Identity]
    """The sources that were named for the first time; the caller removes them."""

    def __init__(self, name_hash: int, history: int) -> None:
        self._ids: dict[Identity, int] = {
            (name_hash, history): OWN_ID,
            (name_hash, ANY_HISTORY): OWN_ID,
        }
        self._identities: dict[int, Identity] = {OWN_ID: (name_hash, history)}
        self._next_id = OWN_ID + 1
        self._sweep_at = SWEEP_MIN
        self.new_sources = {}

    def __len__(self) -> int:
        return len(self._identities)

    def id_of(self, identity: Identity) -> int:
        """Return the id of a process; choose one if it has none."""
        id = self._ids.get(identity)  # noqa: A001 (the word for it)
        if id is None:
            id = self._next_id  # noqa: A001
            self._next_id += 1
            self._ids[identity] = id
            self._identities[id] = identity
            if identity[1] != ANY_HISTORY:
                self.new_sources[id] = identity
        return id

    def source(self, name_hash: int, history: int) -> int:
        """Return the id of a process as a source."""
        return self.id_of((name_hash, history))

    def target(self, name_hash: int) -> int:
        """Return the id of a process as a target."""
        return self.id_of((name_hash, ANY_HISTORY))

    def sources(self, name_hash: int) -> list[int]:
        """Return the ids of all known histories of a process as a source."""
        return [
            id
            for id, (hash, history) in self._identities.items()  # noqa: A001
            if hash == name_hash and history != ANY_HISTORY
        ]

    def identity(self, id: int) -> Identity:
        """Return the name and the history of the process with an id."""
        return self._identities[id]

    def is_known(self, id: int) -> bool:
        """Return whether an id was not deleted."""
        return id in self._identities

    @property
    def is_sweep_due(self) -> bool:
        """Whether :meth:`sweep` is worth its cost."""
        return len(self._identities) >= self._sweep_at

    def sweep(self, used: set[int]) -> None:
        """Delete the processes that are not used; their ids are never used again."""
        for id, identity in list(self._identities.items()):  # noqa: A001
            if id != OWN_ID and id not in used:
                del self._identities[id]
                del self._ids[identity]
        self._sweep_at = max(SWEEP_MIN, 2 * len(self._identities))
