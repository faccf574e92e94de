"""A test catches every deliberate fault in the core.

These tests hunt every sixteenth mutant, which takes minutes; ``make mutants`` hunts all.
"""

import pytest

from tests.mutation.hunt import hunt_all
from tests.mutation.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.own_build

SOME = MUTANTS[::16]


@pytest.fixture(scope="module")
def catchers() -> dict[Mutant | None, str | None]:
    """The test that catches each mutant; the key None is the unchanged core."""
    return dict(hunt_all((None, *SOME)))


@pytest.mark.slow
def test_unchanged_core_passes(
    catchers: dict[Mutant | None, str | None],
) -> None:
    assert catchers[None] is None


@pytest.mark.parametrize("mutant", SOME, ids=lambda mutant: mutant.name)
@pytest.mark.slow
def test_property_catches(
    mutant: Mutant, catchers: dict[Mutant | None, str | None]
) -> None:
    assert catchers[mutant] is not None, f"not caught: {mutant.name}"
