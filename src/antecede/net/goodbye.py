"""The end of a node: it waits for acks, and transmits BYE to each peer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from antecede.engine.engine import Engine
from antecede.net.host import DatagramSocket

__all__ = ["transmit_byes", "wait_for_last_acks"]

logger = logging.getLogger(__name__)

TRIES: Final = 10
"""How many times a closing node transmits BYE to a peer that does not answer."""
INTERVAL_S: Final = 0.05


async def wait_for_last_acks(engine: Engine, acks: Awaitable[None], drain_s: float) -> bool:
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


async def transmit_byes(
    engine: Engine, udp: DatagramSocket, now_s: Callable[[], float]
) -> None:
    """Transmit BYE to every peer until it is acked, a limited number of times."""
    for _ in range(TRIES):
        datagrams = engine.bye_datagrams(now_s())
        if not datagrams:
            return
        udp.transmit(datagrams)
        await asyncio.sleep(INTERVAL_S)
