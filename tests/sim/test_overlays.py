"""Overlays by name: their links, and invalid parameters."""

from dataclasses import replace
from math import log

import pytest

from antecede.core.config import LINGER_S, ProcessConfig
from antecede.core.overlay.graphs import is_connected, reversed_links
from antecede.errors import ConfigError
from antecede.sim import Scenario, simulate
from antecede.sim.overlays import (
    make_overlay,
    overlay_parameters,
    promises_order,
    random_views,
)
from antecede.trace.event import Kind


def overlay(text: str, processes: int = 50, seed: int = 3) -> ProcessConfig:
    return make_overlay(text, ProcessConfig(reliable=True), processes=processes, seed=seed)


def test_an_empty_text_changes_nothing() -> None:
    assert overlay("") == ProcessConfig(reliable=True)


@pytest.mark.parametrize(
    ("text", "links_each"), [("ring", 2), ("full", 49), ("random:degree=4", 4)]
)
def test_fixed_overlays_are_connected_and_lead_both_ways(
    text: str, links_each: int
) -> None:
    links = overlay(text).links
    assert links is not None
    assert is_connected(links)
    assert [sorted(row) for row in links] == [sorted(row) for row in reversed_links(links)]
    assert min(len(row) for row in links) >= links_each
    assert overlay(text).exchange_s == 0


def test_a_small_group_gets_as_many_links_as_there_can_be() -> None:
    links = overlay("random:degree=5", processes=3).links
    assert links is not None
    assert [sorted(row) for row in links] == [[1, 2], [0, 2], [0, 1]]


def test_spray_has_views_of_logarithmic_size_and_its_parameters() -> None:
    config = overlay(
        "spray:exchange_s=6,until_s=60,linger_s=2,ping_timeout_s=3,more=1.5", 1000
    )
    assert config.links is not None
    size = sum(len(view) for view in config.links) / 1000
    assert size == pytest.approx(log(1000) + 1.5, abs=0.001)
    assert (config.exchange_s, config.exchange_until_s) == (6, 60)
    assert (config.linger_s, config.ping_timeout_s) == (2, 3)
    usual = overlay("spray")
    assert (usual.exchange_s, usual.linger_s) == (60, LINGER_S)
    assert usual.ping_timeout_s == ProcessConfig().ping_timeout_s


def test_views_are_connected_without_duplicates_and_depend_on_the_seed() -> None:
    views = random_views(200, 1, 3.0)
    both_ways = [row + back for row, back in zip(views, reversed_links(views), strict=True)]
    assert is_connected(both_ways)
    assert all(len(set(view)) == len(view) for view in views)
    assert all(process not in view for process, view in enumerate(views))
    assert views == random_views(200, 1, 3.0) != random_views(200, 2, 3.0)
    with pytest.raises(ConfigError, match="too few for views"):
        random_views(3, 1, 2.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mesh", "unknown overlay 'mesh'"),
        ("ring:degree=3", "overlay ring has no parameter 'degree'; it has: none"),
        ("random:links=3", "it has: degree"),
        ("random:degree=many", "invalid value 'many' for degree of overlay random"),
        ("spray:exchange_s=0", "invalid value '0' for exchange_s of overlay spray"),
        ("spray:until_s=inf", "invalid value 'inf' for until_s of overlay spray"),
    ],
)
def test_an_invalid_overlay_is_refused_in_one_line(text: str, words: str) -> None:
    for refuse in (overlay, overlay_parameters):
        with pytest.raises(ConfigError) as raised:
            refuse(text)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def test_only_protocols_that_use_links_get_them() -> None:
    scenario = Scenario(protocol="vector", overlay="ring")
    assert scenario.make_config().links is None
    assert Scenario(protocol="flood", overlay="ring").make_config().links is not None


@pytest.mark.parametrize(
    ("name", "text", "promises"),
    [
        ("flood", "ring", True),
        ("flood", "", True),
        ("flood", "spray:exchange_s=10,until_s=60", False),
        ("pc-broadcast", "spray", True),
        ("hybrid", "spray", True),  # It uses no links.
        ("unordered", "", False),
    ],
)
def test_flooding_guarantees_no_order_on_links_that_change(
    name: str, text: str, promises: bool
) -> None:
    assert promises_order(name, text) is promises


def test_messages_travel_along_the_links() -> None:
    """On a ring of nine, the farthest is four hops away; without an overlay, one hop."""
    direct = Scenario(
        protocol="flood",
        processes=9,
        messages=1,
        workload="broadcast:senders=1",
        delay="1",
        gap="0",
        reliable=True,
    )
    last: list[float] = []
    for scenario in (direct, replace(direct, overlay="ring")):
        run = simulate(scenario)
        assert run.verdict.held
        last.append(max(e.time for e in run.history if e.kind is Kind.DELIVER))
    assert last == [1.0, 4.0]
