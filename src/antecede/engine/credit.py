"""The room in an inbox that one peer was granted."""

__all__ = ["Credit"]


class Credit:
    """What a node has granted to one peer; see :mod:`antecede.engine.flow_control`."""

    __slots__ = ("reserved", "taken_back_at", "told_at", "window")

    reserved: int
    """The messages that the peer may still have delivered here."""
    window: int
    """The part of them that the newest window allows."""
    told_at: int
    """The timestamp of the newest window; -1 before the first."""
    taken_back_at: int
    """The timestamp of the window that took room back; -1 if none waits for its echo."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Grant nothing."""
        self.reserved = 0
        self.window = 0
        self.told_at = -1
        self.taken_back_at = -1
