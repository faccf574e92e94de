"""The overlays by name, for the command line and studies.

``ring``, ``full``
    Links to the next and the previous process; links to all others.

``random:degree=5``
    Links to ``degree`` random others, in both directions.

``spray:exchange_s=60,until_s=600`` Views that Spray renews: each process starts an exchange
every ``exchange_s`` seconds until ``until_s``, so that a run ends. The initial views are
random. Their mean size is that of sequential joins, ln(n) plus ``more`` (0.6 by default). A
link stays for ``linger_s`` after its entry has left the view, and ``pc-broadcast`` waits up
to ``ping_timeout_s`` for a pong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log

from antecede.core.config import ProcessConfig
from antecede.core.overlay.graphs import full, random_graph, ring
from antecede.core.registry import protocol
from antecede.core.support.keyed_random import fold_in, key, uniform
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
    if value < POSITIVE_MIN:
        raise ValueError
    return value


POSITIVE_MIN = 1e-9
"""The minimum of a positive parameter."""
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
"""The parameters of each overlay, and their parsers."""
DEGREE = 5
EXCHANGE_S = 60.0
"""The value of the experiments on PC-broadcast."""
MORE = 0.6
"""About Euler's constant, which sequential joins add to the logarithm."""
VIEWS = 0x56494557
"""Separates the random numbers of views from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedOverlay:
    name: str
    values: dict[str, float]


def make_overlay(
    text: str, config: ProcessConfig, *, processes: int, seed: int
) -> ProcessConfig:
    """Return ``config`` with the overlay of ``text``; raise ConfigError if invalid."""
    if not text:
        return config
    parsed = _parse(text)
    values = parsed.values
    if parsed.name == "ring":
        return replace(config, links=ring(processes))
    if parsed.name == "full":
        return replace(config, links=full(processes))
    if parsed.name == "random":
        degree = int(values.get("degree", DEGREE))
        links = random_graph(processes, min(degree, processes - 1), seed, both_ways=True)
        return replace(config, links=links)
    size = min(log(processes) + values.get("more", MORE), processes / 2)
    return replace(
        config,
        links=random_views(processes, seed, size),
        exchange_s=values.get("exchange_s", EXCHANGE_S),
        exchange_until_s=values.get("until_s", config.exchange_until_s),
        linger_s=values.get("linger_s", config.linger_s),
        ping_timeout_s=values.get("ping_timeout_s", config.ping_timeout_s),
    )


def overlay_parameters(text: str) -> dict[str, float]:
    """Return the parameters in ``text``; raise ConfigError if one is not valid."""
    return _parse(text).values if text else {}


def random_views(processes: int, seed: int, mean_size: float) -> list[list[int]]:
    """Return random views with ``mean_size`` different peers on average.

    Each process but the first has an earlier one in its view, so that all are connected.
    Raise ConfigError if there are too few processes.
    """
    root = fold_in(fold_in(key(seed), VIEWS), processes)
    wanted = round(mean_size * processes)
    if wanted > processes * (processes - 1):
        raise ConfigError(f"{processes} processes are too few for views of {mean_size:g}")
    views: list[list[int]] = [[] for _ in range(processes)]
    for process in range(1, processes):
        views[process].append(int(uniform(fold_in(root, process)) * process))
    count = processes - 1
    draw = root
    while count < wanted:
        draw = fold_in(draw, count)
        owner = int(uniform(fold_in(draw, 1)) * processes)
        peer = int(uniform(fold_in(draw, 2)) * processes)
        if peer != owner and peer not in views[owner]:
            views[owner].append(peer)
            count += 1
    return views


def _parse(text: str) -> _ParsedOverlay:
    name, _, rest = text.partition(":")
    if name not in OVERLAYS:
        raise ConfigError(f"unknown overlay {name!r}; choose one of: {', '.join(OVERLAYS)}")
    return _ParsedOverlay(
        name=name, values=parameters(f"overlay {name}", rest, OVERLAYS[name])
    )


def promises_order(name: str, overlay: str) -> bool:
    """Return whether a protocol guarantees causal order on an overlay.

    Flooding guarantees it only while links do not change; Spray changes them.
    """
    capabilities = protocol(name).capabilities
    changing = capabilities.overlay and overlay.partition(":")[0] == "spray"
    return capabilities.causal and (capabilities.dynamic or not changing)
