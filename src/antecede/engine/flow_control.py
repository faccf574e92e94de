"""Flow control: when a message may be sent, and how many copies are under way."""

from collections.abc import Iterable, Sequence

from antecede.core.process import ProcessBase
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE, REMOVING, PeerSession

__all__ = ["FlowControl"]


class FlowControl:
    """The windows of a node to its peers."""

    __slots__ = (
        "_process",
        "_retained_max",
        "_sessions",
        "_window_bytes",
        "_window_copies",
    )

    def __init__(
        self, process: ProcessBase, sessions: dict[str, PeerSession], limits: Limits
    ) -> None:
        self._process = process
        self._sessions = sessions
        self._window_copies = limits.window_copies_max
        self._window_bytes = limits.window_bytes_max
        self._retained_max = limits.retained_copies_max

    def has_room(self, targets: Iterable[str]) -> bool:
        """Return whether the windows of all active peers in ``targets`` are open.

        Other targets do not count: a send to them fails at once.
        """
        if self._process.retained() >= self._retained_max:
            return False
        for name in targets:
            session = self._sessions.get(name)
            if (
                session is not None
                and session.state is ACTIVE
                and not self._is_open(session)
            ):
                return False
        return True

    def accepts(self, session: PeerSession) -> bool:
        """Return whether a copy to one peer may be sent."""
        return self._is_open(session) and self._process.retained() < self._retained_max

    def _is_open(self, session: PeerSession) -> bool:
        process = self._process
        return (
            process.backlog(session.id) < self._window_copies
            and process.backlog_bytes(session.id) < self._window_bytes
        )

    def is_only_in_flight(self, targets: Sequence[str]) -> bool:
        """Return whether the copy just sent is the only one under way to its target."""
        if len(targets) != 1:
            return False
        session = self._sessions.get(targets[0])
        return session is not None and self._process.backlog(session.id) == 1

    @property
    def backlog(self) -> int:
        """How many copies are queued or in flight, to peers that may still ack them."""
        process = self._process
        return sum(
            process.backlog(session.id)
            for session in self._sessions.values()
            if session.state in (ACTIVE, REMOVING)
        )
