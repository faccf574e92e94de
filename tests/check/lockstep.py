"""A real process and the naive rule as one process, which both must agree to be.

The checker drives it through every schedule; so in every local state that can be reached
at all, the two have been compared. Their states count together, so two ways to one state
of the real process that the rule tells apart are both gone.
"""

from collections.abc import Iterable, Sequence

from antecede.core.codec import Frame, encode
from antecede.core.config import ProcessConfig
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.registry import protocol
from tests.core.naive_sps import Copy, NaiveProcess

__all__ = ["Divergence", "Lockstep", "inspect_rules"]

CONSERVATIVE = {"hybrid": False, "hybrid-basic": True}


class Divergence(AssertionError):
    """The two did different things, or a rule is broken."""


class Lockstep:
    """Gives every input to a real and to a naive process, and compares the outputs."""

    def __init__(
        self, id: ProcessId, name: str, naive: type[NaiveProcess] = NaiveProcess
    ) -> None:
        self.real: Process = protocol(name).make(id, ProcessConfig(reliable=True))
        self.naive = naive(id, conservative=CONSERVATIVE[name], timeout_s=1.0)
        self._transmits: list[Transmit] = []
        self._deliveries: list[Delivery] = []

    @property
    def id(self) -> ProcessId:
        return self.real.id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        chosen = list(targets)
        number = self.real.send(chosen, payload, now)
        if self.naive.send(chosen, payload, now) != number:
            raise Divergence("different numbers")
        self._compare()
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        self.real.receive(source, frame, now)
        self.naive.receive(source, frame, now)
        self._compare()

    def _compare(self) -> None:
        self._transmits = self.real.frames_to_transmit()
        self._deliveries = self.real.messages_to_deliver()
        theirs = self.naive.frames_to_transmit()
        if _lines(self._transmits) != _lines(theirs):
            raise Divergence(f"{self.id}: {self._transmits} and not {theirs}")
        expected = [(d.source, d.number) for d in self.naive.messages_to_deliver()]
        if [(d.source, d.number) for d in self._deliveries] != expected:
            raise Divergence(f"{self.id}: {self._deliveries} and not {expected}")

    def frames_to_transmit(self) -> list[Transmit]:
        found, self._transmits = self._transmits, []
        return found

    def messages_to_deliver(self) -> list[Delivery]:
        found, self._deliveries = self._deliveries, []
        return found

    def next_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        raise NotImplementedError

    def broadcast(self, payload: bytes, now: float) -> int:
        raise NotImplementedError

    def connect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise NotImplementedError


def _lines(transmits: Sequence[Transmit]) -> list[tuple[int, bytes, bool]]:
    """Return what is transmitted by value, whatever the order."""
    return sorted((t.target, encode([t.frame]), t.is_retransmission) for t in transmits)


def inspect_rules(process: Process) -> None:
    """Raise Divergence unless SPS holds nothing back, and CSPS releases no more than it.

    Which permits have arrived is the same for both rules; only the rule differs.
    """
    assert isinstance(process, Lockstep)
    naive = process.naive
    for message in naive.sent:
        missing = naive.missing(message.past)
        for target in message.targets:
            released = Copy(target, message.number) in naive.transmitted_at
            by_sps = all(source == target for source, _ in missing)
            by_csps = not missing
            if by_csps and not by_sps:
                raise Divergence(f"CSPS releases {message} to {target}, SPS does not")
            if (by_csps if naive.conservative else by_sps) and not released:
                raise Divergence(f"{message} to {target} is held for nothing")
