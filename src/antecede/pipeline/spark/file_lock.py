"""Advisory locks of the operating system on files.

The system releases a lock when its process ends, also if the process is killed. On systems
and file systems without such locks, files are not locked.
"""

import errno
import sys

if sys.platform != "win32":
    import fcntl

__all__ = ["lock_file"]

UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def lock_file(file: int) -> bool:
    """Lock an open file; return False if the system cannot.

    Raises:
        BlockingIOError: Another process, or another open file of this one, has locked it.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return False
    return True
