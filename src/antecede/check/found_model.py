"""A model of nodes that look for a room that does not exist yet.

Real memberships and directories; messages outside the room arrive in the order of each
pair, at any time. A node that has asked a member for admission has found the room.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from antecede.check.join_node import Action, JoinViolation, canonical_form, model_member
from antecede.group.codec import decode_control
from antecede.group.directory import Directory
from antecede.group.effects import Effect, Joined, SendControl
from antecede.group.frames import Request
from antecede.group.membership import RoomMembership
from antecede.group.settings import MembershipSettings

__all__ = ["FoundConfig", "FoundModel"]

SETTINGS: Final = MembershipSettings(retry_s=0.0, join_timeout_s=1e9)
"""A node that has no room may be asked again at any time."""
NOW: Final = 0.0


@dataclass(frozen=True, kw_only=True)
class FoundConfig:
    """The bounds of a search."""

    seeds: Mapping[str, str] = field(default_factory=lambda: {"a": "b", "b": "a"})
    """For each node that looks for the room, the names of its seeds, one letter each. A
    seed that does not look for the room answers, too."""


class FoundModel:
    """One state of the model; actions change it, and properties are checked on the way."""

    def __init__(self, config: FoundConfig) -> None:
        self.config = config
        names = {*config.seeds, *"".join(config.seeds.values())}
        self.directories = {name: Directory() for name in names}
        self.seekers: dict[str, RoomMembership] = {}
        self.channels: dict[tuple[str, str], list[bytes]] = {}
        self.founder = ""
        self.finders: frozenset[str] = frozenset()

    def actions(self) -> Iterator[Action]:
        """Yield the actions that are possible."""
        for source, target in self.channels:
            yield "control", source, target
        for name in self.config.seeds:
            if name not in self.seekers:
                yield "start", name
        for name, seeker in self.seekers.items():
            is_done = name == self.founder or name in self.finders
            if not is_done and not any(name in pair for pair in self.channels):
                timer = seeker.next_timer()
                if timer is not None and timer <= NOW:
                    yield "ask", name

    def faults(self) -> Iterator[Action]:
        """Yield nothing: no node crashes."""
        return iter(())

    def act(self, action: Action) -> None:
        """Perform an action; raise JoinViolation if it breaks a property."""
        kind, name = action[0], action[-1]
        if kind == "start":
            own = model_member(name, 1)
            seeker = RoomMembership("room", "hybrid", own, SETTINGS)
            self.seekers[name] = seeker
            seeds = [(seed, seed) for seed in self.config.seeds[name]]
            seeker.join([*seeds, *self.directories[name].seekers("room", NOW)], NOW)
        elif kind == "ask":
            self.seekers[name].handle_timer(NOW)
        else:
            self._pass_on(action[1], name)
        if name in self.seekers:
            self._execute(name, self.seekers[name].effects())

    def _pass_on(self, source: str, target: str) -> None:
        channel = self.channels[source, target]
        data = channel.pop(0)
        if not channel:
            del self.channels[source, target]
        if target in self.seekers:
            self.seekers[target].receive_control(source, data, NOW)
        else:
            directory = self.directories[target]
            self._execute(target, directory.receive_control(source, "room", data, NOW))

    def _execute(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendControl):
                if isinstance(decode_control(effect.data), Request):
                    self.finders |= {name}
                else:
                    channel = self.channels.setdefault((name, effect.target), [])
                    channel.append(effect.data)
            elif isinstance(effect, Joined):
                if self.founder:
                    raise JoinViolation(f"{self.founder} and {name} found two rooms")
                self.founder = name

    def check_end(self) -> None:
        """Raise JoinViolation unless all nodes have found one room."""
        lost = self.config.seeds.keys() - self.finders - {self.founder}
        if lost:
            raise JoinViolation(f"{min(lost)} finds no room")

    def fingerprint(self) -> bytes:
        """Return a hash of the state."""
        state = (
            self.directories,
            self.seekers,
            self.channels,
            self.founder,
            self.finders,
        )
        return blake2b(repr(canonical_form(state)).encode(), digest_size=16).digest()
