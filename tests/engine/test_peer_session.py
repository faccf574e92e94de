"""The states of a peer in the group."""

import pytest

from antecede.core.process import ProcessId
from antecede.engine.peer_session import (
    ACTIVE,
    TRANSITIONS,
    PeerSession,
    SessionEvent,
    SessionState,
)


@pytest.mark.parametrize("event", SessionEvent, ids=lambda event: event.value)
@pytest.mark.parametrize("state", SessionState, ids=lambda state: state.value)
def test_an_event_changes_the_state_as_the_table_says(
    state: SessionState, event: SessionEvent
) -> None:
    session = PeerSession("bob", 1, ProcessId(1), None)
    session.state = state
    is_listed = (state, event) in TRANSITIONS
    assert session.apply(event) == is_listed
    assert session.state == TRANSITIONS.get((state, event), state)


def test_every_state_is_reachable_and_can_become_active_again() -> None:
    edges = {(before, after) for (before, _), after in TRANSITIONS.items()}

    def reachable(start: SessionState) -> set[SessionState]:
        found = {start}
        while True:
            more = {after for before, after in edges if before in found} - found
            if not more:
                return found
            found |= more

    assert reachable(ACTIVE) == set(SessionState)
    assert all(ACTIVE in reachable(state) for state in SessionState)
