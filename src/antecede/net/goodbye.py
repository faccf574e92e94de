"""The end of a node: it waits for acks, and transmits BYE to each peer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from antecede.engine.engine import Engine
from antecede.net.host import DatagramSocket

__all__ = ["leave"]

logger = logging.getLogger(__name__)

TRIES: Final = 10
"""How many times a closing node transmits BYE to a peer that does not answer."""
INTERVAL_S: Final = 0.05


async def leave(
    engine: Engine,
    udp: DatagramSocket,
    acks: Awaitable[None],
    now_s: Callable[[], float],
    drain_s: float,
    *,
    returns: bool,
) -> None:
    """Wait for acks; if all arrive, and the node never returns, transmit BYE.

    A node with a journal may return, so its peers keep their copies for it.
    """
    if await _wait_for_last_acks(engine, acks, drain_s) and not returns:
        # A message accepted after the first BYE could not be acked any more.
        engine.flow.is_closed = True
        await _transmit_byes(engine, udp, now_s)


async def _wait_for_last_acks(
    engine: Engine, acks: Awaitable[None], drain_s: float
) -> bool:
    """Wait until all copies are acked, up to ``drain_s``; return whether they are."""
    try:
        async with asyncio.timeout(drain_s):
            await acks
    except TimeoutError:
        logger.warning(
            "%s closes after %g s with %d copies not acked; their delivery is unknown",
            *(engine.name, drain_s, engine.backlog),
        )
        return False
    return True


async def _transmit_byes(
    engine: Engine, udp: DatagramSocket, now_s: Callable[[], float]
) -> None:
    """Transmit BYE to every peer until it is acked, a limited number of times."""
    for _ in range(TRIES):
        datagrams = engine.bye_datagrams(now_s())
        if not datagrams:
            return
        udp.transmit(datagrams)
        await asyncio.sleep(INTERVAL_S)
