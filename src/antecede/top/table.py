"""The table of ``antecede top``: nodes, links, and processes that wait for others."""

from collections.abc import Sequence
from typing import Final

from antecede.top.endpoint import (
    EndpointReading,
    NodeReading,
    PeerReading,
    in_room,
    nodes_of,
)

__all__ = ["draw_group"]

CHAIN_MAX: Final = 8
"""The maximum number of processes in the line about a wait."""
UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
RATES: Final = ("sent", "delivered", "lost")
"""The counters that the table of nodes shows as rates."""
NONE: Final = "-"
PRESENT: Final = ("active", "silent")
"""The states of the peers of a room that are its members."""

Row = tuple[str, ...]
NODE_HEADS: Final[Row] = (
    "node", "protocol", "sent", "delivered", "sent/s", "delivered/s", "lost/s", "inbox",
    "queued", "in flight", "dropped",
)  # fmt: skip
LINK_HEADS: Final[Row] = (
    "link", "state", "round trip", "heard", "backlog", "window", "in flight", "dropped",
)  # fmt: skip


def draw_group(
    readings: Sequence[EndpointReading], before: Sequence[EndpointReading] = ()
) -> list[str]:
    """Return the lines that show a group.

    Args:
        readings: the answers of the endpoints.
        before: earlier answers, which rates are computed from. Without these, the columns
            of the rates are empty.
    """
    nodes = nodes_of(readings)
    silent = [each for each in readings if each.error]
    head = f"{len(nodes)} nodes" + (f", {len(silent)} not answering" if silent else "")
    lines = [head, "", *_columns(_node_rows(readings, before))]
    lines += [f"{each.url}: no answer: {each.error}" for each in silent]
    lines += _links(nodes)
    waits = _waits(nodes)
    for room in sorted({room for node in nodes.values() for room in node.rooms}):
        inside = [in_room(each, room) for each in readings]
        members = nodes_of(inside)
        lines += ["", f"room {room}: {', '.join(_members(members))}", ""]
        lines += _columns(_node_rows(inside, [in_room(each, room) for each in before]))
        lines += _links(members)
        waits += [f"in room {room}, {line}" for line in _waits(members)]
    return [*lines, "", *(waits or ["no node waits"])] if nodes else lines


def _links(nodes: dict[str, NodeReading]) -> list[str]:
    """Return an empty line and the table of the links, if there are any."""
    links = _link_rows(nodes)
    return ["", *_columns(links)] if len(links) > 1 else []


def _members(nodes: dict[str, NodeReading]) -> list[str]:
    """Return the names of the nodes and of their peers that have not gone, sorted."""
    names = set(nodes)
    for node in nodes.values():
        names.update(name for name, peer in node.peers.items() if peer.state in PRESENT)
    return sorted(names)


def _node_rows(
    readings: Sequence[EndpointReading], before: Sequence[EndpointReading]
) -> list[Row]:
    earlier = {each.url: each for each in before}
    rows: list[Row] = [NODE_HEADS]
    for reading in readings:
        former = earlier.get(reading.url)
        for name, node in reading.nodes.items():
            values = node.values
            old = former.nodes.get(name) if former is not None else None
            seconds = reading.read_at - former.read_at if former is not None else 0.0
            rows.append(
                (
                    name,
                    node.protocol,
                    _count(values.get("sent")),
                    _count(values.get("delivered")),
                    *(_rate(node, old, counter, seconds) for counter in RATES),
                    _count(values.get("inbox")),
                    _count(values.get("queued")),
                    _count(values.get("in_flight")),
                    _count(values.get("dropped")),
                )
            )
    return rows


def _rate(node: NodeReading, old: NodeReading | None, counter: str, seconds: float) -> str:
    """Return a counter per second; a counter that has decreased began again at 0."""
    if old is None or seconds <= 0 or counter not in node.values:
        return NONE
    value, former = node.values[counter], old.values.get(counter, 0.0)
    return f"{(value - former if value >= former else value) / seconds:.1f}"


def _link_rows(nodes: dict[str, NodeReading]) -> list[Row]:
    rows: list[Row] = [LINK_HEADS]
    for name in sorted(nodes):
        for peer, reading in sorted(nodes[name].peers.items()):
            values = reading.values
            rows.append(
                (
                    f"{name} -> {peer}",
                    _state(reading),
                    _seconds(values.get("round_trip_seconds")),
                    _seconds(values.get("silent_seconds"), " ago"),
                    _count(values.get("backlog")),
                    _bytes(values.get("congestion_window_bytes")),
                    _bytes(values.get("in_flight_bytes")),
                    _count(values.get("peer_dropped")),
                )
            )
    return rows


def _state(peer: PeerReading) -> str:
    """Return the state of a peer in a word or two."""
    if peer.state in PRESENT and not peer.values.get("met", 1.0):
        return "never met"
    if peer.state == "active" and peer.values.get("window_full", 0.0):
        return "window full"
    return peer.state or NONE


def _waits(nodes: dict[str, NodeReading]) -> list[str]:
    """Return a line for each process that a node waits for, up to the last process."""
    lines: list[str] = []
    for name in sorted(nodes):
        for peer, count in _ordered(nodes[name]):
            text = f"{name} waits for {peer} ({_messages(count)})"
            lines.append(text + _continue(nodes, [name, peer]))
    return lines


def _continue(nodes: dict[str, NodeReading], chain: list[str]) -> str:
    """Return the rest of a line about a wait: what its last process waits for."""
    waiter, last = chain[-2:]
    peer = nodes[waiter].peers.get(last)
    if peer is not None and _state(peer) in ("silent", "never met"):
        heard = _seconds(peer.values.get("silent_seconds"))
        return ", never met" if _state(peer) == "never met" else f", silent for {heard}"
    waits = _ordered(nodes[last]) if last in nodes else []
    if not waits or len(chain) > CHAIN_MAX:
        return ""
    target, count = waits[0]
    text = f", which waits for {target} ({_messages(count)})"
    if target in chain:
        return f"{text}: these wait for each other"
    return text + _continue(nodes, [*chain, target])


def _ordered(node: NodeReading) -> list[tuple[str, float]]:
    """Return the processes that a node waits for, those of most messages first."""
    waits = [(peer, count) for peer, count in node.waiting_for.items() if count > 0]
    return sorted(waits, key=lambda wait: (-wait[1], wait[0]))


def _messages(count: float) -> str:
    return f"{count:.0f} message{'' if count == 1 else 's'}"


def _count(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f}"


def _bytes(value: float | None) -> str:
    if value is None:
        return NONE
    for size, unit in UNITS:
        if value >= size:
            return f"{value / size:.1f} {unit}B"
    return f"{value:.0f} B"


def _seconds(value: float | None, suffix: str = "") -> str:
    if value is None:
        return NONE
    text = f"{value:.1f} s" if value >= 1 else f"{value * 1000:.1f} ms"
    return text + suffix


def _columns(rows: Sequence[Row]) -> list[str]:
    """Return rows as lines: the first two columns to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
