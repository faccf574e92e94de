"""Deliveries of the process: they go to the journal, the observer and the inbox."""

from antecede.core.codec import NO_PROCESS
from antecede.core.observer import Observer
from antecede.core.overlay.directory import Directory
from antecede.core.process import Delivery, ProcessId
from antecede.engine.bundle import BUNDLE, split
from antecede.engine.entry_names import EntryNames
from antecede.engine.fragmentation import WHOLE, WHOLE_PREFIX, Reassembly
from antecede.engine.journal import SavedDelivery
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.message import JournaledMessage, Message, UnorderedMessage
from antecede.engine.peer_session import PeerSession
from antecede.engine.session_layer import SessionLayer
from antecede.errors import PeerError

__all__ = ["Deliveries"]


class Deliveries:
    """Makes messages of deliveries, for the application to poll.

    Args:
        id: the id of the process.
        by_id: the sessions by process id.
        layer: the sessions, and the room in the inbox.
        journal: records deliveries.
        message_bytes_max: the largest message to accept.
        observer: records deliveries.
        wall_offset_s: the difference of the wall clock to ``now``.
        entry_names: returns which deliveries need a permit; None if all do.
        directory: names the sources that relayed messages may have; None without relays
            beyond the peers.
    """

    __slots__ = (
        "_by_id",
        "_directory",
        "_entry_names",
        "_flow",
        "_id",
        "_journal",
        "_layer",
        "_message_bytes_max",
        "_messages",
        "_observer",
        "_reassemblies",
        "_wall_offset_s",
        "count",
    )

    count: int
    """The number of messages that were put into the inbox so far."""

    def __init__(
        self,
        id: ProcessId,
        by_id: dict[ProcessId, PeerSession],
        layer: SessionLayer,
        journal: JournalRecorder,
        message_bytes_max: int,
        observer: Observer | None,
        wall_offset_s: float,
        entry_names: EntryNames | None,
        directory: Directory | None = None,
    ) -> None:
        self._id = id
        self._by_id = by_id
        self._directory = directory
        self._layer = layer
        self._flow = layer.flow
        self._journal = journal
        self._message_bytes_max = message_bytes_max
        self._observer = observer
        self._wall_offset_s = wall_offset_s
        self._entry_names = entry_names
        self._messages: list[Message] = []
        self._reassemblies: dict[tuple[str, int], Reassembly] = {}
        self.count = 0

    def add(self, deliveries: list[Delivery], now: float) -> None:
        """Move delivered messages to the inbox."""
        observer = self._observer
        writer = self._journal.writer
        delivered_at = now + self._wall_offset_s
        source = NO_PROCESS
        session: PeerSession | None = None
        name = self._layer.name
        history = self._layer.history
        for delivery in deliveries:
            if delivery.source != source:  # Usually it has the source of the last one.
                source = delivery.source
                if self._directory is not None:
                    name, history = self._directory.identity(source)
                else:
                    session = self._by_id.get(delivery.source)
                    if session is not None:
                        name, history = session.name, session.history
                        self._journal.session_changed(session)
                    else:
                        name, history = self._layer.name, self._layer.history
            payload = delivery.payload
            if payload and payload[0] == BUNDLE:
                self._deliver_bundle(session, name, history, delivery, delivered_at)
                continue
            if observer is not None:
                observer.delivered(self._id, delivery, delivered_at)
            if session is not None:
                self._flow.record_deliveries(session, 1)
            if writer is not None:
                needs_permit = self._needs_permit(delivery)
                writer.record_delivered(
                    name, history, delivery.number, payload, needs_permit
                )
            self._add_to_inbox(
                session, name, history, delivery.number, payload, delivered_at
            )

    def record_own(self, deliveries: list[Delivery], now: float) -> None:
        """Report messages of this node to the observer only: its application has them."""
        if self._observer is not None:
            for delivery in deliveries:
                self._observer.delivered(self._id, delivery, now + self._wall_offset_s)

    def _deliver_bundle(
        self,
        session: PeerSession | None,
        name: str,
        history: int,
        bundle: Delivery,
        delivered_at: float,
    ) -> None:
        """Move the messages of a bundle to the inbox; only the last may need a permit."""
        last = bundle.number
        try:
            parts = split(bundle.payload, last)
        except PeerError:
            self._layer.dropped["frame"] += 1
            return
        if session is not None:
            self._flow.record_deliveries(session, len(parts))
        observer = self._observer
        writer = self._journal.writer
        number = last - len(parts)
        for data in parts:
            number += 1
            if observer is not None:
                delivery = Delivery(bundle.source, number, data)
                observer.delivered(self._id, delivery, delivered_at)
            if writer is not None:
                needs_permit = number == last and self._needs_permit(bundle)
                payload = WHOLE_PREFIX + data
                writer.record_delivered(name, history, number, payload, needs_permit)
            self._put(name, history, number, data, delivered_at)

    def _needs_permit(self, delivery: Delivery) -> bool:
        """Return whether the permit of a message may be missing."""
        entry_names = self._entry_names
        return entry_names is None or entry_names.dependencies.needs_permit(
            delivery.source, delivery.number
        )

    def redeliver(
        self, session: PeerSession | None, saved: SavedDelivery, delivered_at: float
    ) -> None:
        """Put a message of the journal into the inbox."""
        self._add_to_inbox(
            session,
            saved.source,
            saved.history,
            saved.number,
            saved.payload,
            delivered_at,
        )

    def _add_to_inbox(
        self,
        session: PeerSession | None,
        name: str,
        history: int,
        number: int,
        payload: bytes,
        delivered_at: float,
    ) -> None:
        """Put a message into the inbox, or keep a fragment until the last one arrives."""
        if payload and payload[0] == WHOLE:
            data = payload[1:]
        else:
            if session is not None:
                reassembly = session.reassembly
            else:  # The node itself, or a peer that was forgotten.
                reassembly = self._reassemblies.setdefault((name, history), Reassembly())
            try:
                complete = reassembly.add(payload, self._message_bytes_max)
            except PeerError:
                self._layer.dropped["frame"] += 1
                return
            if complete is None:
                return
            data = complete
        self._put(name, history, number, data, delivered_at)

    def _put(
        self, name: str, history: int, number: int, data: bytes, delivered_at: float
    ) -> None:
        """Put a message into the inbox."""
        self.count += 1
        self._flow.unpolled += 1
        on_commit = self._journal.on_commit
        if on_commit is None:
            self._messages.append(Message(name, number, data, delivered_at, history))
        else:
            self._messages.append(
                JournaledMessage(name, number, data, delivered_at, history, on_commit)
            )

    def add_unordered(self, session: PeerSession, data: bytes, now: float) -> None:
        """Put an unordered message into the inbox; nothing else records it."""
        self.count += 1
        self._flow.unpolled += 1
        delivered_at = now + self._wall_offset_s
        message = UnorderedMessage(session.name, 0, data, delivered_at, session.history)
        self._messages.append(message)

    def poll_messages(self) -> list[Message]:
        """Return the messages in the inbox, in order of delivery, and empty it."""
        messages = self._messages
        if messages:
            self._messages = []
            self._flow.unpolled = 0
        return messages
