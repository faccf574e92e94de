"""Probes: samples of the state of processes during a run.

A trace records events, not the state of processes. A *probe* inspects the processes at
given virtual times, and yields rows of (time, measure, value). Its parts, joined by ``+``:

``links:FROM,EVERY,COUNT`` For processes on an overlay: the mean number of ``links``, the
mean number of ``unsafe_links``, the ``mean_path`` in hops along safe links from some
processes to all others, and the share of processes that are ``unreached``. With Spray, also
the number of ``view_links``, which excludes links that outlived their entry in a view, and
the ``view_mean_path`` along the safe ones of them.

``state:FROM,EVERY,COUNT`` The number of integers that a process stores, without payloads:
``state_numbers_mean`` and ``state_numbers_max`` over some processes.

``work``
    The processor time per message: ``sender_work_us`` and ``receiver_work_us``
    (:mod:`antecede.sim.profiling`). Unlike all other samples, it differs from run to run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from antecede.core.link import ReliableLink
from antecede.core.overlay.spray_overlay import SprayOverlay
from antecede.core.process import ProcessBase
from antecede.core.protocols.flood import Flood
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.support.attributes import listed_attributes
from antecede.errors import ConfigError
from antecede.sim.distribution import numbers
from antecede.sim.profiling import ProfiledProcess, WorkTimes, clock_cost_ns

__all__ = ["Probe", "Sample", "count_numbers", "mean_path", "parse_probe"]

T = TypeVar("T")

SAMPLED_MAX = 16
"""The maximum number of processes whose state is counted, evenly spread."""
SOURCES_MAX = 20
"""The maximum number of processes from which paths are measured, evenly spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measure at one time."""

    time: float
    measure: str
    value: float


class Probe:
    """The samples to take in a run, and those taken so far."""

    def __init__(
        self,
        *,
        links: Sequence[float] = (),
        state: Sequence[float] = (),
        work: bool = False,
    ) -> None:
        """Sample links and state at these times, and work during the whole run."""
        self._links = frozenset(links)
        self._state = frozenset(state)
        self._work = WorkTimes() if work else None
        self.samples: list[Sample] = []

    @property
    def times(self) -> list[float]:
        """The times at which to call :meth:`observe`, ascending."""
        return sorted(self._links | self._state)

    def wrap(self, processes: list[ProcessBase]) -> list[ProcessBase]:
        """Return the processes to simulate in place of ``processes``."""
        if self._work is None:
            return processes
        return [ProfiledProcess(process, self._work) for process in processes]

    def observe(self, time: float, processes: Sequence[ProcessBase]) -> None:
        """Take the samples of one of the times."""
        if time in self._links:
            self._observe_links(time, processes)
        if time in self._state:
            sampled = _evenly_spread(processes, SAMPLED_MAX)
            known: dict[int, tuple[int, object]] = {}
            found = [count_numbers(process, known) for process in sampled]
            self._sample(time, "state_numbers_mean", sum(found) / len(found))
            self._sample(time, "state_numbers_max", max(found))

    def end(self, time: float) -> None:
        """Take the samples of work, at the end of the run."""
        work = self._work
        if work is None:
            return
        cost = clock_cost_ns()
        clocks = cost * (work.send_calls + work.control_calls)
        sender_ns = work.send_ns + work.control_ns - clocks
        receiver_ns = work.receive_ns - cost * work.receive_calls
        if work.send_calls:
            self._sample(time, "sender_work_us", sender_ns / work.send_calls / 1000)
        if work.receive_calls:
            self._sample(time, "receiver_work_us", receiver_ns / work.receive_calls / 1000)

    def _observe_links(self, time: float, processes: Sequence[ProcessBase]) -> None:
        safe: list[set[int]] = []
        unsafe = 0
        count = 0
        for process in processes:
            broadcast = _broadcast_of(process)
            safe.append(set(broadcast.links))
            own = len(broadcast.unsafe_links) if isinstance(broadcast, PcBroadcast) else 0
            unsafe += own
            count += own + len(safe[-1])
        sources = _evenly_spread(range(len(processes)), SOURCES_MAX)
        hops, unreached = mean_path(safe, sources)
        self._sample(time, "links", count / len(processes))
        self._sample(time, "unsafe_links", unsafe / len(processes))
        self._sample(time, "mean_path", hops)
        self._sample(time, "unreached", unreached)
        neighbours = _neighbours_in_views(processes)
        if any(neighbours):
            count = sum(len(each) for each in neighbours)
            kept = [
                own & all_links for own, all_links in zip(neighbours, safe, strict=True)
            ]
            self._sample(time, "view_links", count / len(processes))
            self._sample(time, "view_mean_path", mean_path(kept, sources)[0])

    def _sample(self, time: float, measure: str, value: float) -> None:
        self.samples.append(Sample(time=time, measure=measure, value=value))


def parse_probe(text: str) -> Probe | None:
    """Parse a probe, None for an empty text; raise ConfigError if it is not valid."""
    if not text:
        return None
    times: dict[str, list[float]] = {}
    work = False
    for part in text.split("+"):
        name, _, rest = part.partition(":")
        values = numbers(rest)
        if part == "work":
            work = True
        elif name in ("links", "state") and len(values) == 3:
            start, every, count = values
            if min(values) < 0 or count != int(count):
                raise ConfigError(
                    f"{part!r}: times must be at least 0, and COUNT an integer"
                )
            times[name] = [start + every * i for i in range(int(count))]
        else:
            raise ConfigError(
                f"{part!r} is not a valid probe; the forms are: links:FROM,EVERY,COUNT,"
                " state:FROM,EVERY,COUNT, work"
            )
    return Probe(links=times.get("links", ()), state=times.get("state", ()), work=work)


def mean_path(
    links: Sequence[Collection[int]], sources: Sequence[int]
) -> tuple[float, float]:
    """Return the mean number of hops from ``sources``, and the unreached share.

    The mean is over the others that can be reached, along shortest paths.
    """
    peers = [frozenset(row) for row in links]
    hops = 0
    reached = 0
    for source in sources:
        seen = {source}
        frontier: frozenset[int] | set[int] = {source}
        distance = 0
        while frontier:
            distance += 1
            frontier = set().union(*[peers[each] for each in frontier]) - seen
            seen |= frontier
            hops += distance * len(frontier)
        reached += len(seen) - 1
    wanted = len(sources) * (len(links) - 1)
    return (hops / reached if reached else 0.0), (1 - reached / wanted if wanted else 0.0)


def count_numbers(thing: object, known: dict[int, tuple[int, object]] | None = None) -> int:
    """Count the numbers that can be reached from an object, once for each reference.

    Args:
        thing: An object of a compiled or interpreted class; cycles are counted once.
        known: The counts of earlier calls, by identity, which make shared parts fast; none
            of these objects may have changed meanwhile.
    """
    if thing is None or isinstance(thing, bool | str | bytes | bytearray):
        return 0
    if isinstance(thing, int | float):
        return 1
    known = {} if known is None else known
    key = id(thing)
    if key in known:
        return known[key][0]
    # A cycle ends here. The object is kept alive, or another one might get its identity.
    known[key] = (0, thing)
    parts: list[object]
    if isinstance(thing, dict):
        parts = [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = list(thing)
    else:
        # An attribute may not be set yet.
        parts = [getattr(thing, name, None) for name in _attributes(type(thing))]
    count = 0
    for part in parts:
        count += 1 if type(part) is int else count_numbers(part, known)
    known[key] = (count, thing)
    return count


def _attributes(kind: type) -> list[str]:
    """Return the names of the attributes that a class and its bases list."""
    names = [name for cls in kind.__mro__ for name in listed_attributes(cls) or ()]
    return [name for name in dict.fromkeys(names) if name != "__dict__"]


def _neighbours_in_views(processes: Sequence[ProcessBase]) -> list[set[int]]:
    """Return, for each process, its Spray view and the processes whose view it is in."""
    found: list[set[int]] = [set() for _ in processes]
    for index, process in enumerate(processes):
        inner = process.inner if isinstance(process, ReliableLink) else process
        if isinstance(inner, SprayOverlay):
            for peer in inner.spray.view:
                found[index].add(peer)
                found[peer].add(index)
    return found


def _broadcast_of(process: ProcessBase) -> Flood | PcBroadcast:
    """Return the process with the links, without its wrappers."""
    if isinstance(process, ReliableLink):
        process = process.inner
    if isinstance(process, SprayOverlay):
        process = process.inner
    if not isinstance(process, Flood | PcBroadcast):
        raise ConfigError("only flood and pc-broadcast have links to sample")
    return process


def _evenly_spread(things: Sequence[T], most: int) -> list[T]:
    """Return at most ``most`` of ``things``, evenly spread."""
    count = min(most, len(things))
    return [things[i * len(things) // count] for i in range(count)]
