"""What a run notes about its processes beside their events.

A trace tells what happened, not what a process keeps. A *probe* looks at the processes
themselves, at given moments of virtual time, and leaves rows of (time, measure, value).
Its words, joined by ``+``:

``links:FROM,EVERY,COUNT``
    Of processes on an overlay: how many ``links`` each has, how many of them are
    ``unsafe_links``, the ``mean_path`` from some of them to all others in hops along the
    safe ones, and the share of the others that is ``unreached``. Where Spray renews the
    overlay, also how many ``view_links`` would be there if none outlived its place in a
    view, and the ``view_mean_path`` along those of them that are safe.

``state:FROM,EVERY,COUNT``
    How many numbers and identifiers a process keeps: ``state_numbers_mean`` over some of
    them, and ``state_numbers_max`` of these. Payloads do not count.

``work``
    Processor time per message: ``sender_work_us`` and ``receiver_work_us``; see
    :mod:`antecede.sim.profiling`. It differs from run to run, unlike all the rest.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from antecede.core.link import Linked
from antecede.core.overlay.graphs import Sampled
from antecede.core.process import ProcessBase
from antecede.core.protocols.flood import Flood
from antecede.core.protocols.pc_broadcast.pc_broadcast import Preventive
from antecede.core.support.attributes import listed_attributes
from antecede.errors import ConfigError
from antecede.sim.distribution import numbers
from antecede.sim.profiling import Stopwatch, WorkDone, clock_cost_ns

__all__ = ["Probe", "Sample", "count_numbers", "mean_path", "parse_probe"]

T = TypeVar("T")

WATCHED_MAX = 16
"""How many processes are looked at for their state, evenly spread."""
SOURCES_MAX = 20
"""From how many processes paths are measured, evenly spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Something noted at some moment."""

    time: float
    measure: str
    value: float


class Probe:
    """What to note in a run, and what was noted."""

    def __init__(
        self,
        *,
        links: Sequence[float] = (),
        state: Sequence[float] = (),
        work: bool = False,
    ) -> None:
        """Note links and state at these moments, and work all along."""
        self._links = frozenset(links)
        self._state = frozenset(state)
        self._work = WorkDone() if work else None
        self.samples: list[Sample] = []

    @property
    def moments(self) -> list[float]:
        """When to call :meth:`observe`, in ascending order."""
        return sorted(self._links | self._state)

    def wrap(self, processes: list[ProcessBase]) -> list[ProcessBase]:
        """Return what the loop is to drive in place of ``processes``."""
        if self._work is None:
            return processes
        return [Stopwatch(process, self._work) for process in processes]

    def observe(self, moment: float, processes: Sequence[ProcessBase]) -> None:
        """Look at the processes at one of the moments."""
        if moment in self._links:
            self._observe_links(moment, processes)
        if moment in self._state:
            watched = _some(processes, WATCHED_MAX)
            known: dict[int, tuple[int, object]] = {}
            found = [count_numbers(process, known) for process in watched]
            self._note(moment, "state_numbers_mean", sum(found) / len(found))
            self._note(moment, "state_numbers_max", max(found))

    def end(self, moment: float) -> None:
        """Add up what was done until the end of the run."""
        work = self._work
        if work is None:
            return
        cost = clock_cost_ns()
        clocks = cost * (work.send_calls + work.control_calls)
        sender_ns = work.send_ns + work.control_ns - clocks
        receiver_ns = work.receive_ns - cost * work.receive_calls
        if work.send_calls:
            self._note(moment, "sender_work_us", sender_ns / work.send_calls / 1000)
        if work.receive_calls:
            self._note(moment, "receiver_work_us", receiver_ns / work.receive_calls / 1000)

    def _observe_links(self, moment: float, processes: Sequence[ProcessBase]) -> None:
        safe: list[set[int]] = []
        unsafe = 0
        count = 0
        for process in processes:
            broadcast = _broadcast_of(process)
            safe.append(set(broadcast.links))
            own = len(broadcast.unsafe_links) if isinstance(broadcast, Preventive) else 0
            unsafe += own
            count += own + len(safe[-1])
        sources = _some(range(len(processes)), SOURCES_MAX)
        hops, unreached = mean_path(safe, sources)
        self._note(moment, "links", count / len(processes))
        self._note(moment, "unsafe_links", unsafe / len(processes))
        self._note(moment, "mean_path", hops)
        self._note(moment, "unreached", unreached)
        neighbours = _neighbours_in_views(processes)
        if any(neighbours):
            count = sum(len(each) for each in neighbours)
            kept = [
                own & all_links for own, all_links in zip(neighbours, safe, strict=True)
            ]
            self._note(moment, "view_links", count / len(processes))
            self._note(moment, "view_mean_path", mean_path(kept, sources)[0])

    def _note(self, moment: float, measure: str, value: float) -> None:
        self.samples.append(Sample(time=moment, measure=measure, value=value))


def parse_probe(text: str) -> Probe | None:
    """Turn words into a probe, None for no words, or raise ConfigError."""
    if not text:
        return None
    moments: dict[str, list[float]] = {}
    work = False
    for part in text.split("+"):
        name, _, rest = part.partition(":")
        values = numbers(rest)
        if part == "work":
            work = True
        elif name in ("links", "state") and len(values) == 3:
            start, every, count = values
            if min(values) < 0 or count != int(count):
                raise ConfigError(f"{part!r}: times are at least 0, a count is whole")
            moments[name] = [start + every * i for i in range(int(count))]
        else:
            raise ConfigError(
                f"{part!r} is none of links:FROM,EVERY,COUNT, state:FROM,EVERY,COUNT, work"
            )
    return Probe(links=moments.get("links", ()), state=moments.get("state", ()), work=work)


def mean_path(
    links: Sequence[Collection[int]], sources: Sequence[int]
) -> tuple[float, float]:
    """Return the mean of the fewest hops from ``sources`` to all others, and what is left.

    The second number is the share of the others to which no way leads; they do not count
    in the first.
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
    """Count the numbers that can be reached from an object, each as often as it is met.

    Args:
        thing: Compiled or not; what refers to itself counts once.
        known: What was counted before, by identity, so that shared parts are counted
            quickly; nothing of it may have changed meanwhile.
    """
    if thing is None or isinstance(thing, bool | str | bytes | bytearray):
        return 0
    if isinstance(thing, int | float):
        return 1
    known = {} if known is None else known
    key = id(thing)
    if key in known:
        return known[key][0]
    # Whoever comes back here has been counted. The object is kept, or another one might
    # get its identity.
    known[key] = (0, thing)
    parts: list[object]
    if isinstance(thing, dict):
        parts = [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = list(thing)
    else:
        # What is not there yet has no value.
        parts = [getattr(thing, name, None) for name in _attributes(type(thing))]
    count = 0
    for part in parts:
        count += 1 if type(part) is int else count_numbers(part, known)
    known[key] = (count, thing)
    return count


def _attributes(kind: type) -> list[str]:
    """Name the attributes of a class's objects that their classes list."""
    names = [name for cls in kind.__mro__ for name in listed_attributes(cls) or ()]
    return [name for name in dict.fromkeys(names) if name != "__dict__"]


def _neighbours_in_views(processes: Sequence[ProcessBase]) -> list[set[int]]:
    """Return who is in the view of each process, and in whose view it is, if Spray runs."""
    found: list[set[int]] = [set() for _ in processes]
    for index, process in enumerate(processes):
        inner = process.inner if isinstance(process, Linked) else process
        if isinstance(inner, Sampled):
            for peer in inner.spray.view:
                found[index].add(peer)
                found[peer].add(index)
    return found


def _broadcast_of(process: ProcessBase) -> Flood | Preventive:
    """Return the process that has the links, from beneath what it is wrapped in."""
    if isinstance(process, Linked):
        process = process.inner
    if isinstance(process, Sampled):
        process = process.inner
    if not isinstance(process, Flood | Preventive):
        raise ConfigError("only flood and preventive have links to look at")
    return process


def _some(things: Sequence[T], most: int) -> list[T]:
    """Return so many of ``things`` at the most, evenly spread."""
    count = min(most, len(things))
    return [things[i * len(things) // count] for i in range(count)]
