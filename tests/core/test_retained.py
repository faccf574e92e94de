"""How much a process keeps because of one ack that is missing."""

from antecede.core.process import ProcessId
from antecede.core.protocols.baseline import Baseline
from antecede.core.protocols.hybrid.frames import Ack
from tests.core.hybrids import MakeHybrid, both_hybrids

ONE, TWO = ProcessId(1), ProcessId(2)


@both_hybrids
def test_acked_copies_are_kept_while_one_before_them_is_not_acked(
    make: MakeHybrid,
) -> None:
    process = make(ProcessId(0))
    process.send([ONE], b"", 0.0)
    for number in range(2, 7):
        process.send([TWO], b"", 0.0)
        process.receive(TWO, Ack(number, number), 0.0)
    assert (process.retained(), process.backlog(TWO)) == (6, 0)
    process.receive(ONE, Ack(1, 1), 0.0)
    assert process.retained() == 0


def test_others_keep_nothing_of_the_kind() -> None:
    process = Baseline(ProcessId(0))
    process.send([ONE], b"", 0.0)
    assert process.retained() == 0
