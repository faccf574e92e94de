"""The search for a room before a join: whether it exists, and its protocol.

A process of a room needs its protocol from the start. So a node looks for the room first,
and then joins it with the protocol that it has found, or founds it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from antecede.errors import PeerError
from antecede.group.codec import decode_control
from antecede.group.effects import Effect
from antecede.group.frames import Answer, AnswerKind, Inquiry, Request
from antecede.group.outputs import Outputs
from antecede.group.search import Search
from antecede.group.settings import MembershipSettings

__all__ = ["Finder", "FoundRoom"]


@dataclass(frozen=True, slots=True)
class FoundRoom:
    """The result of a search."""

    protocol: str
    """The protocol of the room; empty if no node has the room, and this node founds it."""
    members: tuple[tuple[str, str], ...]
    """Names and addresses of the members that have answered."""


class Finder:
    """Looks for a room: a pure state machine, like the membership that follows it.

    Args:
        own_name: the name of this node.
        own_address: its address, as text.
        settings: may_found and the time-outs.
    """

    __slots__ = ("_out", "_protocols", "_search", "_settings", "result")

    def __init__(
        self, own_name: str, own_address: str, settings: MembershipSettings
    ) -> None:
        self.result: FoundRoom | None = None
        """The result; None while the search continues."""
        self._out = Outputs()
        self._search = Search(own_name, own_address, self._out, settings)
        self._protocols: dict[str, str] = {}
        self._settings = settings

    def start(self, candidates: Iterable[tuple[str, str]], now: float) -> None:
        """Ask nodes for the room, by name and address."""
        self._search.add(candidates, now)
        self._advance()

    def receive_control(self, source: str, data: bytes, now: float) -> None:
        """Process a message about the room; PeerError if it is invalid."""
        match decode_control(data):
            case Answer() as answer:
                if answer.kind is AnswerKind.PRESENT:
                    if not answer.protocol:
                        raise PeerError("a member has not named the protocol of its room")
                    self._protocols[source] = answer.protocol
                self._search.note_answer(source, answer, now)
            case Inquiry(address) if self._settings.may_found:
                self._search.note_seeker(source, address, now)
                seekers = self._search.seekers(without=source)
                self._out.control(source, Answer(AnswerKind.SEEKING, seekers))
            case Inquiry() | Request():
                self._out.control(source, Answer(AnswerKind.BUSY, ()))
        self._advance()

    def _advance(self) -> None:
        if self.result is not None:
            return
        sponsor = self._search.choose()
        if sponsor is not None:
            members = tuple(
                (name, address)
                for name, address in self._search.seekers(without="")
                if name in self._protocols
            )
            self.result = FoundRoom(self._protocols[sponsor], members)
        elif self._settings.may_found and self._search.may_found:
            self.result = FoundRoom("", ())

    def next_timer(self) -> float:
        """Return the time at which to call :meth:`handle_timer`; infinite for never."""
        return self._search.next_timer()

    def handle_timer(self, now: float) -> None:
        """Ask again the nodes whose answer is old; an early call is harmless."""
        self._search.handle_timer(now)

    def effects(self) -> list[Effect]:
        """Remove and return the effects, in order: Connect and SendControl only."""
        return self._out.take()

    def failure(self) -> str:
        """Return the reason for which no member was found."""
        return self._search.failure()
