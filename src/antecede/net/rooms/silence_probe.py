"""Asks members of a room for an answer if no datagram of them has arrived lately."""

import asyncio
from typing import Final

from antecede.core.process import NEVER
from antecede.engine.peer_session import ACTIVE
from antecede.net.rooms.room_core import RoomCore

__all__ = ["SilenceProbe"]

PROBES: Final = 4
"""The number of questions to a member within the time after which it is removed."""


class SilenceProbe:
    """Lets a live member answer before it is taken for silent.

    Copies to a member may be queued because of another one that has stopped. Then nothing
    is transmitted to the live member either, and a room has no keep-alives.

    Args:
        core: the room.
        silence_limit_s: the time after which a silent member is removed; infinite for
            never.
    """

    def __init__(self, core: RoomCore, silence_limit_s: float) -> None:
        self._core = core
        self._interval_s = silence_limit_s / PROBES
        if silence_limit_s < NEVER:
            self._schedule()

    def _schedule(self) -> None:
        asyncio.get_running_loop().call_later(self._interval_s, self._ask)

    def _ask(self) -> None:
        core = self._core
        if core.events.is_closed:
            return
        runtime = core.runtime
        if not runtime.is_closed:
            engine = runtime.opened_engine()
            heard_before = runtime.now_s() - self._interval_s
            for name, session in engine.sessions.items():
                if (
                    session.state is ACTIVE
                    and session.heard_at < heard_before
                    and engine.process.backlog(session.id)
                ):
                    engine.links.ask(name, runtime.now_s())
            runtime.schedule_output()
        self._schedule()
