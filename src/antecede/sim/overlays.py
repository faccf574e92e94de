"""The overlays by name, as the command line and studies ask for them.

``ring``, ``full``
    Each process with the next and the one before; each with all others.

``random:degree=5``
    Each with so many random others, and they with it.

``spray:exchange_s=60,until_s=600``
    Views that Spray renews: each process begins an exchange every ``exchange_s`` seconds
    until ``until_s``, so that a run comes to an end. Joins one after the other leave views
    of ln(n) peers and a few ``more``, 0.6 unless set; so many there are here at first, at
    random. A link outlives its place in the view by ``linger_s``, and ``preventive`` waits
    for a pong as long as ``ping_timeout_s`` says, if these are given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log

from antecede.core.config import Setting
from antecede.core.overlay.graphs import full, random_graph, ring
from antecede.core.registry import protocol
from antecede.core.support.keyed_random import begin, stir, uniform
from antecede.errors import ConfigError
from antecede.sim.distribution import parameters

__all__ = [
    "EXCHANGE_S",
    "OVERLAYS",
    "make_overlay",
    "overlay_parameters",
    "promises_order",
    "random_views",
]


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < inf:
        raise ValueError
    return value


def _positive(text: str) -> float:
    value = _amount(text)
    if value < LEAST:
        raise ValueError
    return value


LEAST = 1e-9
"""What is positive is at least this."""
OVERLAYS: dict[str, dict[str, Callable[[str], float]]] = {
    "ring": {},
    "full": {},
    "random": {"degree": _positive},
    "spray": {
        "exchange_s": _positive,
        "until_s": _positive,
        "linger_s": _amount,
        "ping_timeout_s": _positive,
        "more": _amount,
    },
}
"""The parameters of each, and what reads their values."""
DEGREE = 5
EXCHANGE_S = 60.0
"""As in the experiment of PC-broadcast."""
MORE = 0.6
"""Euler's constant, about: what joins add to the logarithm."""
VIEWS = 0x56494557
"""Tells the random numbers of views from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    name: str
    values: dict[str, float]


def make_overlay(text: str, setting: Setting, *, processes: int, seed: int) -> Setting:
    """Return ``setting`` with the overlay that ``text`` asks for, or raise ConfigError."""
    if not text:
        return setting
    words = _parse(text)
    values = words.values
    if words.name == "ring":
        return replace(setting, links=ring(processes))
    if words.name == "full":
        return replace(setting, links=full(processes))
    if words.name == "random":
        degree = int(values.get("degree", DEGREE))
        links = random_graph(processes, min(degree, processes - 1), seed, both_ways=True)
        return replace(setting, links=links)
    size = min(log(processes) + values.get("more", MORE), processes / 2)
    return replace(
        setting,
        links=random_views(processes, seed, size),
        exchange_s=values.get("exchange_s", EXCHANGE_S),
        exchange_until_s=values.get("until_s", setting.exchange_until_s),
        linger_s=values.get("linger_s", setting.linger_s),
        ping_timeout_s=values.get("ping_timeout_s", setting.ping_timeout_s),
    )


def overlay_parameters(text: str) -> dict[str, float]:
    """Return the parameters that ``text`` sets, or raise ConfigError."""
    return _parse(text).values if text else {}


def random_views(processes: int, seed: int, mean_size: float) -> list[list[int]]:
    """Return random views with so many peers on average, none twice in a view.

    Each process but the first has an earlier one in its view, so that all are connected.
    Raise ConfigError if there are too few processes for that.
    """
    state = stir(stir(begin(seed), VIEWS), processes)
    wanted = round(mean_size * processes)
    if wanted > processes * (processes - 1):
        raise ConfigError(f"{processes} processes cannot know {mean_size:g} each")
    views: list[list[int]] = [[] for _ in range(processes)]
    for process in range(1, processes):
        views[process].append(int(uniform(stir(state, process)) * process))
    count = processes - 1
    draw = state
    while count < wanted:
        draw = stir(draw, count)
        owner = int(uniform(stir(draw, 1)) * processes)
        peer = int(uniform(stir(draw, 2)) * processes)
        if peer != owner and peer not in views[owner]:
            views[owner].append(peer)
            count += 1
    return views


def _parse(text: str) -> _Words:
    name, _, rest = text.partition(":")
    if name not in OVERLAYS:
        raise ConfigError(f"unknown overlay {name!r}; choose one of: {', '.join(OVERLAYS)}")
    return _Words(name=name, values=parameters(f"overlay {name}", rest, OVERLAYS[name]))


def promises_order(name: str, overlay: str) -> bool:
    """Tell whether a protocol promises causal order on an overlay.

    One that floods promises it while links stay as they are, and Spray renews them.
    """
    able = protocol(name).capabilities
    changing = able.overlay and overlay.partition(":")[0] == "spray"
    return able.causal and (able.dynamic or not changing)
