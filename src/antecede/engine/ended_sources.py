"""Finds the sources in entries that have ended.

Entries may name a former history of a process. The processes that have met it learn that it
has ended, but they may be gone, or restarted. One process of a name runs at a time. So a
source has ended if its name runs another history *after* the source was known here: the
peer of that name has echoed a timestamp that is later. The sources of a name that no node
runs any more end when the application declares that process stopped. Datagrams of a source
may be in flight, and its messages may be held, for two leases afterwards.
"""

from collections.abc import Mapping

from antecede.core.process import NEVER
from antecede.engine.datagram import timestamp_ms
from antecede.engine.entry_names import EntryNames
from antecede.engine.peer_session import PeerSession
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.process_names import Identity
from antecede.engine.session_layer import SessionLayer

__all__ = ["EndedSources"]


class _Candidate:
    """A source that may have ended."""

    __slots__ = ("former_at", "identity", "known_at")

    identity: Identity
    known_at: float
    """When this node knew of the source at the latest."""
    former_at: float
    """When it was known that another history of the name is running; infinite before."""

    def __init__(self, identity: Identity, known_at: float) -> None:
        self.identity = identity
        self.known_at = known_at
        self.former_at = NEVER


class EndedSources:
    """The sources in the entries of one node that may have ended.

    Args:
        entry_names: names the sources.
        sessions: the sessions by name.
        layer: exchanges datagrams with the peers.
        driver: drives the process.
        lease_s: how long messages of a source may be delivered after its end.
    """

    __slots__ = (
        "_candidates",
        "_check_at",
        "_driver",
        "_entry_names",
        "_layer",
        "_lease_s",
        "_sessions",
    )

    def __init__(
        self,
        entry_names: EntryNames,
        sessions: Mapping[str, PeerSession],
        layer: SessionLayer,
        driver: ProcessDriver,
        lease_s: float,
    ) -> None:
        self._entry_names = entry_names
        self._sessions = sessions
        self._layer = layer
        self._driver = driver
        self._lease_s = lease_s
        self._candidates: dict[int, _Candidate] = {}
        self._check_at = -NEVER

    def next_deadline(self) -> float:
        """Return when :meth:`handle_deadline` is due next; infinity for never."""
        if self._candidates or self._entry_names.names.new_sources:
            return self._check_at
        return NEVER

    def handle_deadline(self, now: float) -> None:
        """Settle the entries of the sources that have ended, if it is time to look."""
        if self.next_deadline() > now:
            return
        self._check_at = now + self._lease_s / 8
        names = self._entry_names.names
        for id, identity in names.new_sources.items():  # noqa: A001 (the word for it)
            self._candidates[id] = _Candidate(identity, now)
        names.new_sources.clear()
        by_hash = {session.name_hash: session for session in self._sessions.values()}
        for id, candidate in list(self._candidates.items()):  # noqa: A001
            if not names.is_known(id):
                del self._candidates[id]
                continue
            name_hash, history = candidate.identity
            session = by_hash.get(name_hash)
            if session is not None and session.history == history:
                del self._candidates[id]  # Its end is noticed when it begins another one.
            elif candidate.former_at == NEVER:
                self._examine(candidate, session, now)
            elif now - candidate.former_at >= self._lease_s:
                del self._candidates[id]
                self._entry_names.dependencies.end_source(id, now)
                self._driver.drain(now)

    def declare_stopped(self, name_hash: int, now: float) -> bool:
        """End all known sources of a name, whose process has stopped for good.

        Return False if there is none.
        """
        if name_hash == self._layer.name_hash:
            return False
        names = self._entry_names.names
        found = names.sources(name_hash)
        for id in found:  # noqa: A001 (the word for it)
            names.new_sources.pop(id, None)
            candidate = self._candidates.get(id)
            if candidate is None:
                candidate = _Candidate(names.identity(id), now)
                self._candidates[id] = candidate
            candidate.former_at = min(candidate.former_at, now)
        return bool(found)

    def _examine(
        self, candidate: _Candidate, session: PeerSession | None, now: float
    ) -> None:
        """Find out whether another history of the name is running now."""
        if candidate.identity[0] == self._layer.name_hash:
            candidate.former_at = now  # This node runs, so a former history does not.
        elif session is not None and session.history != 0:
            if session.echoed > timestamp_ms(candidate.known_at):
                candidate.former_at = now
            else:
                self._layer.timers.schedule_hello(session, now)
