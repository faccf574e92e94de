"""Complete searches over the joins of a room."""

import pytest

from antecede.check.join_model import JoinConfig
from antecede.check.join_search import check_joins
from tests.check.join_configs import SMALL


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL.keys())
def test_every_schedule_keeps_the_properties(config: JoinConfig) -> None:
    result = check_joins(config)
    assert (result.violation, result.schedule) == ("", ())
    assert result.exhausted
    assert result.ends >= 1
