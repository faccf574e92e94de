"""The rooms of one node: how it meets other nodes, and joins rooms with them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from antecede.core.process import NEVER
from antecede.engine.events import NodeEvent, format_address
from antecede.engine.limits import Limits
from antecede.errors import ConfigError, JoinError, LocalError
from antecede.group.finder import FoundRoom
from antecede.net.config import NAME_BYTES_MAX, NodeConfig
from antecede.net.host import running_host
from antecede.net.node_metrics import NodeMetrics
from antecede.net.rooms.control_room import ControlRoom
from antecede.net.rooms.introducer import Accept, Introducer
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.live_membership import LiveMembership
from antecede.net.rooms.membership import FixedMembership
from antecede.net.rooms.options import RoomOptions
from antecede.net.rooms.overlay_membership import OverlayMembership
from antecede.net.rooms.room import Room
from antecede.net.rooms.room_core import Filter, RoomCore
from antecede.net.rooms.room_finder import Obstacle, find_room
from antecede.net.rooms.room_node import make_room_runtime, room_limits
from antecede.net.rooms.room_peers import RoomPeers
from antecede.net.rooms.room_protocol import AUTO, RoomProtocol
from antecede.net.rooms.silence_probe import SilenceProbe
from antecede.net.rooms.snapshots import Snapshots
from antecede.net.runtime import NodeRuntime
from antecede.net.statistics import NodeStats
from antecede.net.udp import Address, parse_address
from antecede.net.wait_reports import JoinReport

__all__ = ["Rooms"]

logger = logging.getLogger(__name__)

ASKED_S: Final = 1.0
"""The time after an answer of the seeds in which they are not asked again."""


class Rooms:
    """The rooms of one node, from the first call of :meth:`join`.

    Args:
        config: the parameters of the node.
        runtime: drives the node.
        metrics: takes the waiting times.
        seeds: addresses of nodes of the group.
        accept: whether to accept a newcomer; None for all.
    """

    def __init__(
        self,
        config: NodeConfig,
        runtime: NodeRuntime,
        metrics: NodeMetrics,
        seeds: Iterable[str | Address],
        accept: Accept | None,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._metrics = metrics
        self._seeds = [parse_address(seed) for seed in seeds]
        self._accept = accept
        self._hub = LinkHub(runtime)
        self._control: ControlRoom | None = None
        self._introducer: Introducer | None = None
        self._asked_at = -NEVER
        self._obstacles: dict[str, Obstacle] = {}
        self._rooms: dict[str, Room | None] = {}  # None while the join is under way.

    @property
    def names(self) -> list[str]:
        """The names of the rooms that this node is in, sorted."""
        return sorted(name for name, room in self._rooms.items() if room is not None)

    def stats(self) -> dict[str, NodeStats]:
        """Return the statistics of the rooms that this node is in, by name."""
        return {
            name: room.stats() for name, room in self._rooms.items() if room is not None
        }

    def joins(self) -> list[JoinReport]:
        """Return the joins that are under way, also those of rooms that join again."""
        found = ((name, obstacle()) for name, obstacle in self._obstacles.items())
        return [JoinReport(room=name, reason=reason) for name, reason in found if reason]

    async def join(self, name: str, options: RoomOptions) -> Room:
        """Join a room, or found it; see :meth:`antecede.Node.join`."""
        self._check(name)
        self._open()
        self._rooms[name] = None
        try:
            room = await self._join(name, options)
        except BaseException:
            self._forget(name)
            raise
        self._rooms[name] = room
        return room

    def _check(self, name: str) -> None:
        self._runtime.opened_socket()
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            raise ConfigError(
                f"{name!r} is not a valid name of a room: give a string of 1 to"
                f" {NAME_BYTES_MAX} bytes in UTF-8"
            )
        if name in self._rooms:
            raise LocalError(f"{self._config.name} is in the room {name} already")
        limit = self._limits().rooms_max
        if len(self._rooms) >= limit:
            raise LocalError(
                f"{self._config.name} is in {limit} rooms, the most that Limits.rooms_max"
                " allows"
            )

    def _limits(self) -> Limits:
        return self._config.limits_for(self._runtime.opened_socket().address[0])

    def _open(self) -> None:
        """Open the hub, and the control room."""
        if self._control is not None:
            return
        self._hub.open()
        self._control = ControlRoom(self._hub, self._config, self._limits())
        self._introducer = Introducer(
            self._hub,
            self._runtime,
            self._config,
            self._limits(),
            running_host().random_bits,
            self._accept,
        )

    async def _join(self, name: str, options: RoomOptions) -> Room:
        if options.members is not None:
            return self._make_fixed(name, options, options.members)
        control, introducer = self._control, self._introducer
        assert control is not None
        assert introducer is not None
        control.hold(name)
        try:
            found = FoundRoom("", ())
            self._obstacles[name] = lambda: introducer.obstacle()
            candidates = await self._candidates(name, options)
            if candidates:
                settings = replace(options.membership, may_found=options.found is not False)
                own = (self._config.name, self._own_address())
                more = self._find_more(name, options.search_timeout_s)
                found = await find_room(
                    name,
                    candidates,
                    more,
                    own,
                    control,
                    introducer,
                    settings,
                    self._obstacles,
                )
            protocol = _agreed_protocol(name, options, found)
        except BaseException:
            control.release(name)
            raise
        enter = self._enter_overlay if protocol.is_overlay else self._enter
        return await enter(name, options, protocol, found)

    async def _enter(
        self, name: str, options: RoomOptions, protocol: RoomProtocol, found: FoundRoom
    ) -> Room:
        """Join a room in which all members know each other, or found it."""
        assert self._control is not None
        assert self._introducer is not None
        core = self._make_core(name, options, protocol)
        core.open()
        SilenceProbe(core, options.silence_policy(protocol).remove_after_s)
        membership = LiveMembership(
            core,
            RoomPeers(core, self._hub, self._introducer),
            self._introducer,
            self._control,
            self._own_address,
            lambda: self._known(name),
            lambda: self._find_more(name, options.search_timeout_s),
            replace(options.membership, may_found=options.found is not False),
            Snapshots(core, options.snapshot, options.restore),
            lambda: self._forget(name),
        )
        self._obstacles[name] = membership.obstacle
        if options.silence_policy(protocol).is_keeping:
            core.on_full = membership.give_up
        try:
            if found.members:
                await membership.join([*found.members, *self._known(name)])
            else:
                await membership.found()
        except BaseException:
            await membership.leave(0.0)
            raise
        return Room(core, membership)

    async def _enter_overlay(
        self, name: str, options: RoomOptions, protocol: RoomProtocol, found: FoundRoom
    ) -> Room:
        """Join a room in which no member knows all others, or found it."""
        assert self._control is not None
        assert self._introducer is not None
        members = tuple(member for member, _ in found.members)
        core = self._make_core(name, options, protocol, members)
        membership = OverlayMembership(
            core,
            self._hub,
            self._introducer,
            self._control,
            lambda: self._forget(name),
            has_founded=not members,
        )
        self._obstacles[name] = membership.obstacle
        core.open()
        try:
            await membership.join(options.timeout_s)
        except BaseException:
            await membership.leave(0.0)
            raise
        return Room(core, membership)

    async def _candidates(self, name: str, options: RoomOptions) -> list[tuple[str, str]]:
        """Return names and addresses of nodes that may be in a room; none to found it."""
        assert self._introducer is not None
        assert self._control is not None
        if options.found:
            return []
        if options.found is False and not (self._seeds or self._hub.engine.links.names()):
            raise JoinError(
                f"cannot join the room {name}: the node has no seeds; pass seeds=, or leave"
                " out found=False"
            )
        if not self._hub.engine.links.names():
            await self._ask_seeds(options.search_timeout_s)
        found = self._known(name)
        if options.found is False and not found:
            raise JoinError(
                f"cannot join the room {name}: all seeds are this node itself; name"
                " another one, or leave out found=False"
            )
        return found

    async def _ask_seeds(self, timeout_s: float) -> None:
        """Introduce this node to its seeds; raise JoinError if none answers."""
        assert self._introducer is not None
        own = self._own_address()
        seeds = [seed for seed in self._seeds if format_address(seed) != own]
        if seeds:
            await self._introducer.find(seeds, timeout_s)
            self._asked_at = self._runtime.now_s()

    async def _find_more(self, name: str, timeout_s: float) -> list[tuple[str, str]]:
        """Ask the seeds, because known nodes may have moved; return all nodes."""
        if self._runtime.now_s() - self._asked_at > ASKED_S:
            try:
                await self._ask_seeds(timeout_s)
            except JoinError as error:
                logger.debug("%s: %s", self._config.name, error)
        return self._known(name)

    def _known(self, room: str) -> list[tuple[str, str]]:
        """Return names and addresses of linked nodes, and of those that seek a room."""
        assert self._control is not None
        links = self._hub.engine.links
        found = {each: format_address(links.address(each)) for each in links.names()}
        return [*found.items(), *self._control.seekers(room, self._runtime.now_s())]

    def _own_address(self) -> str:
        """Return the address of this node, as others see it."""
        assert self._introducer is not None
        seen = self._introducer.own_address
        return seen or format_address(self._runtime.opened_socket().address)

    def _make_core(
        self,
        name: str,
        options: RoomOptions,
        protocol: RoomProtocol,
        members: tuple[str, ...] = (),
    ) -> RoomCore:
        """Make the core of a room."""
        policy = options.silence_policy(protocol)
        limits = room_limits(self._limits(), policy, is_overlay=protocol.is_overlay)

        def make_runtime(
            filter_messages: Filter, on_event: Callable[[NodeEvent], object]
        ) -> tuple[NodeRuntime, Callable[[], None]]:
            runtime, release = make_room_runtime(
                self._hub,
                self._config,
                name,
                protocol=protocol.name,
                limits=limits,
                members=members,
                has_trace=True,
                on_event=on_event,
                decode=self._config.decode,
                filter_messages=filter_messages,
                observe_inbox_s=self._metrics.observe_inbox_s(name),
            )
            runtime.blocked_sends.observe_s = self._metrics.observe_send_s(name)
            return runtime, release

        return RoomCore(
            self._config.name, name, protocol.name, make_runtime, self._config.encode
        )

    def _make_fixed(
        self, name: str, options: RoomOptions, members: Mapping[str, str | Address]
    ) -> Room:
        """Make a room whose members the application names."""
        protocol = replace(options, size=len(members)).founded_protocol()
        others = {
            member: parse_address(address)
            for member, address in members.items()
            if member != self._config.name
        }
        for member, address in others.items():
            self._hub.add_link(member, address)
            self._hub.engine.links.keep(member)
        core = self._make_core(name, options, protocol, tuple(others))
        membership = FixedMembership(core, set(others), lambda: self._forget(name))
        if options.silence_policy(protocol).is_keeping:
            core.on_full = membership.remove
        core.open()
        return Room(core, membership)

    def _forget(self, name: str) -> None:
        self._rooms.pop(name, None)
        self._obstacles.pop(name, None)
        self._metrics.forget_room(name)

    async def close(self, drain_s: float) -> None:
        """Leave all rooms, and end the exchange with other nodes."""
        rooms = [room for room in self._rooms.values() if room is not None]
        await asyncio.gather(*(room.close(drain_s) for room in rooms))
        if self._control is not None:
            await self._control.close(drain_s)
            self._control = None


def _agreed_protocol(name: str, options: RoomOptions, found: FoundRoom) -> RoomProtocol:
    """Return the protocol of a room that was found, or that this node founds."""
    if not found.protocol:
        return options.founded_protocol()
    if options.protocol not in (AUTO, found.protocol):
        raise JoinError(
            f"cannot join the room {name}: the room {name!r} uses the protocol"
            f" {found.protocol}; leave out protocol={options.protocol!r}, or give all nodes"
            " the same"
        )
    protocol = RoomProtocol(found.protocol)
    try:
        options.check(protocol)
    except ConfigError as error:
        raise JoinError(f"cannot join the room {name}: {error}") from None
    return protocol
