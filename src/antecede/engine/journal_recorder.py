"""Writes the changes of an engine to its journal."""

from collections.abc import Callable

from antecede.core.process import ProcessBase
from antecede.engine.journal import JournalWriter
from antecede.engine.peer_session import PeerSession

__all__ = ["JournalRecorder"]


class JournalRecorder:
    """The journal of an engine, if it has one, and the sessions to record at a commit."""

    __slots__ = ("_changed", "on_commit", "writer")

    writer: JournalWriter | None
    on_commit: Callable[[str, int, int], None] | None
    """What ``Message.commit`` calls, with source, history and number."""

    def __init__(self) -> None:
        self.writer = None
        self.on_commit = None
        self._changed: dict[str, PeerSession] = {}

    def session_changed(self, session: PeerSession) -> None:
        """Record the session at the next commit."""
        if self.writer is not None:
            self._changed[session.name] = session

    def discard_copies(self, session: PeerSession) -> None:
        """Discard the copies to a peer that were abandoned."""
        if self.writer is not None:
            self.writer.discard_copies(session.name)
            self._changed[session.name] = session

    def commit(self, process: ProcessBase) -> None:
        """Make everything durable that has happened so far."""
        writer = self.writer
        recovery = process.recovery
        if writer is None or recovery is None:
            return
        for session in self._changed.values():
            writer.record_peer(session, recovery.channel_numbers(session.id))
        self._changed.clear()
        writer.commit()
