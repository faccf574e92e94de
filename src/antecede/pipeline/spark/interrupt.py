"""Cancel Spark jobs on Ctrl-C.

An exception raised in the middle of a call to Java leaves the connection unusable, and
Spark's own handler delays the interrupt until the job ends. Here the first interrupt raises
nothing: a thread cancels Spark's jobs repeatedly until the call returns, and
``KeyboardInterrupt`` is raised at the end of the block. A second interrupt, or the end of
the timeout, raises it immediately.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from types import FrameType

__all__ = ["cancel_on_interrupt", "defer_interrupt"]

CANCEL_INTERVAL_S = 0.2
"""Short, because the block may start another job after one was cancelled."""
CANCEL_TIMEOUT_S = 10.0
"""Spark takes about 2 s to kill a task."""


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Raise an interrupt at the end of the block, which must not be left half done."""
    with cancel_on_interrupt(lambda: None, timeout_s=inf):
        yield


@contextmanager
def cancel_on_interrupt(
    cancel: Callable[[], object], *, timeout_s: float = CANCEL_TIMEOUT_S
) -> Iterator[None]:
    """On an interrupt, call ``cancel`` from a thread until the block ends, then raise.

    In any thread but the main one, which alone receives interrupts, it does nothing.

    Args:
        cancel: Cancels Spark's current jobs.
        timeout_s: How long to wait for the end of the block before raising inside it.

    Raises:
        KeyboardInterrupt: In place of the exception that the block raised after an
            interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted, ended = threading.Event(), threading.Event()

    def cancel_until_ended() -> None:
        start = monotonic()
        while not ended.is_set():
            with suppress(Exception):  # No job is running, or Spark has stopped.
                cancel()
            ended.wait(CANCEL_INTERVAL_S)
            if monotonic() - start > timeout_s and not ended.is_set():
                _thread.interrupt_main()
                return

    thread = threading.Thread(target=cancel_until_ended, daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        thread.start()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    except Exception:
        if interrupted.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
        ended.set()
        if interrupted.is_set():
            thread.join(timeout=CANCEL_INTERVAL_S)
    if interrupted.is_set():
        raise KeyboardInterrupt
