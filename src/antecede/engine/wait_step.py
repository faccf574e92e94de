"""The steps of an explanation why a message waits, and their bytes in an ANSWER.

Each step has the reason for which one process waits. The process that it names is the
subject of the next step, so the phrases form a sentence: "bob:2 waits for a permit of ann,
which waits for an ack of cid, silent for 31 s".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from antecede.errors import PeerError

__all__ = ["Reason", "WaitStep", "explain", "read_steps", "write_steps"]

HEAD: Final = Struct(">BQI")
STEPS_MAX: Final = 64
TEXT_BYTES_MAX: Final = 255


class Reason(IntEnum):
    """The reason for which a process waits, or for which it ends an explanation."""

    PERMIT = 1
    ACK = 2
    BUDGET = 3
    NOT_MET = 4
    SILENT = 5
    DELIVERED = 6
    NOT_ARRIVED = 7
    HELD = 8
    INBOX_FULL = 9
    IN_SEND = 10
    GRANTED = 11
    NO_ANSWER = 12
    LOOP = 13
    TOO_LONG = 14
    UNKNOWN = 15
    REMOVED = 16
    PATH = 17
    REMOVING = 18
    GIVEN_UP = 19


PHRASES: Final[dict[Reason, str]] = {
    Reason.PERMIT: "waits for a permit of {name}",
    Reason.ACK: "waits for an ack of {name}",
    Reason.BUDGET: "waits until copies of other processes to {name} are delivered",
    Reason.NOT_MET: "was never met: no answer from {detail} for {seconds} s",
    Reason.SILENT: "silent for {seconds} s",
    Reason.DELIVERED: "has delivered it: the ack is on its way",
    Reason.NOT_ARRIVED: "has not received it yet",
    Reason.HELD: "holds it until {name}:{number} arrives",
    Reason.INBOX_FULL: "has a full inbox: its application receives nothing",
    Reason.IN_SEND: "has a full inbox, while its application waits in send to {name}",
    Reason.GRANTED: "has granted it: the permit is on its way",
    Reason.NO_ANSWER: "did not answer the question",
    Reason.LOOP: "waits for {name}: these wait for each other",
    Reason.TOO_LONG: "waits for further processes",
    Reason.UNKNOWN: "is not known to {name}: it was never sent there, or it was delivered",
    Reason.REMOVED: "has removed {name}: call add_peer there",
    Reason.PATH: "waits for the congestion window of the path to {name}",
    Reason.REMOVING: "is being removed",
    Reason.GIVEN_UP: "was given up by {name}: send it again if it is still needed",
}
"""The phrase of each reason. Its subject is the process that the previous step names or,
for the first step, the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStep:
    """The wait of one process."""

    waiter: str
    """The process that waits, which reports the step."""
    reason: Reason
    name: str = ""
    """The process that it waits for."""
    number: int = 0
    """The number of the message that it waits for."""
    silent_s: float = 0.0
    detail: str = ""
    """An address, or the fault that the waiter has noticed."""

    def __str__(self) -> str:
        text = PHRASES[self.reason].format(
            name=self.name,
            number=self.number,
            seconds=f"{self.silent_s:.0f}",
            detail=self.detail,
        )
        is_fault = self.detail and self.reason is not Reason.NOT_MET
        return f"{text} ({self.detail})" if is_fault else text


def explain(subject: str, steps: Sequence[WaitStep]) -> str:
    """Return steps as a sentence about a message."""
    text = subject
    for index, step in enumerate(steps):
        if index == 0:
            text += f" {step}"
        elif step.reason is Reason.SILENT:
            text += f", {step}"
        else:
            text += f", which {step}"
    return text


def write_steps(steps: Sequence[WaitStep], bytes_max: int) -> bytes:
    """Return the bytes of steps; leave out the last ones if they need too many bytes."""
    parts: list[bytes] = []
    size = 0
    for step in steps[:STEPS_MAX]:
        milliseconds = min(int(step.silent_s * 1000), (1 << 32) - 1)
        part = HEAD.pack(step.reason, step.number, milliseconds)
        for text in (step.waiter, step.name, step.detail):
            data = text.encode()[:TEXT_BYTES_MAX]
            part += bytes([len(data)]) + data
        if size + len(part) > bytes_max:
            break
        size += len(part)
        parts.append(part)
    return bytes([len(parts)]) + b"".join(parts)


def read_steps(data: bytes) -> list[WaitStep]:
    """Return the steps that bytes stand for; raise PeerError if they are malformed."""
    steps: list[WaitStep] = []
    try:
        count = data[0]
        position = 1
        for _ in range(count):
            reason, number, milliseconds = HEAD.unpack_from(data, position)
            position += HEAD.size
            texts: list[str] = []
            for _ in range(3):
                end = position + 1 + data[position]
                if end > len(data):
                    raise PeerError("a text in an answer ends after the datagram")
                texts.append(data[position + 1 : end].decode(errors="replace"))
                position = end
            step = WaitStep(
                waiter=texts[0],
                reason=Reason(reason),
                name=texts[1],
                number=number,
                silent_s=milliseconds / 1000,
                detail=texts[2],
            )
            steps.append(step)
    except (IndexError, ValueError, ArithmeticError) as error:
        raise PeerError(f"malformed answer: {error}") from None
    except Exception as error:  # struct.error has no base class but Exception.
        raise PeerError(f"malformed answer: {error}") from None
    return steps
