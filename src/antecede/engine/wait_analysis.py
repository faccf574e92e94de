"""The reason for a wait that one node knows, and the question to the next node."""

from collections.abc import Callable
from typing import Final

from antecede.core.process import NEVER, UNBOUNDED, ProcessId
from antecede.engine.events import format_address
from antecede.engine.peer_session import ACTIVE, REMOVED, REMOVING, PeerSession
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.session_layer import SessionLayer
from antecede.engine.silence_watch import silent_s
from antecede.engine.wait_step import Reason, WaitStep

__all__ = ["ASKS_COPY", "ASKS_FROM", "ASKS_PERMIT", "Found", "NextQuestion", "WaitAnalysis"]

ASKS_COPY: Final = 1
"""Why has the receiver of the question not acked a message of its sender?"""
ASKS_PERMIT: Final = 2
"""Why has the receiver not granted the permit for its message to the sender?"""
ASKS_FROM: Final = 3
"""Why has a message of the receiver not arrived at the sender?"""

NextQuestion = tuple[PeerSession, int, int]
"""The peer to ask, the kind of the question, and the number of the message."""
Found = tuple[list[WaitStep], NextQuestion | None]
"""The steps that the node knows, and the question whose answer continues them."""


class WaitAnalysis:
    """Finds the reasons for which the messages of one node wait.

    Args:
        layer: the sessions.
        driver: drives the process.
    """

    __slots__ = ("_driver", "_layer", "_name", "blocked_targets")

    blocked_targets: Callable[[], list[str]]
    """Returns the peers that the application waits for in ``send``."""

    def __init__(self, layer: SessionLayer, driver: ProcessDriver) -> None:
        self._layer = layer
        self._driver = driver
        self._name = layer.name
        self.blocked_targets = list

    def answer(self, session: PeerSession, asks: int, number: int, now: float) -> Found:
        """Return the answer to the question of a peer."""
        if session.state in (REMOVING, REMOVED):
            return [self._step(Reason.REMOVED, session.name)], None
        if asks == ASKS_COPY:
            return self._arrived(session, number, now)
        if asks == ASKS_PERMIT:
            return self._ungranted(session, number, now)
        if asks == ASKS_FROM:
            found = self.copy(session, number, now)
            if found[0]:
                return found
        return [self._step(Reason.UNKNOWN, self._name)], None

    # Messages of this node.

    def copy(self, session: PeerSession, number: int, now: float) -> Found:
        """Return what a copy to a peer waits for, or that it was given up.

        Return no step if it is acked.
        """
        pending = self._driver.process.pending
        if pending is None:
            backlog = self._driver.process.backlog(session.id)
            return self._ack(session, 0, now) if backlog else ([], None)
        for own, is_released in pending.unacked_copies(session.id):
            if own == number:
                if is_released:
                    return self._ack(session, number, now)
                return self._queued(session, number, now)
        if self._driver.gaps.has_given_up(session.name, number):
            return [self._step(Reason.GIVEN_UP, self._name)], None
        return [], None

    def _queued(self, session: PeerSession, number: int, now: float) -> Found:
        """Return the reason for which a copy is not released."""
        pending = self._driver.process.pending
        assert pending is not None  # The caller checks it.
        for own, target, permits in pending.queued_copies(UNBOUNDED):
            if own == number and target == session.id:
                for owed_by, last in permits:
                    return self.permit(owed_by, last, now)
        dependencies = self._driver.process.dependencies
        targets = dependencies.awaited_targets() if dependencies is not None else []
        names = [self._driver.name_of(target) for target in targets]
        step = self._step(Reason.BUDGET, ", ".join(names) or "others")
        silent = [
            self._silent(each, now)
            for each in map(self._driver.by_id.get, targets)
            if each is not None and each.is_silent
        ]
        return [step, *silent[:1]], None

    def _ack(self, session: PeerSession, number: int, now: float) -> Found:
        """Return why a released copy is not acked; it may not be transmitted yet."""
        step = self._step(Reason.ACK, session.name, number)
        if session.handshake.incarnation == 0 or session.is_silent:
            return [step, self._silent(session, now)], None
        if session.state is not ACTIVE:
            return [step, self._step(Reason.REMOVING)], None
        if session.outbox.is_holding and session.window != 0:
            step = self._step(Reason.PATH, session.name, number)
        return [step], (session, ASKS_COPY, number)

    def permit(self, owed_by: ProcessId, number: int, now: float) -> Found:
        """Return what a missing permit of a process waits for."""
        session = self._driver.by_id.get(owed_by)
        step = self._step(Reason.PERMIT, self._driver.name_of(owed_by), number)
        if session is None or session.id != owed_by:  # Of a history that has ended.
            return [step], None
        if session.is_silent or session.handshake.incarnation == 0:
            return [step, self._silent(session, now)], None
        return [step], (session, ASKS_PERMIT, number)

    def _ungranted(self, session: PeerSession, number: int, now: float) -> Found:
        """Return why a peer has no permit for a message of this node."""
        pending = self._driver.process.pending
        if pending is None:
            return [self._step(Reason.UNKNOWN, self._name)], None
        oldest = pending.oldest_unacked(number, session.id)
        if oldest is None:
            return [self._step(Reason.GRANTED)], None
        own, target = oldest
        other = self._driver.by_id.get(target)
        if other is None:
            return [self._step(Reason.ACK, self._driver.name_of(target), own)], None
        return self.copy(other, own, now)

    # Messages to this node.

    def _arrived(self, session: PeerSession, number: int, now: float) -> Found:
        """Return why a message of a peer is not acked."""
        recovery = self._driver.process.recovery
        if recovery is not None:
            _, _, delivered, _ = recovery.channel_numbers(session.id)
            if 0 < number <= delivered:
                return [self._step(Reason.DELIVERED)], None
            found = self.held(session, number)
            if found[0]:
                return found
        if session.credit.window == 0 or self._layer.flow.refuses(session):
            return self._inbox_full()
        return [self._step(Reason.NOT_ARRIVED)], None

    def held(self, session: PeerSession, number: int) -> Found:
        """Return why a message that has arrived waits; no step if it does not."""
        pending = self._driver.process.pending
        if pending is None:
            return [], None
        for source, arrived, predecessor in pending.held_messages(UNBOUNDED):
            if source != session.id or not predecessor < number <= arrived:
                continue
            dependencies = self._driver.process.dependencies
            awaited = dependencies.awaited(source) if dependencies is not None else None
            if awaited is not None:
                name = self._driver.name_of(awaited[0])
                step = self._step(Reason.HELD, name, awaited[1])
                other = self._driver.by_id.get(awaited[0])
                if other is None:
                    return [step], None
                return [step], (other, ASKS_FROM, awaited[1])
            return [self._step(Reason.HELD, session.name, predecessor)], (
                session,
                ASKS_FROM,
                predecessor,
            )
        return [], None

    def _inbox_full(self) -> Found:
        """Return the reason for which the inbox of this node has no room."""
        pending = self._driver.process.pending
        for name in self.blocked_targets():
            step = self._step(Reason.IN_SEND, name)
            for session in self._driver.by_id.values():
                if session.name == name and pending is not None:
                    copies = pending.unacked_copies(session.id)
                    if copies:
                        return [step], (session, ASKS_COPY, copies[0][0])
            return [step], None
        return [self._step(Reason.INBOX_FULL)], None

    # Steps.

    def _step(self, reason: Reason, name: str = "", number: int = 0) -> WaitStep:
        return WaitStep(waiter=self._name, reason=reason, name=name, number=number)

    def _silent(self, session: PeerSession, now: float) -> WaitStep:
        """Return the step of a peer that does not answer, with the fault behind it."""
        fault = self._layer.faults.latest(session.name)
        reason = Reason.SILENT
        detail = str(fault) if fault is not None else ""
        if session.handshake.incarnation == 0:
            reason = Reason.NOT_MET
            where = format_address(session.address)
            detail = f"{where} ({fault})" if fault is not None else where
        return WaitStep(
            waiter=self._name,
            reason=reason,
            name=session.name,
            silent_s=max(silent_s(session, now), 0.0),
            detail=detail,
        )

    def unanswered(self, session: PeerSession, now: float) -> WaitStep:
        """Return the step of a peer that did not answer a question."""
        if silent_s(session, now) > 0 and session.suspected_at < NEVER:
            return self._silent(session, now)
        fault = self._layer.faults.latest(session.name)
        return WaitStep(
            waiter=self._name,
            reason=Reason.NO_ANSWER,
            name=session.name,
            detail=str(fault) if fault is not None else "",
        )

    def loop(self, session: PeerSession) -> WaitStep:
        """Return the step of a question that was asked before."""
        return self._step(Reason.LOOP, session.name)

    def too_long(self) -> WaitStep:
        """Return the step that ends an explanation with too many steps."""
        return self._step(Reason.TOO_LONG)
