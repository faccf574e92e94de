"""Violations that the checker finds: in published variants, listings, and mutants."""

from pathlib import Path

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.testing import replay
from tests.check.mutant_hunt import break_core, find
from tests.check.programs import search_program
from tests.check.variants import LISTINGS, SECRET_MODE, listing
from tests.listings.almeida import Algorithm1, Algorithm2, Repair, before
from tests.mutation.mutants import (
    ALL_NODE_MUTANTS,
    MUTANTS,
    REMOVAL_MUTANTS,
    Mutant,
)

TWO_THEN_ONE = [[[2], [1]], [[2], [2]], [[1], [1]]]
"""Process 0 sends to 2 and then to 1, which sends to 2: the case of the errata."""

UNICAST: dict[str, object] = {"processes": 2, "messages": 2}
MULTICAST: dict[str, object] = {"messages": 1, "multicast": True}
FULL: dict[str, object] = MULTICAST | {"symmetry": False}
LOCKSTEP: dict[str, object] = MULTICAST | {"lockstep": True}
FAULTS: dict[str, object] = UNICAST | {"losses": 1, "duplicates": 1}
PROGRAM: dict[str, object] = {"program": TWO_THEN_ONE}
BOUNDED: dict[str, object] = PROGRAM | {"protocol": "bounded"}
SILENT: dict[str, object] = {
    "protocol": "bounded",
    "program": [[[2], [1]], [[], []], [[], []]],
    "losses": 1,
    "silences": 1,
}
SILENT_REPORTER: dict[str, object] = {
    "protocol": "bounded",
    "budget_bytes": 5,
    "program": [[[1, 2]], [[0, 2]], [[]]],
    "silences": 1,
}
NO_BUDGET: dict[str, object] = MULTICAST | {"protocol": "bounded", "budget_bytes": 0}

FOUND: dict[str, dict[str, object]] = {
    # Safety.
    "no permit is ever needed": MULTICAST,
    "a permit goes out one message too early": MULTICAST,
    "a permit goes out one message too early (basic)": FULL,
    "a message's own other copies do not hold its permit back": FULL,
    "the frontier ignores copies that are not released": MULTICAST,
    "every process counts as the target of the first unacked message": PROGRAM
    | {"losses": 1},
    "no message is ever queued": MULTICAST,
    "no message is ever queued (basic)": MULTICAST,
    "one missing permit is overlooked": MULTICAST,
    "a copy to the source of the first missing permit ignores all others": MULTICAST,
    "the next send does not depend on the last deliveries": MULTICAST,
    "a permit covers a message beyond its number": MULTICAST,
    "an ack is sent on arrival, before delivery": FAULTS,
    "messages are delivered on arrival, without FIFO order": UNICAST,
    "duplicates are delivered again": FAULTS,
    # Liveness.
    "one predecessor for all copies of a message": PROGRAM,
    "messages are numbered from 0": {"messages": 1},
    "a permit that overtakes its message is forgotten": {"messages": 1},
    "permits are transmitted on request only": UNICAST,
    "a lost message is not retransmitted": {
        "processes": 2,
        "messages": 1,
        "losses": 1,
    },
    # Optimality: found only by comparison with the naive rule.
    "u2 does not move when a message is appended": LOCKSTEP,
    "p2 does not move": LOCKSTEP,
    # Entries.
    "a message does not wait for its entries for the receiver": BOUNDED,
    "a message waits for its entries except the last": BOUNDED,
    "inherited entries are left off": BOUNDED,
    "own entries are left off": BOUNDED,
    "a copy after the settled ones counts as settled": BOUNDED,
    "no message needs a permit under bounded": NO_BUDGET,
    # Silence: no other test finds these.
    "only the process that reported an entry is asked": SILENT_REPORTER,
    "a copy is not retransmitted before the earlier copies that it lists are acked": SILENT,
}
"""The bounds in which each mutant is found."""

LATE = "late, and only after a loss"
MANY = "needs more copies than the bounds allow"

UNSEEN = {
    "duplicates are kept": "they cost memory, and nothing else",
    "a lost permit is not requested": "larger bounds",
    "a request is answered only when nothing is unacked": LATE,
    "a retransmission keeps the flag of the first transmission": LATE,
    "arrived copies are retransmitted, too": "needless, not wrong",
    "the core reads the clock": "of the source, not of a schedule",
    "an ack of a message never sent is believed": "no process sends such an ack",
    "an invalid message creates a peer": "no process sends such a message",
    "inherited entries are left off a retransmission": MANY,
    "a sent wildcard is cleared at once": MANY,
    "a sent wildcard is cleared before the own copies that it stands for": MANY,
    "copies to the target of a wildcard do not wait": MANY,
    "wildcards are not passed on": MANY,
    "absence settles what this process reported to the peer": MANY,
    "absence on an opaque message settles own entries": MANY,
    "absence settles nothing, and no note is used": "no copy waits for room",
    "an entry is settled one copy too early": MANY,
    "entries are merged although a queued copy lies between": MANY,
    "a queued copy lists entries that were delivered after its send": "needless entries",
    "a copy that fits is not checked again when entries are settled": MANY,
    "a copy is checked again later than it fits": MANY,
    "nobody is asked for a copy that a held message waits for": "its sender has a timeout",
    "requests for a missing copy do not end": "needless, not wrong",
    "a requested copy is retransmitted though it may still arrive": "needless, not wrong",
    "the budget is ignored": "the size of a message is not checked",
    "notes are not sent": LATE,
    "queries are not answered": MANY,
    "the answer to a query is that own entries are settled": MANY,
    "the answer to a query is that inherited entries are settled": MANY,
    "the answer to a query clears the wildcards of queued copies": MANY,
    "a clear that overtakes its wildcard is forgotten": LATE,
    "the ack of a copy does not settle its entries for the target": LATE,
}
"""The mutants that the checker cannot find, and why; the tests of the core find them."""


def test_sends_in_secret_mode_violate_causal_order() -> None:
    result = check(CheckConfig(protocol="secret mode"), make=SECRET_MODE)
    assert result.violation is not None
    assert result.violation.property == "causal"
    verdict = replay(Counterexample.from_result(result), SECRET_MODE).verdict()
    assert {each.property.value for each in verdict.violations} == {"causal"}


@pytest.mark.long
@pytest.mark.parametrize("name", LISTINGS)
def test_listing_violates_a_property(name: str) -> None:
    result = search_program(LISTINGS[name], TWO_THEN_ONE)
    assert result.violation is not None
    assert result.violation.property == ("fifo" if "printed" in name else "liveness")


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "first_left"),
    [(Algorithm1, Repair.SEPARATE_FLAG), (Algorithm2, Repair.PERMIT_ONCE)],
)
def test_repaired_listing_holds(
    algorithm: type[Algorithm1 | Algorithm2], first_left: Repair
) -> None:
    result = search_program(listing(algorithm, before(first_left)), TWO_THEN_ONE)
    assert result.exhausted
    assert result.violation is None


def test_every_mutant_is_accounted_for() -> None:
    """Except the mutants of removals and of nodes, which these bounds lack."""
    others = (*REMOVAL_MUTANTS, *ALL_NODE_MUTANTS)
    names = {mutant.name for mutant in MUTANTS if mutant not in others}
    assert names == FOUND.keys() | UNSEEN.keys()
    assert not FOUND.keys() & UNSEEN.keys()


@pytest.mark.long
@pytest.mark.own_build
@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.name in FOUND],
    ids=lambda mutant: mutant.name,
)
def test_checker_finds(mutant: Mutant, tmp_path: Path) -> None:
    break_core(mutant, tmp_path)
    name = "hybrid" if mutant.module == "protocols/hybrid/hybrid" else "hybrid-basic"
    found = find(tmp_path, {"protocol": name, **FOUND[mutant.name]})
    lockstep = FOUND[mutant.name] is LOCKSTEP
    if lockstep:
        assert found.startswith("error Divergence")
    else:
        assert found in ("causal", "fifo", "no-duplication", "no-creation", "liveness")
