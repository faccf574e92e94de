"""The check that a call comes from the event loop to which a node belongs."""

import asyncio

from antecede.errors import LocalError

__all__ = ["check_loop"]


def check_loop(name: str, loop: asyncio.AbstractEventLoop | None) -> None:
    """Raise LocalError if another thread, or another event loop, calls a node.

    While the loop does not run, any thread may call the node. A node that was
    never opened (``loop`` is None) belongs to no loop yet.
    """
    running = asyncio._get_running_loop()
    if running is loop or loop is None:
        return
    if running is not None or loop.is_running():
        raise LocalError(
            f"{name} belongs to another event loop: call its methods on that loop, with"
            " asyncio.run_coroutine_threadsafe, or use antecede.sync.Node"
        )
