"""All exceptions that antecede raises, grouped by cause.

::

    AntecedeError
    ├── LocalError      the caller broke the contract: fix the calling code
    │   └── WindowFull  a non-blocking send found the window full: try again later
    ├── JoinError       a node cannot join a room: the message has the reason
    ├── DecodeError     a payload cannot be decoded: its bytes are in Message.data
    ├── PeerError       a frame broke the protocol: drop it, count it, continue
    ├── ConfigError     an invalid flag, file or parameter: correct it, try again
    ├── TraceError      a trace or a foreign file is unreadable or inconsistent
    ├── StorageError    a file cannot be written, or a stored file is damaged
    ├── SimulationError a simulated run did not end: find out what it waits for
    └── InternalError   an invariant of antecede is broken: please report it

A call that raises has changed nothing. A property that a run violates is not an error but
a result: see :class:`antecede.verify.Verdict`.
"""

__all__ = [
    "AntecedeError",
    "ConfigError",
    "DecodeError",
    "InternalError",
    "JoinError",
    "LocalError",
    "PeerError",
    "SimulationError",
    "StorageError",
    "TraceError",
    "WindowFull",
]


class AntecedeError(Exception):
    """Base class of all exceptions that antecede raises on purpose."""


class LocalError(AntecedeError):
    """The caller broke the contract; the calling code must change."""


class WindowFull(LocalError):
    """A message was not accepted because a peer's window is full; try again later."""


class JoinError(AntecedeError):
    """A node could not join a room; the message has the reason, and the fix."""


class DecodeError(AntecedeError):
    """The function ``decode`` of a node failed; the bytes are in ``Message.data``."""


class PeerError(AntecedeError):
    """A frame from a peer is invalid; the driver drops it and continues."""


class ConfigError(AntecedeError):
    """A parameter, flag or file is invalid; the message says which, and the fix."""


class TraceError(AntecedeError):
    """A trace, or a file in a foreign format, is unreadable or inconsistent."""


class StorageError(AntecedeError):
    """A file or directory cannot be written, or a file that antecede keeps is damaged."""


class SimulationError(AntecedeError):
    """A simulated run did not end; the message names the processes and the seed."""


class InternalError(AntecedeError):
    """An invariant of antecede itself is broken; please report it."""
