"""Check a protocol of the registry within a bound."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from antecede.check.removal import RemovalSpace
from antecede.check.search import Result, Violation, search
from antecede.check.state_space import Space
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import Model
from antecede.core.config import Setting
from antecede.core.process import Process, ProcessId
from antecede.core.registry import ProtocolInfo, protocol
from antecede.errors import ConfigError, LocalError

__all__ = ["Bound", "Checked", "check", "make_space", "options"]

PROCESSES_MAX = 5
"""Renaming tries all orders of the processes, and states grow far faster than that."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What is checked, and how far."""

    protocol: str
    processes: int = 3
    messages: int = 2
    """How many messages each process sends."""
    losses: int = 0
    """How many frames may be lost in a schedule; timers then fire when nothing is in
    flight."""
    duplicates: int = 0
    """How many frames may arrive twice in a schedule."""
    abandons: int = 0
    """How often, in a schedule, a process may let go of another that goes on."""
    stops: int = 0
    """How many processes may stop in a schedule, and be let go of."""
    lease: bool = True
    """What was given up does not come late; without that, see what it is for."""
    mistaken: bool = False
    """Who is said to have stopped goes on: see why nobody must say so."""
    multicast: bool = False
    """A message may go to several processes."""
    reduce: bool = True
    """Take states for one that differ only in the names of processes, or in the order of
    a dictionary."""
    states_max: int = 200_000_000
    memory_max_gib: float = 20.0

    def __post_init__(self) -> None:
        """Raise ConfigError if a number is out of range."""
        if not 2 <= self.processes <= PROCESSES_MAX:
            raise ConfigError(
                f"from 2 to {PROCESSES_MAX} processes can be checked, not {self.processes}"
            )
        if self.messages < 1:
            raise ConfigError(f"each process sends at least 1 message, not {self.messages}")
        for name, value in (
            ("loss", self.losses),
            ("duplicate", self.duplicates),
            ("abandon", self.abandons),
            ("stop", self.stops),
        ):
            if not 0 <= value <= 200:
                raise ConfigError(f"{name} must be from 0 to 200, got {value}")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What was found."""

    bound: Bound
    states: int
    transitions: int
    ends: int
    """States in which everything is over."""
    depth: int
    """Actions to the farthest state, the shortest way."""
    local_states: int
    """States of single processes."""
    exhausted: bool
    """Every schedule within the bound was looked at."""
    seconds: float
    violation: Violation | None
    model: Model
    """To tell the violation's story with."""

    @classmethod
    def of(
        cls, bound: Bound, result: Result, model: Model, *, start: float, local_states: int
    ) -> "Checked":
        """Sum up a search that began at ``start`` of the monotonic clock."""
        return cls(
            bound=bound,
            states=result.states,
            transitions=result.transitions,
            ends=result.ends,
            depth=result.depth,
            local_states=local_states,
            exhausted=result.exhausted,
            seconds=monotonic() - start,
            violation=result.violation,
            model=model,
        )


def options(processes: int, place: int, *, multicast: bool) -> list[int]:
    """List the bit sets of targets that a message of the process at ``place`` may have."""
    others = [1 << other for other in range(processes) if other != place]
    if not multicast:
        return others
    everyone = sum(others)
    return [bits for bits in range(1, 1 << processes) if bits & everyone == bits]


def check(
    bound: Bound,
    *,
    make: Callable[[int], Process] | None = None,
    fifo: bool | None = None,
    inspect: Callable[[Process], None] | None = None,
    report: Callable[[Result, Model], None] | None = None,
) -> Checked:
    """Look at every schedule within a bound.

    Args:
        bound: What, and how far.
        make: Makes a process, in place of the registry's protocol.
        fifo: Frames of a pair keep their order; None for what the protocol assumes.
        inspect: Is shown a process in every local state, once; raises what is wrong.
        report: Is called now and then, for a display of progress.

    Raises:
        ConfigError: The protocol cannot do what is asked for.
    """
    model, space = make_space(bound, make=make, fifo=fifo, inspect=inspect)
    result = Result()
    start = monotonic()

    def watch(found: Result) -> bool:
        if report is not None:
            report(found, model)
        peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        return found.states <= bound.states_max and peak_gib <= bound.memory_max_gib

    search(space, result, watch)
    return Checked.of(bound, result, model, start=start, local_states=len(model.locals))


def make_space(
    bound: Bound,
    *,
    make: Callable[[int], Process] | None = None,
    fifo: bool | None = None,
    ranked: bool = False,
    inspect: Callable[[Process], None] | None = None,
) -> tuple[Model, Space]:
    """Make the space that :func:`check` searches, with the same arguments.

    If it is ``ranked``, states can be told to another space of the same bound; see
    :mod:`antecede.check.portable`.
    """
    faults = bound.losses > 0 or bound.duplicates > 0
    broadcast = False
    symmetric = True
    if make is None:
        info = protocol(bound.protocol)
        _check_able(info, bound)
        able = info.capabilities
        broadcast = not able.unicast
        symmetric = not able.relays
        setting = Setting(processes=bound.processes, reliable=not faults)
        make = _maker(info, setting)
        if fifo is None:
            fifo = not faults and not able.reordering
    model = Model(
        make,
        bound.processes,
        timers=faults,
        ordered=not bound.reduce,
        broadcast=broadcast,
        ranked=ranked,
        refusals=bound.mistaken or not bound.lease,
        inspect=inspect,
    )
    everyone = (1 << bound.processes) - 1
    choices: list[list[list[int]]] = []
    for place in range(bound.processes):
        own = options(bound.processes, place, multicast=bound.multicast)
        if broadcast:
            own = [everyone & ~(1 << place)]
        choices.append([own] * bound.messages)
    symmetry = Symmetry(model) if bound.reduce and symmetric else None
    if bound.abandons or bound.stops:
        if fifo:
            raise ConfigError("who lets go of a peer needs no order of frames")
        return model, _removal_space(bound, model, choices, symmetry)
    space = Space(
        model,
        choices,
        fifo=bool(fifo),
        losses=bound.losses,
        duplicates=bound.duplicates,
        symmetry=symmetry,
    )
    return model, space


def _removal_space(
    bound: Bound, model: Model, choices: list[list[list[int]]], symmetry: Symmetry | None
) -> Space:
    return RemovalSpace(
        model,
        choices,
        abandons=bound.abandons,
        stops=bound.stops,
        lease=bound.lease,
        mistaken=bound.mistaken,
        losses=bound.losses,
        duplicates=bound.duplicates,
        symmetry=symmetry,
    )


def _maker(info: ProtocolInfo, setting: Setting) -> Callable[[int], Process]:
    return lambda place: info.make(ProcessId(place), setting)


def _check_able(info: ProtocolInfo, bound: Bound) -> None:
    able = info.capabilities
    if bound.multicast and not able.multicast:
        raise ConfigError(f"{info.name} has no multicast")
    if bound.abandons or bound.stops:
        try:
            info.make(ProcessId(0), Setting(processes=2)).abandon(ProcessId(1), 0.0)
        except LocalError:
            raise ConfigError(f"{info.name} cannot let go of a peer") from None
    if info.name == "newtop":
        raise ConfigError("newtop is live by its timers alone, which are not checked")
