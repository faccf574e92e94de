"""The work of the timers of sessions does not grow with the peers that are down."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from antecede.core.process import NEVER, ProcessId
from antecede.engine.peer_session import PeerSession, SessionEvent
from antecede.engine.session_timers import SessionTimers

SOURCE = Path(__file__).parent.parent.parent / "src/antecede/engine/session_timers.py"
PEERS = 1000
HELLO_TIMEOUT_S = 0.25


class CountedSession:
    """A session that counts how many times a timer looks at its deadlines."""

    looked_at = 0

    def __init__(self, session: PeerSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> object:
        CountedSession.looked_at += name in ("handshake", "lease_ends")
        return getattr(self._session, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "_session":
            super().__setattr__(name, value)
        else:
            setattr(self._session, name, value)


def make_sessions(count: int) -> list[PeerSession]:
    return [
        PeerSession(f"peer {index}", index, ProcessId(index), "somewhere")
        for index in range(count)
    ]


def interpreted_timers() -> Any:  # noqa: ANN401 (a copy of the class)
    """Return timers that accept a CountedSession, even if the package is compiled."""
    spec = spec_from_file_location("interpreted_session_timers", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SessionTimers(HELLO_TIMEOUT_S)


def looked_at_per_message(timers: Any, start: float) -> float:  # noqa: ANN401
    """Return how many sessions are looked at for each of many messages."""
    messages = 100
    CountedSession.looked_at = 0
    for index in range(messages):
        assert timers.due_hellos(start + index * 1e-6) == []
        assert timers.ended_leases(start + index * 1e-6) == []
        assert timers.next_deadline() < NEVER
    return CountedSession.looked_at / messages


def test_a_message_looks_at_few_of_the_sessions_that_wait_for_an_answer() -> None:
    timers = interpreted_timers()
    sessions = [CountedSession(session) for session in make_sessions(PEERS)]
    for session in sessions:
        timers.schedule_hello(session, 0.0)
    due = timers.due_hellos(0.0)
    assert due == sessions
    for session in due:
        timers.hello_transmitted(session, 0.0)
    assert looked_at_per_message(timers, 0.1) <= 5
    for session in sessions[: PEERS // 2]:
        timers.hello_answered(session)
    assert looked_at_per_message(timers, 0.2) <= 2 * PEERS / 100
    assert timers.due_hellos(HELLO_TIMEOUT_S) == sessions[PEERS // 2 :]


def test_a_message_looks_at_few_of_the_sessions_with_a_lease() -> None:
    timers = interpreted_timers()
    sessions = [CountedSession(session) for session in make_sessions(PEERS)]
    for session in sessions:
        timers.start_lease(session, 20.0)
    assert looked_at_per_message(timers, 0.1) <= 5
    assert timers.ended_leases(20.0) == sessions


def test_each_session_is_due_once_at_its_latest_deadline() -> None:
    timers = SessionTimers(HELLO_TIMEOUT_S)
    ann, bob, cid = make_sessions(3)
    timers.start_lease(ann, 5.0)
    timers.start_lease(bob, 3.0)
    timers.start_lease(ann, 4.0)
    timers.start_lease(bob, 3.0)
    timers.start_lease(cid, 1.0)
    timers.cancel_lease(cid)
    assert timers.next_deadline() == 3.0
    assert timers.ended_leases(2.9) == []
    assert timers.ended_leases(10.0) == [bob, ann]
    for session in (ann, bob):
        session.lease_ends = NEVER
    assert timers.ended_leases(10.0) == []
    timers.schedule_hello(ann, 6.0)
    timers.cancel_hello(ann)
    timers.schedule_hello(ann, 6.0)
    timers.schedule_hello(cid, 6.0)
    assert timers.due_hellos(6.0) == [ann, cid]
    timers.hello_transmitted(ann, 6.0)
    timers.hello_answered(cid)
    assert timers.next_deadline() == 6.0 + HELLO_TIMEOUT_S
    assert timers.due_hellos(6.0) == []


def test_a_peer_that_is_removed_gets_no_hello() -> None:
    timers = SessionTimers(HELLO_TIMEOUT_S)
    (ann,) = make_sessions(1)
    timers.schedule_hello(ann, 1.0)
    ann.apply(SessionEvent.REMOVAL_STARTED)
    timers.start_lease(ann, 20.0)
    assert timers.due_hellos(1.0) == []
    assert timers.next_deadline() == 20.0
    ann.apply(SessionEvent.LEASE_ENDED)
    ann.apply(SessionEvent.ADDED)
    timers.cancel_lease(ann)
    timers.schedule_hello(ann, 2.0)
    assert timers.due_hellos(2.0) == [ann]


def test_answered_hellos_and_cancelled_leases_take_no_memory() -> None:
    timers = SessionTimers(HELLO_TIMEOUT_S)
    sessions = make_sessions(3)
    for _ in range(10_000):
        for session in sessions:
            timers.schedule_hello(session, 0.0)
            timers.hello_transmitted(session, 0.0)
            timers.hello_answered(session)
            timers.start_lease(session, 20.0)
            timers.cancel_lease(session)
    assert all(sys.getrefcount(session) < 500 for session in sessions)
