"""What Ctrl-C does while Spark is at work.

An exception in the middle of a call to Java leaves the connection useless, and Spark's own
handler would have the interrupt wait for the end of the job. So here the first interrupt
raises nothing: Spark is told from a thread to cancel what it does, again and again, so that
the call comes back, and ``KeyboardInterrupt`` is raised at the end of the block. If that
takes long, and on a second interrupt, it is raised wherever the block is.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from types import FrameType

__all__ = ["interrupt_cancels", "interrupt_waits"]

AGAIN_S = 0.2
"""How often to cancel: the next job must not get far."""
PATIENCE_S = 10.0
"""How long the block may take to end by itself; Spark takes some 2 s to kill a task."""


@contextmanager
def interrupt_waits() -> Iterator[None]:
    """Raise an interrupt at the end of the block: for what cannot be left half done."""
    with interrupt_cancels(lambda: None, patience_s=inf):
        yield


@contextmanager
def interrupt_cancels(
    cancel: Callable[[], object], *, patience_s: float = PATIENCE_S
) -> Iterator[None]:
    """On an interrupt, call ``cancel`` from a thread until the block is over, then raise.

    In any thread but the main one, where interrupts do not arrive, it does nothing.

    Args:
        cancel: Makes Spark give up what it does.
        patience_s: How long to wait for the end of the block before it is left anyway.

    Raises:
        KeyboardInterrupt: In place of what the block raised after an interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked, over = threading.Event(), threading.Event()

    def cancel_until_over() -> None:
        start = monotonic()
        while not over.is_set():
            with suppress(Exception):  # Nothing is running, or Spark is gone.
                cancel()
            over.wait(AGAIN_S)
            if monotonic() - start > patience_s and not over.is_set():
                _thread.interrupt_main()
                return

    thread = threading.Thread(target=cancel_until_over, daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        thread.start()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    except Exception:
        if asked.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        if asked.is_set():
            thread.join(timeout=AGAIN_S)
    if asked.is_set():
        raise KeyboardInterrupt
