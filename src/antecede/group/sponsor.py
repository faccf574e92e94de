"""The part of a member that admits newcomers."""

from collections.abc import Iterable, Sequence

from antecede.core.process import NEVER
from antecede.group.effects import TakeSnapshot
from antecede.group.frames import (
    Adding,
    Answer,
    AnswerKind,
    CutNotice,
    Introduction,
    MemberState,
    Offer,
    Progress,
    Refused,
    RosterEntry,
    SnapshotHeader,
)
from antecede.group.member import CutEntry, Member
from antecede.group.outputs import Outputs
from antecede.group.settings import MembershipSettings
from antecede.group.snapshot_transfer import SnapshotSender
from antecede.group.view import View

__all__ = ["Sponsor"]

SIGNS_PER_TIMEOUT = 3
"""The number of messages of a sponsor in the time after which a newcomer asks another
member."""


class _Sponsorship:
    """One admission that this node carries out."""

    __slots__ = ("deadline", "has_asked", "member", "sender", "sign_at", "waiting")

    def __init__(self, member: Member, waiting: set[str], deadline: float) -> None:
        self.member = member
        self.waiting = waiting
        """The members that have not confirmed yet."""
        self.has_asked = False
        """Whether the application was asked for a snapshot."""
        self.sender: SnapshotSender | None = None
        self.sign_at = 0.0
        self.deadline = deadline


class Sponsor:
    """The admissions that this node carries out, by newcomer."""

    __slots__ = ("_newcomers", "_out", "_settings", "_view")

    def __init__(self, view: View, out: Outputs, settings: MembershipSettings) -> None:
        self._view = view
        self._out = out
        self._settings = settings
        self._newcomers: dict[str, _Sponsorship] = {}

    def admit(self, member: Member, own: Member, now: float) -> None:
        """Begin to admit a newcomer, whose admission is new."""
        roster = self._view.roster
        waiting = {peer.name for peer in roster.peers()} - {member.name}
        entries = [RosterEntry(own, MemberState.JOINED)]
        entries += [entry for entry in roster if entry.member.name in waiting]
        # The broadcast comes first: it need not reach the newcomer, and every message of
        # this node after it does.
        self._out.broadcast(Adding(member))
        self._view.apply(RosterEntry(member, MemberState.ADDED), own.name)
        self._out.control(member.name, Offer(member.admission, tuple(entries)))
        sponsorship = _Sponsorship(member, waiting, now + self._settings.join_timeout_s)
        self._newcomers[member.name] = sponsorship
        self._schedule_sign(sponsorship, now)

    def introduce(self, member: Member) -> None:
        """Inform the newcomers of another one that a member admits at the same time.

        Otherwise a newcomer would learn of the other one with its snapshot. Until then no
        message of the other one would be delivered to it, and under the hybrid protocols
        every process that has delivered such a message would have to wait.
        """
        for name in self._newcomers:
            if name != member.name:
                self._out.control(name, Introduction(member))

    def confirmed(self, source: str, newcomer: str, admission: int) -> None:
        """Note that a member sends all later broadcasts to a newcomer, too."""
        sponsorship = self._find(newcomer, admission)
        if sponsorship is not None:
            sponsorship.waiting.discard(source)
            self._ask_if_complete(sponsorship)

    def check(self) -> None:
        """Continue after the view has changed: do not wait for nodes that are gone."""
        roster = self._view.roster
        for name, sponsorship in list(self._newcomers.items()):
            entry = roster.get(name)
            if (
                entry is None
                or entry.member.admission != sponsorship.member.admission
                or entry.state is not MemberState.ADDED
            ):
                del self._newcomers[name]
                continue
            sponsorship.waiting = {peer for peer in sponsorship.waiting if peer in roster}
            self._ask_if_complete(sponsorship)

    def _ask_if_complete(self, sponsorship: _Sponsorship) -> None:
        if sponsorship.has_asked or sponsorship.waiting:
            return
        member = sponsorship.member
        if self._view.is_ready(member):
            sponsorship.has_asked = True
            self._out.append(TakeSnapshot(member.name, member.admission))

    def send_snapshot(
        self,
        newcomer: str,
        admission: int,
        own: Member,
        state: bytes,
        cut: Iterable[CutEntry],
        now: float,
    ) -> None:
        """Begin the transfer of a snapshot, with the members of this moment."""
        sponsorship = self._find(newcomer, admission)
        if sponsorship is None or not sponsorship.has_asked or sponsorship.sender:
            return
        limit = self._settings.snapshot_bytes_max
        if len(state) > limit:
            reason = (
                f"the snapshot of {own.name} has {len(state)} bytes; at most {limit} are"
                " allowed (snapshot_bytes_max)"
            )
            self.refuse(newcomer, admission, reason)
            return
        entries = [RosterEntry(own, MemberState.JOINED)]
        entries += [e for e in self._view.roster if e.member.name != newcomer]
        header = SnapshotHeader(tuple(entries), tuple(cut), state)
        settings = self._settings
        sponsorship.sender = SnapshotSender(
            admission, header, settings.chunk_bytes, settings.chunks_under_way_max
        )
        self._out.in_room(newcomer, CutNotice(admission))
        self._out.control(newcomer, sponsorship.sender.start())
        self._send_chunks(sponsorship, now)

    def refuse(self, newcomer: str, admission: int, reason: str) -> None:
        """Refuse a newcomer for good; it leaves then."""
        if self._find(newcomer, admission) is not None:
            self._out.control(newcomer, Refused(admission, reason))

    def acknowledge(self, source: str, admission: int, received: int, now: float) -> None:
        """Process the confirmation of chunks."""
        sponsorship = self._find(source, admission)
        if sponsorship is None or sponsorship.sender is None:
            return
        if sponsorship.sender.acknowledge(received):
            sponsorship.deadline = now + self._settings.join_timeout_s
            self._send_chunks(sponsorship, now)

    def _send_chunks(self, sponsorship: _Sponsorship, now: float) -> None:
        if sponsorship.sender is not None:
            for chunk in sponsorship.sender.chunks():
                self._out.control(sponsorship.member.name, chunk)
        self._schedule_sign(sponsorship, now)

    def _schedule_sign(self, sponsorship: _Sponsorship, now: float) -> None:
        sponsorship.sign_at = now + self._settings.answer_timeout_s / SIGNS_PER_TIMEOUT

    def stop(self) -> None:
        """Send all newcomers to another member: this one leaves, or was removed."""
        for name in self._newcomers:
            self._out.control(name, Answer(AnswerKind.BUSY, ()))
        self._newcomers.clear()

    def waiting_for(self) -> Sequence[str]:
        """Return the members whose confirmation is missing, sorted."""
        names = {name for each in self._newcomers.values() for name in each.waiting}
        return sorted(names)

    def next_timer(self) -> float:
        """Return the time of the next message or time-out; infinite for never."""
        times = (min(s.sign_at, s.deadline) for s in self._newcomers.values())
        return min(times, default=NEVER)

    def handle_timer(self, now: float) -> list[Member]:
        """Send the messages that are due; return the newcomers whose time is over."""
        expired = []
        for name, sponsorship in self._newcomers.items():
            if now >= sponsorship.deadline:
                expired.append(sponsorship.member)
            elif now >= sponsorship.sign_at:
                waiting = tuple(sorted(sponsorship.waiting))
                self._out.control(name, Progress(sponsorship.member.admission, waiting))
                self._schedule_sign(sponsorship, now)
        return expired

    def _find(self, newcomer: str, admission: int) -> _Sponsorship | None:
        sponsorship = self._newcomers.get(newcomer)
        if sponsorship is None or sponsorship.member.admission != admission:
            return None
        return sponsorship
