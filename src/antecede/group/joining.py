"""The newcomer's side of a join: attempts, the snapshot, and the messages held for it."""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from antecede.core.process import NEVER
from antecede.errors import PeerError
from antecede.group.effects import Deliver, Joined, JoinFailed, Restore
from antecede.group.frames import (
    Answer,
    AnswerKind,
    Chunk,
    CutNotice,
    Introduction,
    JoinedNotice,
    Leaving,
    MemberState,
    Offer,
    Outdated,
    Progress,
    Refused,
    Request,
    RosterEntry,
    SnapshotStart,
)
from antecede.group.held_messages import CutFilter, HeldMessages
from antecede.group.member import Member, RoomMessage
from antecede.group.outputs import Outputs
from antecede.group.search import Search
from antecede.group.settings import MembershipSettings
from antecede.group.snapshot_transfer import SnapshotReceiver
from antecede.group.view import View

__all__ = ["Joining", "Phase"]

ADMISSION_MAX: Final = 1 << 62


class Phase(Enum):
    """The phase of a node."""

    IDLE = "idle"
    """The node has not begun."""
    SEARCHING = "searching"
    """The node looks for a member."""
    WAITING = "waiting"
    """The node has asked a sponsor for admission; the members add it."""
    RECEIVING = "receiving"
    """The snapshot arrives."""
    RESTORING = "restoring"
    """The application restores the snapshot."""
    CONFIRMING = "confirming"
    """The snapshot is restored; the CutNotice of the sponsor has not arrived."""
    MEMBER = "member"
    """The node is a member."""
    OVER = "over"
    """The node has left, or could not join."""


SPONSORED: Final = (Phase.WAITING, Phase.RECEIVING, Phase.CONFIRMING)
"""The phases in which the newcomer waits for its sponsor."""


class Joining:
    """The state of this node's own admission."""

    __slots__ = (
        "_deadline",
        "_has_cut_notice",
        "_held",
        "_out",
        "_patience_s",
        "_progress",
        "_protocol",
        "_receiver",
        "_settings",
        "_silent_at",
        "_view",
        "_was_offered",
        "filter",
        "first",
        "may_found",
        "own",
        "phase",
        "search",
        "sponsor",
    )

    def __init__(
        self,
        own: Member,
        protocol: str,
        view: View,
        out: Outputs,
        settings: MembershipSettings,
    ) -> None:
        self.own = own
        self.first = own.admission
        """The admission of the first attempt since the node began to join."""
        self.phase = Phase.IDLE
        self.search = Search(own.name, own.address, out, settings)
        self.sponsor = ""
        self.filter = CutFilter()
        self.may_found = settings.may_found
        self._protocol = protocol
        self._view = view
        self._out = out
        self._settings = settings
        self._held = HeldMessages(settings.held_messages_max, settings.held_bytes_max)
        self._receiver: SnapshotReceiver | None = None
        self._progress: tuple[str, ...] = ()
        self._was_offered = False
        self._has_cut_notice = False
        self._deadline = NEVER
        self._silent_at = NEVER
        self._patience_s = settings.answer_timeout_s

    # Attempts.

    def start(self, now: float) -> None:
        """Begin to look for a member."""
        self.phase = Phase.SEARCHING
        self._deadline = now + self._settings.join_timeout_s
        self.advance(now)

    def become_member(self, has_founded: bool) -> None:
        """End the join: this node is a member."""
        self.phase = Phase.MEMBER
        self._deadline = NEVER
        self._silent_at = NEVER
        self._receiver = None
        self._out.append(Joined(has_founded))

    def advance(self, now: float) -> None:
        """Ask a member for admission if one is known, or found the room."""
        if self.phase is not Phase.SEARCHING:
            return
        sponsor = self.search.choose()
        if sponsor is not None:
            self._request(sponsor, now)
        elif self.may_found and self.search.may_found:
            self.become_member(has_founded=True)

    def _request(self, sponsor: str, now: float) -> None:
        self.sponsor = sponsor
        self.phase = Phase.WAITING
        self._progress = ()
        self._has_cut_notice = False
        self._note_sign(now)
        self._out.control(sponsor, Request(self._protocol, self.own))

    def retry(self, now: float) -> None:
        """Begin another attempt, with another member if there is one."""
        self.renumber(self.own.admission + 1)
        self._receiver = None
        self._silent_at = NEVER
        self.phase = Phase.SEARCHING
        for name in self._view.roster.members():
            entry = self._view.roster.get(name)
            if entry is not None:
                self.search.note_member(name, entry.member.address)
        self.search.note_failure(self.sponsor, now)
        self.advance(now)

    def rejoin(self, removed_by: str, address: str, now: float) -> None:
        """Begin to join again, because other members have removed this node."""
        self.may_found = False
        self.sponsor = ""
        self.search.note_member(removed_by, address)
        self._deadline = now + self._settings.join_timeout_s
        self._was_offered = True
        self.first = self.own.admission + 1
        self.retry(now)

    def renumber(self, admission: int) -> None:
        """Continue with a higher admission."""
        self.own = replace(self.own, admission=admission)

    def fail(self, reason: str) -> None:
        """End the join without success; inform the members that have added this node."""
        if self.phase in (Phase.IDLE, Phase.MEMBER, Phase.OVER):
            return
        self.phase = Phase.OVER
        self._deadline = NEVER
        self._silent_at = NEVER
        self._held.release()
        if self._was_offered:
            self._out.broadcast(Leaving(self.own.admission))
        self._out.append(JoinFailed(reason))

    # Messages of other nodes.

    def receive_answer(self, source: str, answer: Answer, now: float) -> None:
        """Process an answer to an inquiry, or the refusal of a busy sponsor."""
        is_sponsor = self.phase in SPONSORED and source == self.sponsor
        if is_sponsor and answer.kind is not AnswerKind.PRESENT:
            self.retry(now)
        self.search.note_answer(source, answer, now)
        self.advance(now)

    def receive_refusal(self, source: str, refused: Refused, now: float) -> None:
        """Fail, because the sponsor does not admit this node."""
        if self._is_of_attempt(source, refused.admission):
            self.fail(f"{source} refuses: {refused.reason}")

    def receive_outdated(self, source: str, outdated: Outdated, now: float) -> None:
        """Ask again with a number that is higher than any known one."""
        if outdated.admission >= ADMISSION_MAX:
            raise PeerError(f"admission {outdated.admission} is out of range")
        is_of_attempt = self.phase is Phase.WAITING and source == self.sponsor
        if is_of_attempt and outdated.admission >= self.own.admission:
            self.renumber(outdated.admission + 1)
            self._request(source, now)

    def receive_offer(self, source: str, offer: Offer, now: float) -> None:
        """Add the members that the sponsor names, so that their messages can arrive."""
        if self._is_of_attempt(source, offer.admission):
            self._was_offered = True
            self._note_sign(now)
            self.apply(offer.members, source)

    def apply(self, entries: Sequence[RosterEntry], source: str) -> None:
        """Apply the statements of a sponsor about the members."""
        for entry in entries:
            if entry.member.name != self.own.name:
                self._view.apply(entry, source)

    def receive_introduction(self, source: str, frame: Introduction, now: float) -> None:
        """Add another newcomer that a member admits at the same time."""
        if self.phase in SPONSORED and source == self.sponsor:
            self._note_sign(now)
            self.apply((RosterEntry(frame.member, MemberState.ADDED),), source)

    def receive_progress(self, source: str, progress: Progress, now: float) -> None:
        """Note that the sponsor is alive, and the members that it waits for."""
        if self._is_of_attempt(source, progress.admission):
            self._progress = progress.waiting_for
            self._note_sign(now)

    def receive_start(self, source: str, start: SnapshotStart, now: float) -> None:
        """Begin to receive the snapshot."""
        is_waiting = self.phase is Phase.WAITING
        if is_waiting and self._is_of_attempt(source, start.admission):
            try:
                receiver = SnapshotReceiver(start, self._settings.snapshot_bytes_max)
            except PeerError as error:
                self.fail(f"{source} sends a {error}")
                return
            self._receiver = receiver
            self.phase = Phase.RECEIVING
            self._note_sign(now)

    def receive_chunk(self, source: str, chunk: Chunk, now: float) -> None:
        """Store a part of the snapshot; restore it when it is complete.

        If the snapshot is damaged, ask for another one, from another member if there is
        one.
        """
        receiver = self._receiver
        if not self._is_of_attempt(source, chunk.admission) or receiver is None:
            return
        try:
            self._out.control(source, receiver.add(chunk))
            if not receiver.is_complete:
                self._note_sign(now)
                return
            snapshot = receiver.snapshot()
        except PeerError:
            self.retry(now)
            return
        self.phase = Phase.RESTORING
        self._silent_at = NEVER
        self._receiver = None
        self.apply(snapshot.entries, source)
        self.filter = CutFilter(snapshot.cut)
        self._out.append(Restore(snapshot.state, snapshot.cut))

    def _is_of_attempt(self, source: str, admission: int) -> bool:
        return (
            self.phase in SPONSORED
            and source == self.sponsor
            and admission == self.own.admission
        )

    def _note_sign(self, now: float) -> None:
        self._silent_at = now + self._patience_s

    # Messages of the application.

    def hold(self, message: RoomMessage) -> None:
        """Keep a message until the snapshot is restored."""
        if self.phase is not Phase.OVER and not self._held.hold(message):
            self.fail(
                "more messages arrived than this node holds until its snapshot is complete"
                " (held_messages_max, held_bytes_max)"
            )

    def deliver(self, message: RoomMessage) -> None:
        """Deliver a message unless the snapshot contains it."""
        if not self.filter.contains(message):
            self._out.append(Deliver(message))

    def restored(self, now: float) -> None:
        """Continue after the application has restored the snapshot."""
        if self.phase is Phase.RESTORING:
            self.phase = Phase.CONFIRMING
            self._note_sign(now)
            self.finish()

    def receive_cut_notice(self, source: str, notice: CutNotice, now: float) -> None:
        """Note that the messages of the snapshot happened before all later ones."""
        if source == self.sponsor and notice.admission == self.own.admission:
            self._has_cut_notice = True
            self.finish()

    def finish(self) -> None:
        """Deliver the held messages, and broadcast that this node is a member.

        Wait until all members and newcomers have been met: messages to a former incarnation
        of one of them are lost.
        """
        is_restored = self.phase is Phase.CONFIRMING and self._has_cut_notice
        if is_restored and not self._view.unready_peers():
            for message in self._held.release():
                self.deliver(message)
            self._out.broadcast(JoinedNotice(self.own.admission))
            self.become_member(has_founded=False)

    # Time.

    def waiting_for(self) -> Sequence[str]:
        """Return the nodes that the join waits for."""
        if self.phase is Phase.SEARCHING:
            return self.search.unanswered()
        if self.phase in SPONSORED:
            unready = self._view.unready_peers() if self._has_cut_notice else ()
            return unready or self._progress or (self.sponsor,)
        return ()

    def next_timer(self) -> float:
        """Return the time of the next time-out; infinite for never."""
        due = min(self._deadline, self._silent_at)
        if self.phase is Phase.SEARCHING:
            due = min(due, self.search.next_timer())
        return due

    def handle_timer(self, now: float) -> None:
        """Ask again, choose another sponsor, or fail."""
        if now >= self._deadline:
            seconds = self._settings.join_timeout_s
            self.fail(f"not joined within {seconds:g} s: {self.obstacle()}")
        elif now >= self._silent_at:
            # The application of the sponsor may need long for its snapshot.
            self._patience_s *= 2
            self.retry(now)
        elif self.phase is Phase.SEARCHING:
            self.search.handle_timer(now)

    def obstacle(self) -> str:
        """Return the reason for which this node is not a member yet; empty if it is one.

        An error at the time-out of the join has the same text.
        """
        if self.phase is Phase.SEARCHING:
            return self.search.failure()
        if self.phase is Phase.RESTORING:
            return "the application has not restored the snapshot"
        if self.phase not in SPONSORED:
            return ""
        if self.phase is Phase.RECEIVING:
            return f"the snapshot of {self.sponsor} has not arrived"
        names = ", ".join(self.waiting_for())
        if self._progress and not self._has_cut_notice:
            return f"{self.sponsor} waits for {names} to confirm"
        return f"no answer from {names}"
