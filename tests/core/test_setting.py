"""What a process is told of the world it starts in."""

import pytest

from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError


def test_nothing_need_be_told() -> None:
    setting = Setting()
    assert setting.processes == 0
    assert setting.policy == RetransmissionPolicy()
    assert not setting.reliable
    assert setting.links is None
    assert setting.parents is None


def test_a_group_has_as_many_members_as_it_was_told() -> None:
    assert Setting(processes=1).group("matrix") == 1
    assert Setting(processes=7).group("matrix") == 7


@pytest.mark.parametrize("processes", [0, -1])
def test_who_must_know_the_group_and_does_not_says_so_by_name(processes: int) -> None:
    with pytest.raises(ConfigError, match="matrix must know how many processes there are"):
        Setting(processes=processes).group("matrix")


def test_without_an_overlay_everyone_has_a_link_to_everyone_else() -> None:
    setting = Setting(processes=3)
    assert [list(setting.links_of(ProcessId(i))) for i in range(3)] == [
        [1, 2],
        [0, 2],
        [0, 1],
    ]
    assert list(Setting(processes=1).links_of(ProcessId(0))) == []
    assert list(Setting().links_of(ProcessId(0))) == []


def test_with_an_overlay_the_links_are_those_that_it_has() -> None:
    setting = Setting(processes=3, links=[[1], [2, 0], []])
    assert list(setting.links_of(ProcessId(0))) == [1]
    assert list(setting.links_of(ProcessId(1))) == [2, 0]
    assert list(setting.links_of(ProcessId(2))) == []


def test_an_overlay_that_does_not_know_the_process_is_refused() -> None:
    setting = Setting(processes=3, links=((1,), (0,)))
    with pytest.raises(ConfigError, match="the overlay has 2 processes, none is 2"):
        setting.links_of(ProcessId(2))
