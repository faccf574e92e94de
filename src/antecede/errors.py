"""Every error that antecede raises, sorted by who is to blame.

::

    AntecedeError
    ├── LocalError      our caller broke the contract: fix the calling code
    │   └── WindowFull  a send was not to wait, and would have had to: try later
    ├── PeerError       a frame broke the protocol: drop it, count it, go on
    ├── ConfigError     a bad flag, file or parameter: correct it and try again
    └── InternalError   an invariant of ours is broken: please report it

A call that raises has changed nothing. A property that does not hold in a run is not an
error but a result: see :class:`antecede.trace.Verdict`.
"""

__all__ = [
    "AntecedeError",
    "ConfigError",
    "InternalError",
    "LocalError",
    "PeerError",
    "WindowFull",
]


class AntecedeError(Exception):
    """The root: catch this to catch everything that antecede raises on purpose."""


class LocalError(AntecedeError):
    """The caller broke the contract; its own code must change."""


class WindowFull(LocalError):
    """A message was not accepted because a peer's window is full; try again later."""


class PeerError(AntecedeError):
    """A frame from a peer makes no sense; the driver drops it and goes on."""


class ConfigError(AntecedeError):
    """A parameter, flag or file is wrong; the message says which and what to do."""


class InternalError(AntecedeError):
    """An invariant of antecede itself is broken; please report it."""
