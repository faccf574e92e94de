"""The answers to nodes that look for the room, or ask for admission."""

from antecede.errors import PeerError
from antecede.group.frames import Answer, AnswerKind, Inquiry, Outdated, Refused, Request
from antecede.group.joining import Joining, Phase
from antecede.group.outputs import Outputs
from antecede.group.settings import MembershipSettings
from antecede.group.sponsor import Sponsor
from antecede.group.view import View

__all__ = ["Reception"]


class Reception:
    """Answers inquiries, and passes acceptable requests on to the sponsor."""

    __slots__ = (
        "_joining",
        "_out",
        "_protocol",
        "_room",
        "_settings",
        "_sponsor",
        "_view",
    )

    def __init__(
        self,
        room: str,
        protocol: str,
        joining: Joining,
        sponsor: Sponsor,
        view: View,
        out: Outputs,
        settings: MembershipSettings,
    ) -> None:
        self._room = room
        self._protocol = protocol
        self._joining = joining
        self._sponsor = sponsor
        self._view = view
        self._out = out
        self._settings = settings

    def receive_inquiry(self, source: str, frame: Inquiry, now: float) -> None:
        """Answer whether this node is a member of the room."""
        joining = self._joining
        if joining.phase is Phase.MEMBER:
            is_free = self._settings.can_admit(source)
            kind = AnswerKind.PRESENT if is_free else AnswerKind.BUSY
            answer = Answer(kind, (), self._protocol)
        elif joining.phase is Phase.SEARCHING and joining.may_found:
            joining.search.note_seeker(source, frame.address, now)
            answer = Answer(AnswerKind.SEEKING, joining.search.seekers(without=source))
        elif joining.phase in (Phase.IDLE, Phase.OVER):
            answer = Answer(AnswerKind.ABSENT, ())
        else:
            answer = Answer(AnswerKind.BUSY, ())
        self._out.control(source, answer)
        joining.advance(now)

    def receive_request(self, source: str, frame: Request, now: float) -> None:
        """Begin to admit a newcomer, or refuse it with a reason."""
        member = frame.member
        if member.name != source:
            raise PeerError(f"{source} asks for the admission of {member.name}")
        is_member = self._joining.phase is Phase.MEMBER
        if not is_member or not self._settings.can_admit(source):
            self._out.control(source, Answer(AnswerKind.BUSY, ()))
            return
        reason = self._reason_to_refuse(frame)
        known = self._view.roster.get(source)
        if reason:
            self._out.control(source, Refused(member.admission, reason))
        elif known is not None and member.admission <= known.member.admission:
            self._out.control(source, Outdated(known.member.admission))
        else:
            self._sponsor.admit(member, self._joining.own, now)

    def _reason_to_refuse(self, request: Request) -> str:
        name = request.member.name
        if name == self._joining.own.name:
            return f"the name {name!r} is taken"
        if request.protocol != self._protocol:
            return f"the room {self._room!r} uses the protocol {self._protocol}"
        others = {peer.name for peer in self._view.roster.peers()} - {name}
        if len(others) + 2 > self._settings.members_max:
            return (
                f"the room {self._room!r} has {len(others) + 1} members, of at most"
                f" {self._settings.members_max} (members_max)"
            )
        if not self._settings.accept(name):
            return "the application has not accepted it"
        return ""
