"""The inputs of a process as integers, so that they can be keys of a dictionary.

An arrival is the id of its packet, at least 0. A timer that fires is :data:`TIMER`. A send
is ``TIMER - targets`` for a bit set of targets. The inputs of a removal are
:data:`REMOVALS` and below.
"""

from typing import Final

from antecede.core.process import Process, ProcessBase, ProcessId

__all__ = [
    "ABANDON_PEER",
    "DROP_HELD",
    "FORGO_PERMITS",
    "REMOVALS",
    "REMOVAL_KINDS",
    "RESET_CHANNEL",
    "TIMER",
    "apply_removal",
    "drop_held",
    "processes_in",
    "removal_input",
    "send_input",
]

TIMER: Final = -1
"""The input of a timer that fires."""
REMOVALS: Final = -64
"""The first input of a removal; below all sends."""
ABANDON_PEER: Final = 0
RESET_CHANNEL: Final = 1
FORGO_PERMITS: Final = 2
DROP_HELD: Final = 3
REMOVAL_KINDS: Final = 4


def processes_in(bits: int) -> list[int]:
    """List the processes of a bit set."""
    return [process for process in range(bits.bit_length()) if bits >> process & 1]


def send_input(targets: int) -> int:
    """Return the input of a send to a bit set of targets."""
    return TIMER - targets


def removal_input(kind: int, peer: int) -> int:
    """Return an input of a removal, such as ABANDON_PEER, that concerns a peer."""
    return REMOVALS - peer * REMOVAL_KINDS - kind


def apply_removal(process: Process, input: int, now: float) -> None:
    """Give a process an input of a removal."""
    assert isinstance(process, ProcessBase)
    recovery = process.recovery
    assert recovery is not None  # Else the checker refuses removals.
    number, kind = divmod(REMOVALS - input, REMOVAL_KINDS)
    peer = ProcessId(number)
    if kind == ABANDON_PEER:
        recovery.abandon(peer, now)
    elif kind == RESET_CHANNEL:
        recovery.reset_channel(peer, now)
    elif kind == FORGO_PERMITS:
        recovery.forgo_permits(peer, now)
    else:
        drop_held(process, peer)


def drop_held(process: Process, peer: ProcessId) -> None:
    """Drop the messages that a process holds from a peer, if their lease must end.

    A message that is held for its predecessor only is never delivered if the peer abandons
    it, because the predecessor is abandoned, too.
    """
    if isinstance(process, ProcessBase) and process.dependencies is not None:
        assert process.recovery is not None
        process.recovery.drop_held(peer)
