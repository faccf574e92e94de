"""Snapshots contain the whole state of a process, compiled or not."""

from collections import deque
from dataclasses import dataclass
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.registry import ProtocolInfo, protocols
from antecede.core.support.retransmission import RetransmissionPolicy, TimerQueue


class Slotted:
    __slots__ = ("__secret", "shown")

    def __init__(self, secret: int) -> None:
        self.__secret = secret


class Below(Slotted):
    """Has a dictionary, unlike its base class."""

    def __init__(self, secret: int, more: int) -> None:
        super().__init__(secret)
        self.more = more


class OneSlot:
    __slots__ = "value"

    def __init__(self, value: int) -> None:
        self.value = value


@dataclass
class Record:
    value: int


@dataclass(slots=True)
class SlottedRecord:
    value: int


class Ring:
    def __init__(self) -> None:
        self.next: Ring = self


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Slotted(1), Slotted(2)),
        (Below(1, 1), Below(2, 1)),
        (Below(1, 1), Below(1, 2)),
        (OneSlot(1), OneSlot(2)),
        (Record(1), Record(2)),
        (SlottedRecord(1), SlottedRecord(2)),
        ([1, 2], [2, 1]),
        ({1: [1]}, {1: [2]}),
        (bytearray(b"a"), bytearray(b"b")),
        (MessageFrame(1, 0, True, b""), MessageFrame(1, 0, False, b"")),
        (Ack(1, 1), Permit(1)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_different_states_have_different_snapshots(one: object, other: object) -> None:
    assert snapshot(one) != snapshot(other)
    assert snapshot(one) == snapshot(one)


def test_order_of_dictionaries_counts_only_if_ordered() -> None:
    one, other = {1: "a", 2: "b"}, {2: "b", 1: "a"}
    assert snapshot(one) != snapshot(other)
    assert snapshot([one], ordered=False) == snapshot([other], ordered=False)
    assert snapshot({1: [1, 2]}, ordered=False) != snapshot({1: [2, 1]}, ordered=False)


def test_order_of_sets_never_counts() -> None:
    assert snapshot({8, 0}) == snapshot({0, 8})


def test_excluded_types_are_ignored() -> None:
    timers = TimerQueue()
    policy = RetransmissionPolicy(initial_s=2.0)
    assert snapshot([timers, policy, 1], (TimerQueue, RetransmissionPolicy)) == (
        None,
        None,
        1,
    )


def test_cycles_are_finite() -> None:
    assert snapshot(Ring()) == snapshot(Ring())


@pytest.mark.parametrize("thing", [deque(), Random(1), range(3), iter([]), print])
def test_hidden_state_is_refused(thing: object) -> None:
    with pytest.raises(TypeError, match="cannot be seen"):
        snapshot(thing)


@pytest.mark.parametrize("info", protocols(), ids=lambda info: info.name)
@pytest.mark.parametrize("reliable", [True, False])
def test_snapshot_of_every_protocol_changes_with_a_send(
    info: ProtocolInfo, reliable: bool
) -> None:
    """Compiled classes list their attributes differently from interpreted ones."""
    config = ProcessConfig(processes=3, reliable=reliable)
    process = info.make(ProcessId(0), config)
    before = snapshot(process)
    assert before == snapshot(info.make(ProcessId(0), config))
    if info.capabilities.unicast:
        process.send([ProcessId(1)], b"", 0.0)
    else:
        process.broadcast(b"", 0.0)
    assert snapshot(process) != before
