"""Blocks: the rows of many global states in one array."""

from dataclasses import dataclass

import numpy as np

from antecede.check.kernels.expansion import Words
from antecede.verify.kernels.slot_map import Longs

__all__ = ["Block", "pack"]


@dataclass(frozen=True)
class Block:
    """States of one level."""

    words: Words
    """The rows, one after the other."""
    starts: Longs
    """The offset of each row, and of the end."""
    first: int
    """The index of the first state in the trail."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def split(self, size: int) -> "tuple[Block, Block | None]":
        """Return the first ``size`` states, and the others if there are any."""
        if len(self) <= size:
            return self, None
        middle = self.starts[size]
        head = Block(self.words[:middle], self.starts[: size + 1], self.first)
        starts = self.starts[size:] - middle
        return head, Block(self.words[middle:], starts, self.first + size)

    def joined(self, other: "Block") -> "Block":
        """Return this block and the next one as one."""
        return Block(
            np.concatenate([self.words, other.words]),
            np.concatenate([self.starts, other.starts[1:] + self.starts[-1]]),
            self.first,
        )


def pack(states: list[bytes]) -> Block:
    """Return the block of packed states, the first of the trail."""
    words = np.frombuffer(b"".join(states), np.uint32)
    sizes = [len(state) // words.itemsize for state in states]
    return Block(words, np.cumsum([0, *sizes], dtype=np.int64), 0)
