"""A test catches every deliberate fault in the core.

These tests hunt every sixteenth mutant, which takes minutes; ``make mutants`` hunts all.
"""

import pytest

from tests.mutation.hunt import ALL_HUNTERS, Subject, hunt_all
from tests.mutation.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.own_build

SOME = MUTANTS[::16]


@pytest.fixture(scope="module")
def catchers() -> dict[Subject, str | None]:
    """The test that catches each mutant, and the one that fails without a mutant."""
    return dict(hunt_all((*ALL_HUNTERS, *SOME)))


@pytest.mark.slow
@pytest.mark.parametrize("tests", ALL_HUNTERS, ids=lambda tests: tests[0])
def test_unchanged_core_passes(
    tests: tuple[str, ...], catchers: dict[Subject, str | None]
) -> None:
    assert catchers[tests] is None


@pytest.mark.parametrize("mutant", SOME, ids=lambda mutant: mutant.name)
@pytest.mark.slow
def test_property_catches(mutant: Mutant, catchers: dict[Subject, str | None]) -> None:
    assert catchers[mutant] is not None, f"not caught: {mutant.name}"
