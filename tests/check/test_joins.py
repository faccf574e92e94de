"""Complete searches over the joins of a room."""

import pytest

from antecede.check.join_model import JoinConfig
from antecede.check.join_search import check_joins

SMALL = {
    "one newcomer": JoinConfig(members=3),
    "a message of a third member": JoinConfig(members=3, sends={"b": 1}),
    "messages of the sponsor and of a member": JoinConfig(
        members=2, sends={"a": 1, "b": 1}
    ),
    "the newcomer answers a message": JoinConfig(members=3, sends={"c": 1, "x": 1}),
    "two newcomers at once": JoinConfig(members=2, newcomers={"x": "a", "y": "b"}),
    "two newcomers of one sponsor": JoinConfig(members=2, newcomers={"x": "a", "y": "a"}),
    "a newcomer sponsors the next": JoinConfig(members=1, newcomers={"x": "a", "y": "x"}),
    "the sponsor crashes": JoinConfig(members=2, sends={"b": 1}, crashes=("a",)),
    "a member crashes": JoinConfig(members=2, sends={"a": 1}, crashes=("b",)),
    "a sponsor is suspected": JoinConfig(members=2, timeouts=1),
}


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL.keys())
def test_every_schedule_keeps_the_properties(config: JoinConfig) -> None:
    result = check_joins(config)
    assert (result.violation, result.schedule) == ("", ())
    assert result.exhausted
    assert result.ends >= 1
