"""The members of a room that nodes join and leave: executes the effects of a membership."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from antecede.engine.events import NodeEvent, PeerRemoved
from antecede.engine.message import Message
from antecede.engine.peer_session import ACTIVE
from antecede.errors import AntecedeError, JoinError, LocalError, PeerError
from antecede.group import effects as fx
from antecede.group.frames import APPLICATION
from antecede.group.member import CutEntry, Member
from antecede.group.membership import RoomMembership
from antecede.group.settings import MembershipSettings
from antecede.net.engine_timer import EngineTimer
from antecede.net.host import running_host
from antecede.net.rooms.control_room import ControlRoom
from antecede.net.rooms.events import (
    MemberJoined,
    MemberLeft,
    MemberRemoved,
    RoomJoined,
    RoomRejoining,
)
from antecede.net.rooms.introducer import Introducer
from antecede.net.rooms.membership import strip
from antecede.net.rooms.room_core import RoomCore
from antecede.net.rooms.room_finder import Candidates
from antecede.net.rooms.room_peers import RoomPeers
from antecede.net.rooms.snapshots import Snapshots

__all__ = ["LiveMembership"]

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.25
"""The wait before a peer whose former history ends is added again."""
STRANGER_S: Final = 1.0
"""The time after which a node that is not a member is notified again."""
REJOIN_S: Final = 1.0
"""The wait before a node that could not join again tries once more."""


class LiveMembership:
    """Drives the membership of one node in one room.

    Args:
        core: the room.
        peers: adds and removes the peers of the room.
        introducer: links this node with others.
        control: carries messages about the room.
        own_address: returns the address of this node, as text.
        candidates: returns names and addresses of all nodes that are known.
        find_more: returns them after it has asked the seeds.
        settings: limits, time-outs and policies.
        snapshots: takes and restores the snapshots of the application.
        on_closed: called when the room is closed.
    """

    def __init__(
        self,
        core: RoomCore,
        peers: RoomPeers,
        introducer: Introducer,
        control: ControlRoom,
        own_address: Callable[[], str],
        candidates: Callable[[], Candidates],
        find_more: Callable[[], Awaitable[Candidates]],
        settings: MembershipSettings,
        snapshots: Snapshots,
        on_closed: Callable[[], None],
    ) -> None:
        self._core = core
        self._peers = peers
        self._introducer = introducer
        self._control = control
        self._own_address = own_address
        self._find_candidates = candidates
        self._find_more = find_more
        self._search: asyncio.Task[None] | None = None
        self._settings = replace(settings, can_admit=peers.can_add)
        self._snapshots = snapshots
        self._on_closed = on_closed
        loop = asyncio.get_running_loop()
        self._timer = EngineTimer(loop, self._handle_timer)
        self._joined: asyncio.Future[None] = loop.create_future()
        self._is_running = False
        self._was_member = False
        self._is_closing = False
        self._restart: asyncio.Task[None] | None = None
        self._delivered: list[Message] = []
        self._told: dict[str, float] = {}
        core.filter_messages = self._filter
        core.on_event = self._receive_event
        core.on_quiet = self._check_quiet
        core.on_arrival = self._notice_arrival
        control.register(core.name, self._receive_control)
        self._membership = self._make()

    def _make(self) -> RoomMembership:
        core = self._core
        own = Member(
            name=core.node,
            address=self._own_address(),
            incarnation=core.runtime.opened_engine().incarnation,
            admission=int(running_host().wall_s() * 1000),
        )
        return RoomMembership(core.name, core.protocol, own, self._settings)

    # The start.

    async def found(self) -> None:
        """Found the room."""
        self._membership.found(self._now())
        self._run()
        self._control.release(self._core.name)
        await asyncio.shield(self._joined)

    async def join(self, candidates: Candidates) -> None:
        """Join through any of some nodes; raise JoinError if that is impossible."""
        self._membership.join(candidates, self._now())
        self._run()
        self._control.release(self._core.name)
        try:
            await asyncio.shield(self._joined)
        except asyncio.CancelledError:
            self._membership.cancel(self._now())
            self._run()
            raise

    # For the room.

    @property
    def members(self) -> list[str]:
        return list(self._membership.members)

    def check_target(self, name: str) -> None:
        if name != self._core.node and name not in self._membership.members:
            raise LocalError(
                f"{name} is not a member of {self._core.name}, whose members are"
                f" {', '.join(self.members)}"
            )

    async def wait_until_member(self) -> None:
        if not self._joined.done():
            await asyncio.shield(self._joined)

    def remove(self, name: str) -> None:
        if name == self._core.node:
            raise LocalError(f"{name} is this node itself; call leave")
        if self._is_closing:
            raise LocalError(f"the room {self._core.name} is closed; join it again")
        self._membership.remove(name, self._now())
        self._run()

    def give_up(self, name: str) -> None:
        """Remove a silent member for which no more messages are kept."""
        self._membership.member_lost(name, self._now())
        self._run()

    async def leave(self, drain_s: float) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._search is not None:
            self._search.cancel()
        if self._restart is not None:
            self._restart.cancel()
        elif self._membership.is_member:
            self._membership.leave(self._now())
        else:
            self._membership.cancel(self._now())
        self._run()
        await self._core.close(drain_s, returns=False)
        self._timer.cancel()
        self._control.unregister(self._core.name)
        self._fail(LocalError(f"the room {self._core.name} was closed"))
        self._on_closed()

    def obstacle(self) -> str:
        return self._membership.obstacle()

    # Inputs.

    def _now(self) -> float:
        return self._core.runtime.now_s()

    def _filter(self, messages: list[Message]) -> list[Message]:
        """Return the delivered messages for the application; use the others."""
        if self._restart is not None:
            return []
        now = self._now()
        membership = self._membership
        for message in messages:
            if not message.ordered:  # It has no number, and no place in a snapshot.
                if membership.is_member:
                    self._delivered.append(strip(message))
                continue
            is_data = message.data[:1] == bytes((APPLICATION,))
            if is_data and not membership.is_filtering:
                self._take(message)
                continue
            try:
                membership.receive_in_room(message, now)
            except PeerError as error:
                logger.warning(
                    "%s: invalid message of %s in %s: %s",
                    *(self._core.node, message.source, self._core.name, error),
                )
            self._run()
        delivered, self._delivered = self._delivered, []
        return delivered

    def _take(self, message: Message) -> None:
        self._snapshots.record(message)
        self._delivered.append(strip(message))

    def _receive_control(self, source: str, data: bytes) -> None:
        if self._restart is None:
            self._membership.receive_control(source, data, self._now())
            self._run()

    def _receive_event(self, event: NodeEvent) -> None:
        if isinstance(event, PeerRemoved) and event.is_timeout and event.peer is not None:
            self.give_up(event.peer)

    def _notice_arrival(self, name: str) -> bool:
        """Return whether to receive the datagrams of a node.

        Notify a node that is not a peer of the room that it was removed.
        """
        self._peers.note_arrival(name, self._run)
        session = self._core.runtime.opened_engine().sessions.get(name)
        if session is not None and session.state is ACTIVE:
            return True
        now = self._now()
        if now - self._told.get(name, -STRANGER_S) >= STRANGER_S:
            self._told[name] = now
            self._membership.unknown_sender(name, now)
            self._run()
        return session is not None

    def _handle_timer(self) -> None:
        self._timer.cancel()
        if not self._core.runtime.is_closed and self._restart is None:
            self._membership.handle_timer(self._now())
            self._run()

    def _check_quiet(self) -> None:
        if self._snapshots.has_requests or self._peers.has_work:
            self._run()

    # Effects.

    def _run(self) -> None:
        """Execute the effects of the membership, until there are none."""
        if self._is_running or self._core.runtime.is_closed:
            return  # If the loop runs already, an effect has caused another input.
        self._is_running = True
        try:
            while self._restart is None:
                self._confirm()
                effects = self._membership.effects()
                if not effects:
                    break
                for effect in effects:
                    if self._restart is None:  # Else a new membership joins again.
                        self._execute(effect)
        finally:
            self._is_running = False
        self._core.runtime.schedule_output()
        now = self._now()
        deadline = self._membership.next_timer()
        if self._peers.has_work or self._snapshots.has_requests:
            deadline = min(deadline or now + RETRY_S, now + RETRY_S)
        self._timer.cancel()
        self._timer.set(deadline, now)

    def _confirm(self) -> None:
        """Report to the membership the peers that were added since the last call."""
        now = self._now()
        membership = self._membership
        for name, incarnation in self._peers.confirm(now):
            membership.member_added(name, incarnation, now)
        if self._delivered or not self._snapshots.has_requests:
            return
        for newcomer, admission, problem in self._snapshots.due(now):
            if problem:
                logger.warning("%s cannot be admitted: %s", newcomer, problem)
                membership.snapshot_failed(newcomer, admission, problem, now)
                continue
            try:
                state = self._snapshots.take()
            except Exception as error:
                logger.exception("%s: snapshot has raised", self._core.node)
                reason = f"the function snapshot of {self._core.node} has raised {error!r}"
                membership.snapshot_failed(newcomer, admission, reason, now)
                continue
            cut = self._snapshots.cut()
            membership.snapshot_taken(newcomer, admission, state, cut, now)

    def _execute(self, effect: fx.Effect) -> None:
        core = self._core
        match effect:
            case fx.Connect(name, address):
                self._introducer.connect(name, address)
            case fx.SendControl(target, data):
                self._control.send(target, core.name, data)
            case fx.SendInRoom(target, data):
                core.send_control((target,), data)
            case fx.Broadcast(data):
                core.send_control(core.runtime.opened_engine().peers(), data)
            case fx.AddMember(member):
                self._peers.add(member)
            case fx.RemoveMember(name, has_left):
                self._peers.remove(name, self._now(), has_left=has_left)
            case fx.TakeSnapshot(newcomer, admission):
                position = core.put_count + len(self._delivered)
                self._snapshots.request(newcomer, admission, position, self._now())
            case fx.Restore(snapshot, cut):
                self._restore(snapshot, cut)
            case fx.Deliver(message):
                assert isinstance(message, Message)
                self._take(message)
            case _:
                self._tell(effect)

    def _restore(self, snapshot: bytes, cut: tuple[CutEntry, ...]) -> None:
        now = self._now()
        try:
            self._snapshots.restore(snapshot, cut)
        except Exception as error:
            logger.exception("%s: restore has raised", self._core.node)
            self._membership.restore_failed(f"restore has raised {error!r}", now)
        else:
            self._membership.restored(now)

    def _tell(self, effect: fx.Effect) -> None:
        """Report a change to the application."""
        core = self._core
        match effect:
            case fx.Joined(has_founded):
                self._was_member = True
                if not self._joined.done():
                    self._joined.set_result(None)
                names = {"room": core.name, "protocol": core.protocol}
                core.publish(RoomJoined(has_founded=has_founded, **names))
            case fx.JoinFailed(reason) if self._was_member:
                logger.warning("%s: cannot join again: %s", core.node, reason)
                self._rejoin(REJOIN_S, may_found=True)  # There may be no member left.
            case fx.JoinFailed(reason):
                self._fail(JoinError(f"cannot join the room {core.name}: {reason}"))
            case fx.Rejoining(removed_by):
                core.publish(RoomRejoining(peer=removed_by, room=core.name))
                if self._joined.done():
                    self._joined = asyncio.get_running_loop().create_future()
                self._rejoin(0.0, may_found=False)
            case fx.MemberChanged(name, "joined", _):
                core.publish(MemberJoined(peer=name, room=core.name))
            case fx.MemberChanged(name, "left", _):
                core.publish(MemberLeft(peer=name, room=core.name))
            case fx.MemberChanged(name, _, by):
                core.publish(MemberRemoved(peer=name, room=core.name, by=by))

    def _fail(self, error: AntecedeError) -> None:
        """Raise an error in the calls that wait until this node is a member."""
        if not self._joined.done():
            self._joined.set_exception(error)
            self._joined.exception()  # There may be no waiting call.

    def _rejoin(self, wait_s: float, *, may_found: bool) -> None:
        """Join again with a runtime of a new history, which replaces this one.

        The others no longer wait for the former history, so it must end: a message of it
        that arrived later could be out of order.
        """
        if not self._is_closing:
            self._settings = replace(self._settings, may_found=may_found)
            self._restart = asyncio.create_task(self._join_again(wait_s))

    async def _join_again(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        watch = self._core.runtime.opened_engine().watch
        watch.report_end()
        self._core.runtime.events.publish(watch.poll_events(), self._now())
        await self._core.restart()
        self._peers.reset()
        self._snapshots.reset()
        self._delivered.clear()
        self._search, self._restart = self._restart, None
        membership = self._membership = self._make()
        membership.join(self._find_candidates(), self._now())
        self._run()
        candidates = await self._find_more()
        if membership is self._membership and not self._core.runtime.is_closed:
            membership.add_candidates(candidates, self._now())
            self._run()
