"""The configuration of a process."""

import pytest

from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError


def test_all_values_have_defaults() -> None:
    config = ProcessConfig()
    assert config.processes == 0
    assert config.policy == RetransmissionPolicy()
    assert not config.reliable
    assert config.links is None
    assert config.parents is None


def test_require_processes_returns_the_number_of_processes() -> None:
    assert ProcessConfig(processes=1).require_processes("matrix") == 1
    assert ProcessConfig(processes=7).require_processes("matrix") == 7


@pytest.mark.parametrize("processes", [0, -1])
def test_a_missing_number_of_processes_is_refused_with_the_protocols_name(
    processes: int,
) -> None:
    with pytest.raises(
        ConfigError, match="matrix needs the number of processes; set processes"
    ):
        ProcessConfig(processes=processes).require_processes("matrix")


def test_without_an_overlay_all_processes_have_links_to_each_other() -> None:
    config = ProcessConfig(processes=3)
    assert [list(config.links_of(ProcessId(i))) for i in range(3)] == [
        [1, 2],
        [0, 2],
        [0, 1],
    ]
    assert list(ProcessConfig(processes=1).links_of(ProcessId(0))) == []
    assert list(ProcessConfig().links_of(ProcessId(0))) == []


def test_the_links_are_those_of_the_overlay() -> None:
    config = ProcessConfig(processes=3, links=[[1], [2, 0], []])
    assert list(config.links_of(ProcessId(0))) == [1]
    assert list(config.links_of(ProcessId(1))) == [2, 0]
    assert list(config.links_of(ProcessId(2))) == []


def test_an_overlay_without_the_process_is_refused() -> None:
    config = ProcessConfig(processes=3, links=((1,), (0,)))
    with pytest.raises(ConfigError, match="no links for process 2: links has 2 rows"):
        config.links_of(ProcessId(2))
