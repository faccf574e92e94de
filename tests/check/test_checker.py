"""Bounds, and that the search with and without symmetry gives the same verdict."""

from collections.abc import Callable

import pytest

from antecede.check import CheckConfig, CheckResult, check
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
        CheckConfig(protocol="hybrid", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (CheckConfig(protocol="cykas", multicast=True), "no multicast"),
        (CheckConfig(protocol="newtop"), "needs timers"),
        (CheckConfig(protocol="nothing"), "unknown protocol"),
        (CheckConfig(protocol="hybrid", processes=5, messages=3), "too many"),
    ],
)
def test_unsupported_configuration_is_refused(config: CheckConfig, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(config)


def test_bound_on_states_is_kept_and_reported() -> None:
    checked = check(CheckConfig(protocol="buffer", states_max=50))
    assert not checked.exhausted
    assert checked.violation is None


def test_bound_on_memory_is_kept_and_reported() -> None:
    assert not check(CheckConfig(protocol="buffer", memory_max_gib=0.001)).exhausted


def test_progress_is_reported() -> None:
    seen: list[int] = []
    checked = check(
        CheckConfig(protocol="buffer", messages=1),
        on_progress=lambda result, table: seen.append(result.states),
    )
    assert seen == sorted(seen)
    assert seen[-1] == checked.states


def verdicts(
    config: Callable[[bool], CheckConfig],
    make: Make | None = None,
    fifo: bool | None = None,
) -> tuple[CheckResult, CheckResult]:
    """Search with and without symmetry, and compare."""
    reduced = check(config(True), make=make, fifo=fifo)
    full = check(config(False), make=make, fifo=fifo)
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


@pytest.mark.long
@pytest.mark.parametrize("info", CHECKED, ids=lambda info: info.name)
@pytest.mark.parametrize(("processes", "messages"), [(3, 1), (2, 2)])
def test_reduced_and_full_search_agree(
    info: ProtocolInfo, processes: int, messages: int
) -> None:
    reduced, _ = verdicts(
        lambda symmetry: CheckConfig(
            protocol=info.name, processes=processes, messages=messages, symmetry=symmetry
        )
    )
    expected = info.capabilities.causal or (processes == 2 and info.name == "fifo")
    if (processes, messages) == (3, 1) and not info.capabilities.causal:
        expected = True  # No process sends twice, so no message can be overtaken.
    assert (reduced.violation is None) == expected


@pytest.mark.long
@pytest.mark.parametrize("name", ["fifo", "unordered", "buffer", "buffer-fifo"])
def test_reduced_and_full_search_agree_on_two_messages_each(name: str) -> None:
    reduced, _ = verdicts(lambda symmetry: CheckConfig(protocol=name, symmetry=symmetry))
    assert (reduced.violation is None) == (name not in ("fifo", "unordered"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "buffer", "fifo"])
def test_reduced_and_full_search_agree_under_faults(name: str) -> None:
    verdicts(
        lambda symmetry: CheckConfig(
            protocol=name,
            processes=2,
            messages=1,
            losses=1,
            duplicates=1,
            symmetry=symmetry,
        )
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["matrix", "optimal", "tree", "fifo", "unordered"])
def test_reduced_and_full_search_agree_on_multicast(name: str) -> None:
    reduced, _ = verdicts(
        lambda symmetry: CheckConfig(
            protocol=name, messages=1, multicast=True, symmetry=symmetry
        )
    )
    assert (reduced.violation is None) == (name not in ("fifo", "unordered"))


@pytest.mark.long
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
    reduced, _ = verdicts(
        lambda symmetry: CheckConfig(protocol="variant", symmetry=symmetry), make
    )
    assert reduced.violation is not None


def test_error_in_an_inspection_is_raised() -> None:
    def complain(process: Process) -> None:
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        check(CheckConfig(protocol="buffer"), inspect=complain)
