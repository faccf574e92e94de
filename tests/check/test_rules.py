"""Optimality, in every state that can be reached; and Mattern's nested crowns."""

import pytest

from antecede.check import Bound, check
from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from tests.check.lockstep import Divergence, Lockstep, inspect_rules
from tests.core.crowns import FIGURE_8, SECOND_PROGRAM, reachable
from tests.core.naive_sps import Copy, NaiveProcess, Sent


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic"])
@pytest.mark.parametrize(
    ("processes", "messages", "multicast"), [(3, 1, False), (2, 2, False), (3, 1, True)]
)
def test_process_and_rule_agree_in_every_state(
    name: str, processes: int, messages: int, multicast: bool
) -> None:
    bound = Bound(
        protocol=name, processes=processes, messages=messages, multicast=multicast
    )
    checked = check(
        bound,
        make=lambda place: Lockstep(ProcessId(place), name),
        inspect=inspect_rules,
    )
    assert checked.exhausted
    assert checked.violation is None


class Hesitant(NaiveProcess):
    """Waits for the permits of all, as CSPS does, but tells permits as SPS does."""

    def may_release(self, message: Sent, target: ProcessId) -> bool:
        return not self.missing(message.past)


class Hasty(NaiveProcess):
    def is_permitted(self, copy: Copy) -> bool:
        return True


@pytest.mark.parametrize("naive", [Hesitant, Hasty])
def test_another_rule_is_told_apart(naive: type[NaiveProcess]) -> None:
    with pytest.raises(Divergence):
        check(
            Bound(protocol="hybrid", messages=1, multicast=True),
            make=lambda place: Lockstep(ProcessId(place), "hybrid", naive),
        )


@pytest.mark.parametrize(("name", "expected"), [("matrix", True), ("buffer", False)])
def test_nested_crowns_are_reachable_only_where_the_receiver_waits(
    name: str, expected: bool
) -> None:
    """Every schedule of one program: test_buffer.py and test_matrix.py have the rest."""
    info = protocol(name)
    setting = Setting(processes=3, reliable=True)
    found = reachable(
        lambda place: info.make(place, setting), SECOND_PROGRAM, lambda h: h == FIGURE_8
    )
    assert found == expected
