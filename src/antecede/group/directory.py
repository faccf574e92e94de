"""The answers of a node about rooms of which it is not a member."""

from collections import OrderedDict

from antecede.group.codec import decode_control
from antecede.group.effects import Effect
from antecede.group.frames import Answer, AnswerKind, Inquiry, Request
from antecede.group.outputs import Outputs

__all__ = ["Directory"]

ROOMS_MAX = 256
SEEKERS_MAX = 64


class Directory:
    """Remembers the nodes that have asked for a room, so that two of them can meet."""

    __slots__ = ("_keep_s", "_seekers")

    def __init__(self, keep_s: float = 120.0) -> None:
        """Make an empty directory.

        Args:
            keep_s: the time for which a node that has asked for a room is remembered;
                longer than the time-out of a join.
        """
        self._keep_s = keep_s
        self._seekers: OrderedDict[str, dict[str, tuple[str, float]]] = OrderedDict()

    def receive_control(
        self, source: str, room: str, data: bytes, now: float
    ) -> list[Effect]:
        """Return the answer to a message about a room of which this node is no member.

        Raise PeerError if the message is invalid.
        """
        frame = decode_control(data)
        out = Outputs()
        if isinstance(frame, Inquiry):
            others = [pair for pair in self.seekers(room, now) if pair[0] != source]
            out.control(source, Answer(AnswerKind.ABSENT, tuple(others)))
            self._note(room, source, frame.address, now)
        elif isinstance(frame, Request):
            out.control(source, Answer(AnswerKind.ABSENT, ()))
        return out.take()

    def seekers(self, room: str, now: float) -> list[tuple[str, str]]:
        """Return names and addresses of the nodes that have asked for a room lately.

        A node that joins the room asks these nodes, too: one of them may have founded it.
        """
        return [
            (name, address)
            for name, (address, asked_at) in self._seekers.get(room, {}).items()
            if now - asked_at <= self._keep_s
        ]

    def _note(self, room: str, name: str, address: str, now: float) -> None:
        seekers = self._seekers.setdefault(room, {})
        self._seekers.move_to_end(room)
        seekers.pop(name, None)
        seekers[name] = (address, now)
        if len(seekers) > SEEKERS_MAX:
            del seekers[next(iter(seekers))]
        if len(self._seekers) > ROOMS_MAX:
            self._seekers.popitem(last=False)
