"""How much a process keeps because of one ack that is missing."""

import pytest

from antecede.core.process import ProcessId
from antecede.core.protocols.baseline import Plain
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Ack
from antecede.core.protocols.hybrid.hybrid import Hybrid

ONE, TWO = ProcessId(1), ProcessId(2)


@pytest.mark.parametrize("kind", [Hybrid, HybridBasic])
def test_acked_copies_are_kept_while_one_before_them_is_not_acked(
    kind: type[HybridBasic],
) -> None:
    process = kind(ProcessId(0))
    process.send([ONE], b"", 0.0)
    for number in range(2, 7):
        process.send([TWO], b"", 0.0)
        process.receive(TWO, Ack(number, number), 0.0)
    assert (process.retained(), process.backlog(TWO)) == (6, 0)
    process.receive(ONE, Ack(1, 1), 0.0)
    assert process.retained() == 0


def test_others_keep_nothing_of_the_kind() -> None:
    process = Plain(ProcessId(0))
    process.send([ONE], b"", 0.0)
    assert process.retained() == 0
