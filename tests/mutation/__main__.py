"""``make mutants``: list every mutant and the test that catches it."""

import sys

from tests.mutation.hunt import hunt_all
from tests.mutation.mutants import MUTANTS, Mutant


def main() -> int:
    survivors = 0
    for mutant, catcher in hunt_all(MUTANTS):
        assert isinstance(mutant, Mutant)
        survivors += catcher is None
        print(f"{mutant.name}\n    caught by {catcher or 'NOTHING'}", flush=True)
    print(f"{len(MUTANTS)} mutants, {len(MUTANTS) - survivors} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
