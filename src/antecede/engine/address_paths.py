"""The exchange between the socket of a driver, which knows addresses, and the paths."""

from antecede.engine.fault_reports import FaultReports
from antecede.engine.peer_session import PeerSession

__all__ = ["AddressPaths"]


class AddressPaths:
    """The paths of one node by address.

    Args:
        sessions: the sessions of the node.
        faults: reports a size that is too large even for the base size.
    """

    __slots__ = ("_faults", "_sessions", "marked")

    marked: set[object]
    """The addresses to which datagrams are to have the mark ECT(0); see
    :mod:`antecede.engine.ecn`. The engine changes the set during a flush."""

    def __init__(self, sessions: dict[int, PeerSession], faults: FaultReports) -> None:
        self._sessions = sessions
        self._faults = faults
        self.marked = set()

    def update_mark(self, session: PeerSession) -> None:
        """Mark the datagrams to a peer if its path asks for marks."""
        address = session.address if session.path.ecn.is_marking else None
        if address is not session.marked_address:
            self.forget(session)
            session.marked_address = address
            if address is not None:
                self.marked.add(address)

    def forget(self, session: PeerSession) -> None:
        """Mark no datagram to a peer any more."""
        self.marked.discard(session.marked_address)
        session.marked_address = None

    def refuse_size(self, address: object, size: int, now: float) -> None:
        """Transmit smaller datagrams to an address, because the socket has refused one."""
        for session in self._sessions.values():
            if session.address == address:
                session.path.refuse_size(size, now)
                if size <= session.path.mtu.base:
                    self._faults.datagrams_too_large(session, size, now)
