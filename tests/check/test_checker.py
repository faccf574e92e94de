"""Bounds, and that the reduced and the full search come to the same verdict."""

from collections.abc import Callable

import pytest

from antecede.check import Bound, Checked, check
from antecede.core.process import Process
from antecede.core.registry import ProtocolInfo, protocols
from antecede.errors import ConfigError
from tests.check.variants import LISTINGS, SECRET_MODE, Make, cykas
from tests.core.cykas_variants import Change

CHECKED = [info for info in protocols() if info.name != "newtop"]


@pytest.mark.parametrize(
    "fields",
    [
        {"processes": 1},
        {"processes": 6},
        {"messages": 0},
        {"losses": -1},
        {"duplicates": 201},
    ],
    ids=str,
)
def test_bound_out_of_range_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Bound(protocol="hybrid", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        (Bound(protocol="cykas", multicast=True), "no multicast"),
        (Bound(protocol="newtop"), "timers alone"),
        (Bound(protocol="nothing"), "unknown protocol"),
        (Bound(protocol="hybrid", processes=5, messages=3), "too many"),
    ],
)
def test_what_cannot_be_checked_is_refused(bound: Bound, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(bound)


def test_bound_on_states_is_kept_and_owned_up_to() -> None:
    checked = check(Bound(protocol="buffer", states_max=50))
    assert not checked.exhausted
    assert checked.violation is None


def test_bound_on_memory_is_kept_and_owned_up_to() -> None:
    assert not check(Bound(protocol="buffer", memory_max_gib=0.001)).exhausted


def test_progress_is_reported() -> None:
    seen: list[int] = []
    checked = check(
        Bound(protocol="buffer", messages=1),
        report=lambda result, model: seen.append(result.states),
    )
    assert seen == sorted(seen)
    assert seen[-1] == checked.states


def verdicts(
    bound: Callable[[bool], Bound], make: Make | None = None, fifo: bool | None = None
) -> tuple[Checked, Checked]:
    """Search with and without reduction, and compare."""
    reduced = check(bound(True), make=make, fifo=fifo)
    full = check(bound(False), make=make, fifo=fifo)
    assert reduced.exhausted
    assert full.exhausted
    assert (reduced.violation is None) == (full.violation is None)
    if reduced.violation is not None and full.violation is not None:
        assert reduced.violation.property == full.violation.property
        assert reduced.violation.depth == full.violation.depth
    else:
        assert reduced.depth == full.depth
        assert reduced.states <= full.states
    return reduced, full


@pytest.mark.parametrize("info", CHECKED, ids=lambda info: info.name)
@pytest.mark.parametrize(("processes", "messages"), [(3, 1), (2, 2)])
def test_reduced_and_full_search_agree(
    info: ProtocolInfo, processes: int, messages: int
) -> None:
    reduced, _ = verdicts(
        lambda reduce: Bound(
            protocol=info.name, processes=processes, messages=messages, reduce=reduce
        )
    )
    expected = info.capabilities.causal or (processes == 2 and info.name == "fifo")
    if (processes, messages) == (3, 1) and not info.capabilities.causal:
        expected = True  # Nobody sends twice, so nothing can be overtaken.
    assert (reduced.violation is None) == expected


@pytest.mark.parametrize("name", ["fifo", "unordered", "buffer", "buffer-fifo"])
def test_reduced_and_full_search_agree_on_two_messages_each(name: str) -> None:
    reduced, _ = verdicts(lambda reduce: Bound(protocol=name, reduce=reduce))
    assert (reduced.violation is None) == (name not in ("fifo", "unordered"))


@pytest.mark.parametrize("name", ["hybrid", "buffer", "fifo"])
def test_reduced_and_full_search_agree_under_faults(name: str) -> None:
    verdicts(
        lambda reduce: Bound(
            protocol=name, processes=2, messages=1, losses=1, duplicates=1, reduce=reduce
        )
    )


@pytest.mark.parametrize("name", ["matrix", "optimal", "tree", "fifo", "unordered"])
def test_reduced_and_full_search_agree_on_multicast(name: str) -> None:
    reduced, _ = verdicts(
        lambda reduce: Bound(protocol=name, messages=1, multicast=True, reduce=reduce)
    )
    assert (reduced.violation is None) == (name not in ("fifo", "unordered"))


@pytest.mark.parametrize(
    "make",
    [
        SECRET_MODE,
        cykas(Change.NO_SECRET_MODE),
        cykas(Change.TELL_AT_OWN_ACK),
        cykas(Change.PIPELINE),
        LISTINGS["Algorithm 1 as printed"],
        LISTINGS["Algorithm 2 as printed"],
    ],
)
def test_reduced_and_full_search_agree_on_broken_variants(make: Make) -> None:
    reduced, _ = verdicts(lambda reduce: Bound(protocol="variant", reduce=reduce), make)
    assert reduced.violation is not None


def test_error_in_an_inspection_is_raised() -> None:
    def complain(process: Process) -> None:
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        check(Bound(protocol="buffer"), inspect=complain)
