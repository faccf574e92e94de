"""The peers of a node: their sessions, process ids and generations."""

from collections.abc import Callable, Sequence

from antecede.core.overlay.directory import Directory
from antecede.core.process import ProcessId
from antecede.engine.datagram import name_hash
from antecede.engine.entry_names import EntryNames
from antecede.engine.journal import SavedPeer
from antecede.engine.path import Path
from antecede.engine.peer_session import (
    ACTIVE,
    EPOCH_MAX,
    EPOCHS_PER_GENERATION,
    PeerSession,
)
from antecede.engine.session_layer import SessionLayer
from antecede.errors import ConfigError

__all__ = ["PeerTable"]


class PeerTable:
    """The sessions of a node by name, and by process id.

    Args:
        group: the names of the group, whose indices are process ids, if the protocol's
            membership is fixed; otherwise the name of the node alone.
        layer: exchanges datagrams with the peers.
        by_id: receives the sessions by process id.
        entry_names: names processes in entries; None if frames contain no entries.
    """

    __slots__ = (
        "_by_id",
        "_entry_names",
        "_layer",
        "_next_id",
        "_on_history",
        "directory",
        "forgotten_number",
        "generation",
        "sessions",
    )

    sessions: dict[str, PeerSession]
    """All sessions by name, those of removed peers included that are remembered."""
    generation: int
    """The generation of the latest session."""
    forgotten_number: int
    """The last number that may have been transmitted to a peer that was forgotten."""

    def __init__(
        self,
        group: Sequence[str],
        layer: SessionLayer,
        by_id: dict[ProcessId, PeerSession],
        entry_names: EntryNames | None,
    ) -> None:
        self._layer = layer
        self._entry_names = entry_names
        self._by_id = by_id
        self._on_history: Callable[[int, str, int], None] | None = None
        self.directory: Directory | None = None
        """The processes of an overlay, which also have ids without a session."""
        self.generation = 0
        self.forgotten_number = 0
        self.sessions = {}
        self._next_id = len(group)
        for index, name in enumerate(group):
            if name != layer.name:
                self._add(name, ProcessId(index), None)

    def peers(self) -> list[str]:
        """Return the names of the active peers."""
        return [
            name
            for name, session in self.sessions.items()
            if session.state is ACTIVE and not session.is_link
        ]

    def report_histories(self, on_history: Callable[[int, str, int], None]) -> None:
        """Call ``on_history`` with id, name and history of each known and future peer.

        The history is 0 until the peer is met, and then reported again. A peer that loses
        its history gets a new id.
        """
        self._on_history = on_history
        if self.directory is not None:
            self.directory.on_new = on_history
            for id, name, history in self.directory.identities():  # noqa: A001
                on_history(id, name, history)
            return
        for session in self.sessions.values():
            on_history(session.id, session.name, session.history)

    def add_session(self, name: str, address: object) -> PeerSession:
        """Add the session of a new peer."""
        return self._add(name, self.new_id(), address)

    def restore_session(self, saved: SavedPeer, now: float) -> PeerSession:
        """Add the session of a peer that a journal holds, in the state that it had."""
        session = self.add_session(saved.name, None)
        session.former_at = now
        session.history = saved.history
        session.epoch_in = saved.epoch_in
        session.epoch_out = saved.epoch_out
        session.acked_base = saved.acked_base
        session.stopped = saved.stopped
        session.restore_state(saved.state)
        self.identify(session)
        self.report_history(session.id, saved.name, saved.history)
        return session

    def new_id(self) -> ProcessId:
        """Return a process id that is not in use."""
        if self.directory is not None:
            return self.directory.new_id()
        id = ProcessId(self._next_id)  # noqa: A001 (the word for it)
        self._next_id += 1
        return id

    def _add(self, name: str, id: ProcessId, address: object) -> PeerSession:
        path = Path(self._layer.limits)
        session = PeerSession(name, name_hash(name), id, address, path)
        for other in self.sessions.values():
            if other.name_hash == session.name_hash:
                raise ConfigError(
                    f"the names {name} and {other.name} have the same hash; rename one"
                )
        session.epoch_out = self.new_epoch()
        if self._entry_names is not None:
            self._entry_names.add_session(session)
        self.sessions[name] = session
        self._by_id[id] = session
        self._layer.add(session)
        self.report_history(id, name, 0)
        return session

    def set_id(self, session: PeerSession, id: ProcessId) -> None:
        """Give a session the process id that the history of the peer has."""
        self._by_id.pop(session.id, None)
        session.id = id
        self._by_id[id] = session

    def add_id(self, session: PeerSession) -> None:
        """Give a session another process id, for another history of the peer."""
        session.id = self.new_id()
        self._by_id[session.id] = session

    def identify(self, session: PeerSession) -> None:
        """Tell the process which history of a peer its entries mean from now on."""
        if self._entry_names is not None:
            self._entry_names.identify(session)

    def add_former(self, name: str, history: int) -> ProcessId:
        """Return a process id for a former history of a peer."""
        id = self.new_id()  # noqa: A001 (the word for it)
        if self._entry_names is not None:
            self._entry_names.identify_former(id, name, history)
        self.report_history(id, name, history)
        return id

    def remove_id(self, id: ProcessId) -> None:
        """Delete the process id of a former history."""
        self._by_id.pop(id, None)
        if self._entry_names is not None:
            self._entry_names.forget(id)

    def remove(self, session: PeerSession) -> None:
        """Delete a session."""
        del self.sessions[session.name]
        self.remove_id(session.id)
        self._layer.remove(session)

    def report_history(self, id: ProcessId, name: str, history: int) -> None:
        """Report which history of which peer has a process id."""
        if self._on_history is not None and self.directory is None:
            self._on_history(id, name, history)

    def new_epoch(self) -> int:
        """Return the first epoch of another generation."""
        if (self.generation + 2) * EPOCHS_PER_GENERATION > EPOCH_MAX:
            raise ConfigError(
                "this node has met too many peers; restart it with a new journal"
            )
        self.generation += 1
        return self.generation * EPOCHS_PER_GENERATION
