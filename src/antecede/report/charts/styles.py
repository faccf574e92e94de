"""The style of each protocol in all charts: a unique colour, shape and dash.

Shape and dash distinguish protocols for readers who cannot see colours. The colours have
the same contrast to white and to near black.
"""

from dataclasses import dataclass

from antecede.core.registry import protocols

__all__ = ["Style", "style_of", "styles_of"]

STAR = (
    "M0,-1L0.23,-0.31L0.95,-0.31L0.36,0.12L0.59,0.81L0,0.38L-0.59,0.81L-0.36,0.12"
    "L-0.95,-0.31L-0.23,-0.31Z"
)
HEXAGON = "M0,-0.9L0.78,-0.45L0.78,0.45L0,0.9L-0.78,0.45L-0.78,-0.45Z"
SALTIRE = (
    "M-0.9,-0.6L-0.6,-0.9L0,-0.3L0.6,-0.9L0.9,-0.6L0.3,0L0.9,0.6L0.6,0.9L0,0.3L-0.6,0.9"
    "L-0.9,0.6L-0.3,0Z"
)
HOURGLASS = "M-0.8,-0.8L0.8,-0.8L-0.8,0.8L0.8,0.8Z"
BOWTIE = "M-0.8,-0.8L-0.8,0.8L0.8,-0.8L0.8,0.8Z"
DROP = "M0,-1L0.7,0.3L0.4,0.8L-0.4,0.8L-0.7,0.3Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The style of a protocol."""

    colour: str
    shape: str
    """An SVG path with coordinates between -1 and 1."""
    dash: tuple[int, ...]


CIRCLE = "M-0.8,0a0.8,0.8 0 1 0 1.6,0a0.8,0.8 0 1 0 -1.6,0Z"
SQUARE = "M-0.72,-0.72L0.72,-0.72L0.72,0.72L-0.72,0.72Z"
DIAMOND = "M0,-1L0.75,0L0,1L-0.75,0Z"
UP = "M0,-0.9L0.9,0.7L-0.9,0.7Z"
DOWN = "M0,0.9L0.9,-0.7L-0.9,-0.7Z"
RIGHT = "M0.9,0L-0.7,0.9L-0.7,-0.9Z"
LEFT = "M-0.9,0L0.7,0.9L0.7,-0.9Z"
PENTAGON = "M0,-0.95L0.9,-0.29L0.56,0.77L-0.56,0.77L-0.9,-0.29Z"
CROSS = (
    "M-0.3,-0.9L0.3,-0.9L0.3,-0.3L0.9,-0.3L0.9,0.3L0.3,0.3L0.3,0.9L-0.3,0.9L-0.3,0.3"
    "L-0.9,0.3L-0.9,-0.3L-0.3,-0.3Z"
)

STYLES = {
    "hybrid": ("#0a7fc2", CIRCLE, ()),
    "hybrid-basic": ("#3fa0a8", HEXAGON, (8, 3)),
    "bounded": ("#4a6be0", PENTAGON, (14, 2)),
    "buffer": ("#c8671b", SQUARE, (6, 3)),
    "buffer-fifo": ("#b98a2f", DROP, (6, 3, 2, 3)),
    "cykas": ("#c2477f", DIAMOND, (3, 2)),
    "matrix": ("#7a6ad8", UP, (10, 3)),
    "optimal": ("#2f9355", DOWN, (2, 3)),
    "vector": ("#8d7b4a", RIGHT, (10, 3, 2, 3)),
    "newtop": ("#a4639b", LEFT, (4, 4)),
    "flood": ("#5c83a8", CROSS, (1, 3)),
    "pc-broadcast": ("#d0504a", STAR, (12, 2)),
    "tree": ("#6f8f2f", HOURGLASS, (5, 2, 1, 2)),
    "fifo": ("#868d96", SALTIRE, (2, 2)),
    "unordered": ("#6d7480", BOWTIE, (1, 2)),
}
OTHER = ("#808080", CIRCLE, (1, 4))


def style_of(protocol: str) -> Style:
    """Return the style of a protocol."""
    colour, shape, dash = STYLES.get(protocol, OTHER)
    return Style(colour=colour, shape=shape, dash=dash)


def styles_of(names: list[str]) -> dict[str, Style]:
    """Return the styles of these protocols, in the order of the registry."""
    known = [info.name for info in protocols()]
    order = [name for name in known if name in names]
    order += sorted(name for name in names if name not in known)
    return {name: style_of(name) for name in order}
