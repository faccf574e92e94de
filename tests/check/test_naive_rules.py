"""Optimality in every reachable state; and Mattern's nested crowns."""

import pytest

from antecede.check import CheckConfig, check
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from tests.check.lockstep import Divergence, Lockstep, inspect_rules
from tests.core.crowns import FIGURE_8, SECOND_PROGRAM, reachable
from tests.core.naive_sps import Copy, NaiveProcess, Sent


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic"])
@pytest.mark.parametrize(
    ("processes", "messages", "multicast"), [(3, 1, False), (2, 2, False), (3, 1, True)]
)
def test_process_and_rule_agree_in_every_state(
    name: str, processes: int, messages: int, multicast: bool
) -> None:
    config = CheckConfig(
        protocol=name, processes=processes, messages=messages, multicast=multicast
    )
    result = check(
        config,
        make=lambda index: Lockstep(ProcessId(index), name),
        inspect=inspect_rules,
    )
    assert result.exhausted
    assert result.violation is None


class Hesitant(NaiveProcess):
    """Waits for the permits of all, as CSPS does, but grants permits as SPS does."""

    def may_release(self, message: Sent, target: ProcessId) -> bool:
        return not self.missing(message.past)


class Hasty(NaiveProcess):
    def is_permitted(self, copy: Copy) -> bool:
        return True


@pytest.mark.parametrize("naive", [Hesitant, Hasty])
def test_another_rule_diverges(naive: type[NaiveProcess]) -> None:
    with pytest.raises(Divergence):
        check(
            CheckConfig(protocol="hybrid", messages=1, multicast=True),
            make=lambda index: Lockstep(ProcessId(index), "hybrid", naive),
        )


@pytest.mark.parametrize(("name", "expected"), [("matrix", True), ("buffer", False)])
def test_nested_crowns_are_reachable_only_where_the_receiver_waits(
    name: str, expected: bool
) -> None:
    """Every schedule of one program; test_buffer.py and test_matrix.py have more."""
    info = protocol(name)
    config = ProcessConfig(processes=3, reliable=True)
    found = reachable(
        lambda index: info.make(index, config), SECOND_PROGRAM, lambda h: h == FIGURE_8
    )
    assert found == expected
