"""The search of a newcomer for a member of the room, or for the right to found it.

A newcomer asks all nodes that it knows whether they are members of the room. A node that is
not a member answers with the other nodes that have asked it for the room, and the newcomer
asks these, too. It founds the room when every node has answered that it has no such room,
and its name is the first of those that look for the room at this time. Two nodes that look
for a room at the same time thus found one room, if one of them asks the other, or both ask
a third one.
"""

from collections.abc import Iterable, Sequence

from antecede.core.process import NEVER
from antecede.group.effects import Connect
from antecede.group.frames import Answer, AnswerKind, Inquiry
from antecede.group.outputs import Outputs
from antecede.group.settings import MembershipSettings

__all__ = ["Search"]

CANDIDATES_MAX = 1024
"""The maximum number of nodes that a newcomer asks."""


class _Candidate:
    """A node that may be a member."""

    __slots__ = ("address", "answer", "ask_at", "tried_at")

    def __init__(self, address: str) -> None:
        self.address = address
        self.answer: AnswerKind | None = None
        self.ask_at = NEVER
        self.tried_at = -NEVER


class Search:
    """The nodes that a newcomer knows, and their answers."""

    __slots__ = ("_candidates", "_out", "_own_address", "_own_name", "_settings")

    def __init__(
        self, name: str, address: str, out: Outputs, settings: MembershipSettings
    ) -> None:
        self._own_name = name
        self._own_address = address
        self._out = out
        self._settings = settings
        self._candidates: dict[str, _Candidate] = {}

    def add(self, nodes: Iterable[tuple[str, str]], now: float) -> None:
        """Ask these nodes, unless they are known."""
        for name, address in nodes:
            if name == self._own_name or name in self._candidates:
                continue
            if len(self._candidates) < CANDIDATES_MAX:
                self._candidates[name] = _Candidate(address)
                self._out.append(Connect(name, address))
                self._ask(name, now)

    def _ask(self, name: str, now: float) -> None:
        # The channel is reliable, but the other node may restart and forget the question.
        self._candidates[name].ask_at = now + self._settings.answer_timeout_s
        self._out.control(name, Inquiry(self._own_address))

    def note_seeker(self, name: str, address: str, now: float) -> None:
        """Ask another node that looks for the room, too: it has asked this one.

        Its question does not count as an answer: it may be late, and the node may have
        founded the room. A node that answers SEEKING knows that this one looks for the
        room.
        """
        candidate = self._candidates.get(name)
        if candidate is None:
            self.add([(name, address)], now)
        elif candidate.answer is AnswerKind.ABSENT:
            candidate.answer = None
            self._ask(name, now)

    def note_answer(self, name: str, answer: Answer, now: float) -> None:
        """Note an answer, and ask the nodes that it names."""
        candidate = self._candidates.get(name)
        if candidate is not None:
            candidate.answer = answer.kind
            if answer.kind is AnswerKind.PRESENT:
                candidate.ask_at = NEVER
            else:
                candidate.ask_at = now + self._settings.retry_s
        self.add(answer.seekers, now)

    def note_member(self, name: str, address: str) -> None:
        """Note a node that a member has named as a member."""
        if name not in self._candidates and len(self._candidates) < CANDIDATES_MAX:
            self._candidates[name] = _Candidate(address)
        if name in self._candidates:
            self._candidates[name].answer = AnswerKind.PRESENT

    def note_failure(self, name: str, now: float) -> None:
        """Note that an attempt through a member has failed, and ask the member again."""
        candidate = self._candidates.get(name)
        if candidate is not None:
            candidate.answer = None
            candidate.tried_at = now
            self._ask(name, now)

    def choose(self) -> str | None:
        """Return the member to ask for admission: one that was not tried, if possible."""
        present = [
            (candidate.tried_at, name)
            for name, candidate in self._candidates.items()
            if candidate.answer is AnswerKind.PRESENT
        ]
        return min(present)[1] if present else None

    @property
    def may_found(self) -> bool:
        """Whether no known node has the room, and this node must found it."""
        for name, candidate in self._candidates.items():
            if candidate.answer is AnswerKind.SEEKING:
                if name < self._own_name:
                    return False
            elif candidate.answer is not AnswerKind.ABSENT:
                return False
        return True

    def seekers(self, without: str) -> tuple[tuple[str, str], ...]:
        """Return the nodes that are known, for an answer to ``without``."""
        return tuple(
            (name, candidate.address)
            for name, candidate in self._candidates.items()
            if name != without
        )

    def unanswered(self) -> Sequence[str]:
        """Return the names of the nodes without an answer, sorted."""
        return sorted(
            name for name, candidate in self._candidates.items() if candidate.answer is None
        )

    def failure(self) -> str:
        """Return the reason for which no member was found."""
        silent = ", ".join(self.unanswered())
        if silent:
            return (
                f"no answer from {silent}: check the addresses, the key and the firewall;"
                " the first node of a room founds it with found=True"
            )
        busy = sorted(
            name
            for name, candidate in self._candidates.items()
            if candidate.answer is AnswerKind.BUSY
        )
        if busy:
            return (
                f"{', '.join(busy)} cannot admit it yet: they are joining themselves, or"
                " the lease of a removal has not ended"
            )
        asked = ", ".join(sorted(self._candidates))
        return f"none of the nodes that were asked is a member of the room: {asked}"

    def next_timer(self) -> float:
        """Return the next time at which a node is asked again; infinite for never."""
        return min((c.ask_at for c in self._candidates.values()), default=NEVER)

    def handle_timer(self, now: float) -> None:
        """Ask the nodes again whose answer is old."""
        for name, candidate in self._candidates.items():
            if now >= candidate.ask_at:
                self._ask(name, now)
