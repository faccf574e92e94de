"""Writes the changes of an engine to its journal."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from antecede.core.process import NO_PROCESS, ProcessBase
from antecede.engine.entry_names import EntryNames
from antecede.engine.journal import WILDCARD, JournalWriter
from antecede.engine.peer_session import PeerSession
from antecede.engine.process_names import OWN_ID

__all__ = ["ALL_PERMITTED", "JournalRecorder"]

ALL_PERMITTED: Final = 1 << 62
"""Above every message number."""


class JournalRecorder:
    """The journal of an engine, if it has one, and the sessions to record."""

    __slots__ = ("_changed", "on_commit", "writer")

    writer: JournalWriter | None
    on_commit: Callable[[str, int, int], Awaitable[None]] | None
    """What ``Message.commit`` calls, with source, history and number."""

    def __init__(self) -> None:
        self.writer = None
        self.on_commit = None
        self._changed: dict[str, PeerSession] = {}

    def attach(
        self,
        writer: JournalWriter,
        on_commit: Callable[[str, int, int], Awaitable[None]] | None,
        process: ProcessBase,
        sessions: Iterable[PeerSession],
    ) -> None:
        """Record to a journal from now on."""
        self.writer = writer
        self.on_commit = on_commit
        dependencies = process.dependencies
        if dependencies is not None:
            dependencies.record_changes()
        # Before the next message: what was transmitted to the peers is known now.
        for session in sessions:
            self.session_changed(session)
        self.record_sessions(process)

    def session_changed(self, session: PeerSession) -> None:
        """Record the session at the next flush."""
        if self.writer is not None:
            self._changed[session.name] = session

    def discard_copies(self, session: PeerSession) -> None:
        """Discard the copies to a peer that were abandoned."""
        if self.writer is not None:
            self.writer.discard_copies(session.name)
            self._changed[session.name] = session

    def forgo_permits(self, name: str, history: int) -> None:
        """Record that the messages of a history need no permit any more."""
        self.permitted(name, history, ALL_PERMITTED)

    def permitted(self, name: str, history: int, number: int) -> None:
        """Record the permits of a history that ends; the record of the peer drops them."""
        if self.writer is not None:
            self.writer.record_permitted(name, history, number)

    def forget(self, session: PeerSession, number: int) -> None:
        """Delete the record of a peer, of which no permit is missing.

        ``number`` is the last one that may have been transmitted to a forgotten peer.
        """
        if self.writer is not None:
            self.forgo_permits(session.name, session.history)
            self._changed.pop(session.name, None)
            self.writer.forget_peer(session.name, number)

    def record_entries(self, entry_names: EntryNames) -> None:
        """Record the entries that were added and removed since the last call."""
        writer = self.writer
        if writer is None:
            return
        identity = entry_names.names.identity
        for is_added, source, target, number, id in entry_names.dependencies.take_changes():  # noqa: A001
            peer = entry_names.reporter(id)
            if source == OWN_ID:
                writer.record_wildcard(is_added, identity(target)[0], number, peer)
                continue
            named = identity(source) if source != NO_PROCESS else WILDCARD
            record = writer.record_entry if is_added else writer.discard_entry
            record(named, identity(target)[0], number, peer)

    def record_sessions(self, process: ProcessBase) -> None:
        """Record the sessions that have changed since the last call."""
        writer = self.writer
        recovery = process.recovery if writer is not None else None
        if writer is None or recovery is None:
            return
        for session in self._changed.values():
            writer.record_peer(session, recovery.channel_numbers(session.id))
        self._changed.clear()
