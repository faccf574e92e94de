"""Complete searches over the joins of a room."""

import pytest

from antecede.check.found_model import FoundConfig, FoundModel
from antecede.check.join_model import JoinConfig, JoinModel
from antecede.check.join_search import check_rooms
from tests.check.join_configs import FOUNDING, SMALL


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL.keys())
def test_every_schedule_keeps_the_properties(config: JoinConfig) -> None:
    result = check_rooms(JoinModel(config))
    assert (result.violation, result.schedule) == ("", ())
    assert result.exhausted
    assert result.ends >= 1


@pytest.mark.parametrize("config", FOUNDING.values(), ids=FOUNDING.keys())
def test_nodes_that_look_for_a_room_at_once_found_one(config: FoundConfig) -> None:
    result = check_rooms(FoundModel(config))
    assert (result.violation, result.schedule) == ("", ())
    assert result.exhausted
    assert result.ends >= 1
