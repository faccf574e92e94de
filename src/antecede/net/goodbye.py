"""The end of a node: BYE to each peer."""

import asyncio
from collections.abc import Callable
from typing import Final

from antecede.engine.engine import Engine
from antecede.net.host import DatagramSocket

__all__ = ["transmit_byes"]

TRIES: Final = 10
"""How many times a closing node transmits BYE to a peer that does not answer."""
INTERVAL_S: Final = 0.05


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
