"""Fixed overlays: for each process, the peers that it has links to."""

from collections.abc import Sequence

from antecede.core.support.keyed_random import fold_in, key, uniform
from antecede.errors import ConfigError

__all__ = [
    "check_links",
    "full",
    "is_connected",
    "random_graph",
    "reversed_links",
    "ring",
]

Links = Sequence[Sequence[int]]


def ring(processes: int, *, both_ways: bool = True) -> list[list[int]]:
    """Link each process to the next one, and to the previous one if ``both_ways``."""
    _check_processes(processes)
    links: list[list[int]] = []
    for member in range(processes):
        peers = [(member + 1) % processes]
        if both_ways:
            peers.append((member - 1) % processes)
        links.append([peer for peer in dict.fromkeys(peers) if peer != member])
    return links


def full(processes: int) -> list[list[int]]:
    """Link each process to all others."""
    _check_processes(processes)
    members = range(processes)
    return [[peer for peer in members if peer != member] for member in members]


def random_graph(
    processes: int, degree: int, seed: int, *, both_ways: bool = False
) -> list[list[int]]:
    """Link each process to ``degree`` random others, and these to it if ``both_ways``.

    One link of each process follows a random ring through all processes, so that the graph
    is connected for every degree. Raise ConfigError if the degree is not below the number
    of processes, or is 0 with several processes.
    """
    _check_processes(processes)
    if not min(1, processes - 1) <= degree < processes:
        raise ConfigError(f"each of {processes} processes cannot have {degree} links")
    state = fold_in(key(seed), degree)
    order = list(range(processes))
    for index in range(processes - 1, 0, -1):
        other = int(uniform(fold_in(fold_in(state, processes), index)) * (index + 1))
        order[index], order[other] = order[other], order[index]
    links: list[list[int]] = [[] for _ in range(processes)]
    if degree > 0:
        for index, member in enumerate(order):
            successor = order[(index + 1) % processes]
            first = fold_in(state, member)
            links[member] = _draw_peers(first, member, successor, processes, degree)
    if both_ways:
        back = reversed_links(links)
        links = [list(dict.fromkeys(links[i] + back[i])) for i in range(processes)]
    return links


def _draw_peers(
    state: int, member: int, successor: int, processes: int, degree: int
) -> list[int]:
    peers: dict[int, None] = {successor: None}
    draw = 0
    while len(peers) < degree:
        draw += 1
        peer = int(uniform(fold_in(state, draw)) * processes)
        if peer != member:
            peers[peer] = None
    return list(peers)


def reversed_links(links: Links) -> list[list[int]]:
    """Return for each process the processes that have a link to it."""
    back: list[list[int]] = [[] for _ in links]
    for member, peers in enumerate(links):
        for peer in peers:
            back[peer].append(member)
    return back


def is_connected(links: Links) -> bool:
    """Return whether a path leads from every process to every other."""
    return _all_reached(links) and _all_reached(reversed_links(links))


def _all_reached(links: Links) -> bool:
    reached = [False] * len(links)
    pending = [0] if links else []
    count = len(pending)
    if links:
        reached[0] = True
    while pending:
        for peer in links[pending.pop()]:
            if not reached[peer]:
                reached[peer] = True
                count += 1
                pending.append(peer)
    return count == len(links)


def check_links(links: Links, processes: int) -> None:
    """Raise ConfigError with the reason unless ``links`` is a connected overlay."""
    _check_processes(processes)
    if len(links) != processes:
        raise ConfigError(f"the overlay has {len(links)} rows for {processes} processes")
    for member, peers in enumerate(links):
        for peer in peers:
            if not 0 <= peer < processes or peer == member:
                raise ConfigError(f"process {member} cannot have a link to {peer}")
        if len(set(peers)) < len(peers):
            raise ConfigError(f"process {member} has two links to the same peer")
    if not is_connected(links):
        raise ConfigError("the overlay is not connected: a message cannot reach everyone")


def _check_processes(processes: int) -> None:
    if processes < 1:
        raise ConfigError(f"an overlay needs at least one process, got {processes}")
