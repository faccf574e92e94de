"""A real process and a naive one, which must give the same outputs, as one process.

The checker drives it through every schedule, so the two are compared in every reachable
local state. The local state includes both, so states of the real process that differ only
in the naive one are both searched."""

from collections.abc import Iterable, Sequence

from antecede.core.codec import Frame, encode
from antecede.core.config import ProcessConfig
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.registry import protocol
from tests.core.naive_sps import Copy, NaiveProcess

__all__ = ["Divergence", "Lockstep", "inspect_rules"]

CONSERVATIVE = {"hybrid": False, "hybrid-basic": True}


class Divergence(AssertionError):
    """The two processes differ, or a rule is violated."""


class Lockstep:
    """Passes every input to a real and a naive process, and compares the outputs."""

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
    """Return the transmitted frames by value, in a fixed order."""
    return sorted((t.target, encode([t.frame]), t.is_retransmission) for t in transmits)


def inspect_rules(process: Process) -> None:
    """Raise Divergence unless every copy that its rule permits is released.

    Also raise it if CSPS permits a copy that SPS does not.
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
                raise Divergence(
                    f"{message} to {target} is queued although it is permitted"
                )
