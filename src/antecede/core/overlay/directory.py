"""The processes that one node of an overlay knows, which share no process ids.

The node chooses its own id for each process that it meets or that a peer names. A process
is identified by the name of its node and by a history: a node that starts again without its
history is another process. The address is where the node was reached last, as bytes that
only the driver understands.
"""

from collections.abc import Callable
from typing import Final

from antecede.core.process_id import ProcessId

__all__ = ["OWN_ID", "Directory"]

OWN_ID: Final = ProcessId(0)
"""The id of the node itself, at each node."""


class Directory:
    """The names, histories and addresses of processes, by the ids of one node.

    Args:
        name: the name of the node.
        history: the history of the node.
    """

    __slots__ = ("_addresses", "_identities", "_ids", "_next_id", "on_new")

    on_new: Callable[[int, str, int], None] | None
    """Called with id, name and history of each process that gets an id."""

    def __init__(self, name: str, history: int) -> None:
        self._identities: dict[int, tuple[str, int]] = {OWN_ID: (name, history)}
        self._ids: dict[tuple[str, int], ProcessId] = {(name, history): OWN_ID}
        self._addresses: dict[int, bytes] = {}
        self._next_id = OWN_ID + 1
        self.on_new = None

    def __len__(self) -> int:
        return len(self._identities)

    def new_id(self) -> ProcessId:
        """Return an id that is not in use, for a process of unknown history."""
        id = ProcessId(self._next_id)  # noqa: A001 (the word for it)
        self._next_id += 1
        return id

    def id_of(self, name: str, history: int) -> ProcessId:
        """Return the id of a process; choose one if it has none."""
        id = self._ids.get((name, history))  # noqa: A001 (the word for it)
        if id is None:
            id = self.new_id()  # noqa: A001
            self._ids[name, history] = id
            self._identities[id] = name, history
            if self.on_new is not None:
                self.on_new(id, name, history)
        return id

    def identity(self, id: int) -> tuple[str, int]:
        """Return the name and the history of a process; raise KeyError if unknown."""
        return self._identities[id]

    def knows(self, id: int) -> bool:
        """Return whether the name and the history of a process are known."""
        return id in self._identities

    def identities(self) -> list[tuple[int, str, int]]:
        """Return id, name and history of all known processes."""
        return [(id, *identity) for id, identity in self._identities.items()]  # noqa: A001

    def address(self, id: int) -> bytes:
        """Return the address of a process; empty if it is unknown."""
        return self._addresses.get(id, b"")

    def set_address(self, id: int, address: bytes) -> None:
        """Set the address of a process."""
        self._addresses[id] = address
