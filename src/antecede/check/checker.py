"""Check a protocol of the registry within bounds."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from antecede.check.removal import RemovalLimits
from antecede.check.search import NO_PAUSE, SearchResult, Violation, search
from antecede.check.state_space import StateSpace
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable
from antecede.core.config import DEFAULT_BUDGET_BYTES, ProcessConfig
from antecede.core.process import UNBOUNDED, Process, ProcessId
from antecede.core.registry import ProtocolInfo, protocol
from antecede.errors import ConfigError

__all__ = ["CheckConfig", "CheckResult", "check", "make_space", "target_sets"]

PROCESSES_MAX = 5
"""Symmetry tries all permutations; the number of states grows even faster."""
BUDGET_MAX = 200
"""A budget of faults is a byte of a state."""

KERNELS_FROM = 50_000
"""The number of states at which a search continues with compiled kernels. Loading them
takes as long as searching some ten thousand states."""


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """The protocol to check, and the bounds of the search."""

    protocol: str
    processes: int = 3
    messages: int = 2
    """The number of messages that each process sends."""
    losses: int = 0
    """The maximum number of frames lost in a schedule. If there are losses or duplicates,
    timers fire when no frame is in flight."""
    duplicates: int = 0
    """The maximum number of frames that arrive twice in a schedule."""
    removals: int = 0
    """The maximum number of removals of a live peer in a schedule."""
    stops: int = 0
    """The maximum number of processes that stop, and are removed, in a schedule."""
    silences: int = 0
    """The maximum number of processes that become silent in a schedule. They take no step
    any more, and nobody removes them."""
    returns: int = 0
    """The maximum number of silent processes that take steps again."""
    lease: bool = True
    """Copies that were given up do not arrive. False shows why that is required."""
    false_suspicion: bool = False
    """A process that is declared stopped keeps running; shows why that is forbidden."""
    multicast: bool = False
    """A message may have several targets."""
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    """The budget of ``bounded``; UNBOUNDED for no bound."""
    symmetry: bool = True
    """Merge states that are equal up to a permutation of the processes, or up to the order
    of a dictionary."""
    states_max: int = 200_000_000
    memory_max_gib: float = 20.0

    def __post_init__(self) -> None:
        """Raise ConfigError if a number is out of range."""
        if not 2 <= self.processes <= PROCESSES_MAX:
            raise ConfigError(
                f"processes must be from 2 to {PROCESSES_MAX}, got {self.processes}"
            )
        if self.messages < 1:
            raise ConfigError(f"messages must be at least 1, got {self.messages}")
        for name, value in (
            ("losses", self.losses),
            ("duplicates", self.duplicates),
            ("removals", self.removals),
            ("stops", self.stops),
            ("silences", self.silences),
            ("returns", self.returns),
        ):
            if not 0 <= value <= BUDGET_MAX:
                raise ConfigError(f"{name} must be from 0 to {BUDGET_MAX}, got {value}")
        if not 0 <= self.budget_bytes <= UNBOUNDED:
            raise ConfigError(f"budget_bytes must be at least 0, got {self.budget_bytes}")
        if self.silences and (self.removals or self.stops):
            raise ConfigError("silences cannot be combined with removals or stops")
        if self.returns and not self.silences:
            raise ConfigError("returns need silences")

    @property
    def reliable(self) -> bool:
        """Whether no frame between processes that are not silent is lost or duplicated.

        Then protocols that need reliable channels run without the link layer.
        """
        return not (self.losses or self.duplicates or self.returns)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of a check."""

    config: CheckConfig
    states: int
    transitions: int
    ends: int
    """The number of states in which the run is over."""
    depth: int
    """The number of actions on a shortest path to the farthest state."""
    local_states: int
    """The number of states of single processes."""
    exhausted: bool
    """Whether every schedule within the bounds was searched."""
    seconds: float
    violation: Violation | None
    table: TransitionTable
    """The transition table, which holds the packets of the violation."""

    @classmethod
    def of(
        cls,
        config: CheckConfig,
        result: SearchResult,
        table: TransitionTable,
        *,
        start: float,
        local_states: int,
    ) -> "CheckResult":
        """Return the result of a search that began at monotonic time ``start``."""
        return cls(
            config=config,
            states=result.states,
            transitions=result.transitions,
            ends=result.ends,
            depth=result.depth,
            local_states=local_states,
            exhausted=result.exhausted,
            seconds=monotonic() - start,
            violation=result.violation,
            table=table,
        )


def target_sets(processes: int, process: int, *, multicast: bool) -> list[int]:
    """List the bit sets of targets that a message of ``process`` may have."""
    others = [1 << other for other in range(processes) if other != process]
    if not multicast:
        return others
    everyone = sum(others)
    return [bits for bits in range(1, 1 << processes) if bits & everyone == bits]


def check(
    config: CheckConfig,
    *,
    make: Callable[[int], Process] | None = None,
    fifo: bool | None = None,
    inspect: Callable[[Process], None] | None = None,
    on_progress: Callable[[SearchResult, TransitionTable], None] | None = None,
    directory: Path | None = None,
    kernels_from: int = KERNELS_FROM,
) -> CheckResult:
    """Search every schedule within the bounds of ``config``.

    Args:
        config: The protocol and the bounds.
        make: Makes a process from its index, in place of the protocol of the registry.
        fifo: Frames of a pair keep their order; None for the assumption of the protocol.
        inspect: Called once with a process in every local state; raises an error if the
            state is wrong.
        on_progress: Called from time to time with the counts so far.
        directory: A directory for a checkpoint, from which the same search resumes.
        kernels_from: The number of states at which the search continues with compiled
            kernels, if they are installed and support the bounds.

    Raises:
        ConfigError: The protocol lacks a capability that the check needs, or the directory
            belongs to another search.
        StorageError: The checkpoint cannot be written or read.
    """
    table, space = make_space(config, make=make, fifo=fifo, inspect=inspect)
    result = SearchResult()
    start = monotonic()

    def should_continue(found: SearchResult, needed: int = 0) -> bool:
        if on_progress is not None:
            on_progress(found, table)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        peak += needed / (1 << 30)
        return found.states <= config.states_max and peak <= config.memory_max_gib

    if not _kernels_support(config):
        if directory is not None:
            raise ConfigError(
                "checkpoints need the extra trace, and bounds without removals, stops and"
                " silences; or search on Spark"
            )
        kernels_from = NO_PAUSE
    elif directory is not None:
        kernels_from = 0
    frontier = search(space, result, should_continue, pause_at=kernels_from)
    if frontier is not None:
        from antecede.check.kernels.checkpoints import search_levels

        search_levels(space, result, frontier, should_continue, config, directory)
    return CheckResult.of(
        config, result, table, start=start, local_states=len(table.locals)
    )


def _kernels_support(config: CheckConfig) -> bool:
    """Return whether the compiled kernels are installed and support the bounds."""
    if config.removals or config.stops or config.silences:
        return False
    return find_spec("numba") is not None


def make_space(
    config: CheckConfig,
    *,
    make: Callable[[int], Process] | None = None,
    fifo: bool | None = None,
    fingerprinted: bool = False,
    inspect: Callable[[Process], None] | None = None,
) -> tuple[TransitionTable, StateSpace]:
    """Make the state space that :func:`check` searches, with the same arguments.

    If it is ``fingerprinted``, its states can be exchanged with other spaces of the same
    configuration; see :mod:`antecede.check.portable`.
    """
    broadcast = False
    symmetric = True
    if make is None:
        info = protocol(config.protocol)
        _check_capabilities(info, config)
        broadcast = not info.capabilities.unicast
        symmetric = not info.capabilities.relays
        own_config = ProcessConfig(
            processes=config.processes,
            reliable=config.reliable,
            budget_bytes=config.budget_bytes,
        )
        make = _maker(info, own_config)
        if fifo is None:
            fifo = config.reliable and not info.capabilities.reordering
    table = TransitionTable(
        make,
        config.processes,
        timers=not config.reliable or config.silences > 0,
        ordered=not config.symmetry,
        broadcast=broadcast,
        fingerprinted=fingerprinted,
        refusals=config.false_suspicion or not config.lease,
        inspect=inspect,
    )
    options: list[list[list[int]]] = []
    everyone = (1 << config.processes) - 1
    for process in range(config.processes):
        own = target_sets(config.processes, process, multicast=config.multicast)
        if broadcast:
            own = [everyone & ~(1 << process)]
        options.append([own] * config.messages)
    space = StateSpace(
        table,
        options,
        fifo=bool(fifo),
        losses=config.losses,
        duplicates=config.duplicates,
        symmetry=Symmetry(table) if config.symmetry and symmetric else None,
        removal=_removal_limits(config, fifo=bool(fifo)),
        silences=config.silences,
        returns=config.returns,
    )
    return table, space


def _removal_limits(config: CheckConfig, *, fifo: bool) -> RemovalLimits | None:
    if not config.removals and not config.stops:
        return None
    if fifo:
        raise ConfigError("removals cannot be checked on FIFO channels")
    return RemovalLimits(
        removals=config.removals,
        stops=config.stops,
        lease=config.lease,
        false_suspicion=config.false_suspicion,
    )


def _maker(info: ProtocolInfo, config: ProcessConfig) -> Callable[[int], Process]:
    return lambda index: info.make(ProcessId(index), config)


def _check_capabilities(info: ProtocolInfo, config: CheckConfig) -> None:
    if config.multicast and not info.capabilities.multicast:
        raise ConfigError(f"{info.name} has no multicast")
    if config.removals or config.stops:
        process = info.make(ProcessId(0), ProcessConfig(processes=2))
        if process.recovery is None:
            raise ConfigError(f"{info.name} cannot remove a peer")
    if info.name == "newtop":
        raise ConfigError("newtop needs timers for liveness, which are not checked")
