"""Every deliberate breakage of the core is caught by some test."""

import pytest

from tests.mutation.hunt import hunt_all
from tests.mutation.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.own_build


@pytest.fixture(scope="module")
def catchers() -> dict[Mutant | None, str | None]:
    """Which test catches which mutant; None stands for the unbroken core."""
    return dict(hunt_all((None, *MUTANTS)))


@pytest.mark.slow
def test_the_unbroken_core_is_not_caught(
    catchers: dict[Mutant | None, str | None],
) -> None:
    assert catchers[None] is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.slow
def test_a_property_catches(
    mutant: Mutant, catchers: dict[Mutant | None, str | None]
) -> None:
    assert catchers[mutant] is not None, f"nothing catches: {mutant.name}"
