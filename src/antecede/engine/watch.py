"""The events of an engine for its driver, and the timers that detect them."""

from antecede.engine.blocked_watch import BlockedWatch
from antecede.engine.datagram import QUESTION
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import NodeEvent
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer
from antecede.engine.wait_analysis import WaitAnalysis
from antecede.engine.wait_questions import WaitQuestions

__all__ = ["Watch"]


class Watch:
    """Watches the peers and the messages of one node.

    Args:
        layer: the sessions.
        driver: drives the process.
        limits: the limits.
        events: takes the events.
    """

    __slots__ = (
        "_blocked",
        "_driver",
        "_events",
        "_silence",
        "analysis",
        "dropped_by_peer",
        "questions",
    )

    analysis: WaitAnalysis
    questions: WaitQuestions

    def __init__(
        self,
        layer: SessionLayer,
        driver: ProcessDriver,
        limits: Limits,
        events: EventCollector,
    ) -> None:
        self._driver = driver
        self._silence = layer.silence
        self.dropped_by_peer = layer.refusals.by_peer
        self._events = events
        self.analysis = WaitAnalysis(layer, driver)
        self.questions = WaitQuestions(layer, self.analysis)
        self._blocked = BlockedWatch(driver, layer.flow, limits.silence_s, events)

    @property
    def has_events(self) -> bool:
        """Whether :meth:`poll_events` would return events."""
        return self._events.has_events

    def poll_events(self) -> list[NodeEvent]:
        """Return the events since the last call, in order."""
        return self._events.poll()

    def report_end(self) -> None:
        """Report a gap to and from each peer, because the history of this node ends."""
        for id, session in self._driver.by_id.items():  # noqa: A001 (the word for it)
            if session.state is ACTIVE:
                self._driver.gaps.report_to(session.name, id)
                self._driver.gaps.report_from(session.name, id)

    def arm(self, now: float) -> None:
        """Begin to look for blocked messages, because a timer has expired."""
        self._blocked.arm(now)

    def next_deadline(self) -> float:
        """Return when :meth:`handle_deadlines` is due next; infinity for never."""
        deadline = min(self._silence.deadline, self._blocked.deadline)
        return min(deadline, self.questions.deadline)

    def handle_deadlines(self, now: float) -> None:
        """Find silent peers and blocked messages."""
        self._silence.handle_deadline(now)
        self._blocked.handle_deadline(now)
        self.questions.handle_deadline(now)

    def receive(self, received: ReceivedDatagram, now: float) -> None:
        """Use a question or an answer of a peer."""
        acks = received.acks
        assert acks is not None  # The session layer has read them.
        body = received.body[acks.end :]
        if received.kind == QUESTION:
            self.questions.receive_question(received.session, body, now)
        else:
            self.questions.receive_answer(received.session, body, now)
