"""The links of a process on an overlay whose processes share no ids."""

from abc import abstractmethod

from antecede.core.overlay.directory import Directory
from antecede.core.process_id import ProcessId

__all__ = ["OverlayLinks"]


class OverlayLinks:
    """Optional capability of a process: the overlay selects its links.

    Call ``connect`` of the process to join the overlay through a member, and
    ``disconnect`` when a process with a link to it is down.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def directory(self) -> Directory:
        """The processes that this process knows."""

    @property
    @abstractmethod
    def is_newcomer(self) -> bool:
        """Whether the process has not joined yet."""

    @abstractmethod
    def peers(self) -> list[ProcessId]:
        """Return the peers that the overlay links to this process."""

    @abstractmethod
    def unsafe_peers(self) -> list[ProcessId]:
        """Return the linked peers whose links cannot carry messages yet."""
