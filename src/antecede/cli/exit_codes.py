"""Exit codes of the command ``antecede``."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from antecede.verify.verdict import Status

__all__ = [
    "EXIT_HELD",
    "EXIT_INTERNAL",
    "EXIT_INTERRUPTED",
    "EXIT_UNKNOWN",
    "EXIT_USAGE",
    "EXIT_VIOLATED",
    "exit_code",
]

EXIT_HELD: Final = 0
"""The command succeeded; every verified property held."""
EXIT_VIOLATED: Final = 1
"""A property was violated."""
EXIT_USAGE: Final = 2
"""The command line, a file or a parameter was invalid."""
EXIT_INTERNAL: Final = 3
"""A bug in antecede."""
EXIT_UNKNOWN: Final = 4
"""Nothing was violated, but the data or the bounds do not suffice to verify everything."""
EXIT_INTERRUPTED: Final = 130
"""The user pressed Ctrl-C: 128 plus the number of SIGINT, as shells report it."""


def exit_code(status: "Status") -> int:
    """Return the exit code of a command that prints a verdict with this status."""
    return {"held": EXIT_HELD, "violated": EXIT_VIOLATED}.get(status.value, EXIT_UNKNOWN)
