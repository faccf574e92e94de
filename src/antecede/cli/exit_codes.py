"""Exit codes of the command ``antecede``."""

from typing import Final

__all__ = [
    "EXIT_HELD",
    "EXIT_INTERNAL",
    "EXIT_INTERRUPTED",
    "EXIT_UNKNOWN",
    "EXIT_USAGE",
    "EXIT_VIOLATED",
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
