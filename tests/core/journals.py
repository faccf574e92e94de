"""A process that keeps a journal in memory and can be restarted from it; broken ones, too.

The journal sees the inputs and the deliveries of the process, and nothing of its insides.
"""

from collections.abc import Iterable

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Ack, Message, Permit

__all__ = ["BROKEN", "Journal", "Journaled"]

Copy = tuple[ProcessId, int, int, int, bytes]


class Journal:
    """What a process must remember to be itself again."""

    def __init__(self) -> None:
        self.clock = 0
        self.sent: dict[ProcessId, int] = {}
        self.delivered: dict[ProcessId, int] = {}
        self.permitted: dict[ProcessId, int] = {}
        self.missing: list[tuple[int, ProcessId, int]] = []
        """Delivered and without a permit: which one of all those, source and number."""
        self.missing_ever = 0
        self.copies: list[Copy] = []
        """Not acked: target, number, predecessor, ``missing_ever`` then, and payload."""

    # What happens.

    def note_send(self, number: int, targets: Iterable[ProcessId], payload: bytes) -> None:
        self.clock = number
        for target in dict.fromkeys(targets):
            predecessor = self.sent.get(target, 0)
            self.copies.append((target, number, predecessor, self.missing_ever, payload))
            self.sent[target] = number

    def note_ack(self, source: ProcessId, number: int) -> None:
        self.copies = [
            copy for copy in self.copies if copy[0] != source or copy[1] > number
        ]

    def note_permit(self, source: ProcessId, number: int) -> None:
        self.permitted[source] = max(number, self.permitted.get(source, 0))
        self.missing = [
            each for each in self.missing if each[1] != source or each[2] > number
        ]

    def note_delivery(self, source: ProcessId, number: int) -> None:
        self.delivered[source] = number
        if number > self.permitted.get(source, 0):
            self.missing.append((self.missing_ever, source, number))
            self.missing_ever += 1

    def note_abandon(self, peer: ProcessId) -> None:
        self.copies = [copy for copy in self.copies if copy[0] != peer]
        self.sent[peer] = 0

    def note_renew(self, peer: ProcessId) -> None:
        if peer in self.delivered:
            self.delivered[peer] = 0

    def note_waive(self, peer: ProcessId) -> None:
        self.missing = [each for each in self.missing if each[1] != peer]
        self.delivered.pop(peer, None)
        self.permitted.pop(peer, None)

    # What is restored.

    def restored_clock(self) -> int:
        return self.clock

    def restored_pairs(self) -> list[tuple[ProcessId, int, int, int]]:
        peers = sorted(self.sent.keys() | self.delivered.keys() | self.permitted.keys())
        return [
            (
                peer,
                self.sent.get(peer, 0),
                self.delivered.get(peer, 0),
                self.permitted.get(peer, 0),
            )
            for peer in peers
        ]

    def restored_missing(self) -> list[tuple[ProcessId, int]]:
        return [(source, number) for _, source, number in self.missing]

    def restored_copies(self) -> list[Copy]:
        found: list[Copy] = []
        for target, number, predecessor, ever, payload in self.copies:
            depends = sum(which < ever for which, _, _ in self.missing)
            found.append((target, number, predecessor, depends, payload))
        return found


class Journaled:
    """A process with a journal; an input is in it before its outputs can be seen."""

    def __init__(
        self, kind: type[HybridBasic], id: ProcessId, journal: Journal | None = None
    ) -> None:
        self.kind = kind
        self.inner = kind(id)
        self.journal = journal if journal is not None else Journal()
        self._deliveries: list[Delivery] = []

    @property
    def id(self) -> ProcessId:
        return self.inner.id

    def restart(self, now: float) -> HybridBasic:
        """Go on with a process made from the journal alone, and return it."""
        journal = self.journal
        self.inner = self.kind(self.inner.id)
        self.inner.restore(
            journal.restored_clock(),
            journal.restored_pairs(),
            journal.restored_missing(),
            journal.restored_copies(),
            now,
        )
        return self.inner

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        chosen = list(targets)
        number = self.inner.send(chosen, payload, now)
        self.journal.note_send(number, [t for t in chosen if t != self.id], payload)
        self._keep_deliveries()
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self.inner.receive(source, frame, now)
        if isinstance(frame, Ack):
            self.journal.note_ack(source, frame.delivered)
        elif isinstance(frame, Permit) or (isinstance(frame, Message) and frame.permitted):
            self.journal.note_permit(source, frame.number)
        self._keep_deliveries()

    def _keep_deliveries(self) -> None:
        for delivery in self.inner.messages_to_deliver():
            if delivery.source != self.id:
                self.journal.note_delivery(delivery.source, delivery.number)
            self._deliveries.append(delivery)

    def abandon(self, peer: ProcessId, now: float) -> None:
        self.journal.note_abandon(peer)
        self.inner.abandon(peer, now)

    def renew(self, peer: ProcessId, now: float) -> None:
        self.journal.note_renew(peer)
        self.inner.renew(peer, now)

    def waive(self, peer: ProcessId, now: float) -> None:
        self.journal.note_waive(peer)
        self.inner.waive(peer, now)

    def handle_timer(self, now: float) -> None:
        self.inner.handle_timer(now)

    def next_timer(self) -> float | None:
        return self.inner.next_timer()

    def frames_to_transmit(self) -> list[Transmit]:
        return self.inner.frames_to_transmit()

    def messages_to_deliver(self) -> list[Delivery]:
        found, self._deliveries = self._deliveries, []
        return found

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError


# Broken journals, each by one sentence.


class ForgetsWhatWasDelivered(Journal):
    def restored_pairs(self) -> list[tuple[ProcessId, int, int, int]]:
        return [(peer, sent, 0, much) for peer, sent, _, much in super().restored_pairs()]


class ForgetsMissingPermits(Journal):
    def restored_missing(self) -> list[tuple[ProcessId, int]]:
        return []

    def restored_copies(self) -> list[Copy]:
        return [(*copy[:3], 0, copy[4]) for copy in super().restored_copies()]


class ForgetsWhatCopiesWaitFor(Journal):
    def restored_copies(self) -> list[Copy]:
        return [(*copy[:3], 0, copy[4]) for copy in super().restored_copies()]


class ForgetsCopies(Journal):
    def restored_copies(self) -> list[Copy]:
        return []


class ForgetsPredecessors(Journal):
    def restored_copies(self) -> list[Copy]:
        return [(*copy[:2], 0, *copy[3:]) for copy in super().restored_copies()]


class ForgetsToWhomItSent(Journal):
    def restored_pairs(self) -> list[tuple[ProcessId, int, int, int]]:
        waiting = {copy[0] for copy in self.copies}
        return [
            (peer, sent if peer in waiting else 0, done, permitted)
            for peer, sent, done, permitted in super().restored_pairs()
        ]


class BelievesInPermitsThatNeverCame(Journal):
    def restored_pairs(self) -> list[tuple[ProcessId, int, int, int]]:
        return [(*pair[:3], pair[3] + 5) for pair in super().restored_pairs()]


BROKEN = (
    ForgetsWhatWasDelivered,
    ForgetsMissingPermits,
    ForgetsWhatCopiesWaitFor,
    ForgetsCopies,
    ForgetsPredecessors,
    ForgetsToWhomItSent,
    BelievesInPermitsThatNeverCame,
)
