"""Studies: the keys of a file, and the cells that it expands to."""

from math import inf
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import ConfigError
from antecede.pipeline.study.simulate import group_cells
from antecede.pipeline.study.study import built_in_studies, load_study, parse_study
from antecede.sim.simulate import Scenario

FULL: dict[str, Any] = {
    "name": "full",
    "protocols": ["hybrid", "vector"],
    "processes": [3, 5],
    "seeds": 2,
    "messages": 4,
    "workloads": {
        "one": {"workload": "uniform", "gap": 0.01},
        "all": {"workload": "broadcast"},
    },
    "networks": {"lan": {"delay": "0.001"}, "wan": {"delay": "0.05", "loss": 0.1}},
}


def test_cells_are_all_supported_combinations() -> None:
    study = parse_study(FULL)
    combinations = {
        (c.scenario.protocol, c.workload, c.network, c.scenario.processes, c.scenario.seed)
        for c in study.cells
    }
    wanted = {
        (protocol, workload, network, size, seed)
        for protocol in ("hybrid", "vector")
        for workload in ("one", "all")
        for network in ("lan", "wan")
        for size in (3, 5)
        for seed in (0, 1)
        if (protocol, workload) != ("vector", "one")
    }
    assert combinations == wanted
    assert len(study.cells) == len(wanted)
    assert len(study.skipped) == 2
    assert all("vector has no unicast" in note for note in study.skipped)


def test_the_values_of_the_file_are_in_the_scenario() -> None:
    for cell in parse_study(FULL).cells:
        assert cell.scenario.gap == (
            "0.01" if cell.workload == "one" else "exponential:0.05"
        )
        assert cell.scenario.delay == ("0.001" if cell.network == "lan" else "0.05")
        assert cell.scenario.loss == (0.1 if cell.network == "wan" else 0.0)
        assert cell.scenario.messages == 4


def test_ids_are_stable_and_depend_on_the_scenario() -> None:
    first, again = parse_study(FULL), parse_study(FULL)
    assert [c.id for c in first.cells] == [c.id for c in again.cells]
    assert len({c.id for c in first.cells}) == len(first.cells)
    changed = parse_study(
        {**FULL, "networks": {**FULL["networks"], "wan": {"delay": "0.06"}}}
    )
    kept = {c.id for c in first.cells} & {c.id for c in changed.cells}
    assert kept == {c.id for c in first.cells if c.network == "lan"}


def test_renaming_a_network_changes_no_id() -> None:
    renamed = parse_study({**FULL, "networks": {"a": {"delay": "0.001"}}})
    lan = {c.id for c in parse_study(FULL).cells if c.network == "lan"}
    assert {c.id for c in renamed.cells} == lan


def test_groups_differ_in_the_seed_only_and_comparables_in_the_protocol_only() -> None:
    cells = parse_study({**FULL, "protocols": ["hybrid", "matrix"]}).cells
    for one in cells:
        for other in cells:
            same = [
                one.scenario.protocol == other.scenario.protocol,
                one.scenario.seed == other.scenario.seed,
                (one.workload, one.network) == (other.workload, other.network),
                one.scenario.processes == other.scenario.processes,
            ]
            assert (one.group == other.group) == (same[0] and same[2] and same[3])
            assert (one.comparable == other.comparable) == all(same[1:])


def test_a_budget_makes_variants_for_bounded_only() -> None:
    network = {"loss": [0.0, 0.1], "budget_bytes": [0, 8]}
    table = {**FULL, "protocols": ["bounded", "hybrid"], "networks": {"lan": network}}
    cells = parse_study({**table, "workloads": {"one": {}}}).cells
    found = {(c.scenario.protocol, c.network, c.scenario.budget_bytes) for c in cells}
    default = Scenario().budget_bytes
    assert found == {
        ("bounded", "lan loss=0.0 budget_bytes=0", 0),
        ("bounded", "lan loss=0.0 budget_bytes=8", 8),
        ("bounded", "lan loss=0.1 budget_bytes=0", 0),
        ("bounded", "lan loss=0.1 budget_bytes=8", 8),
        ("hybrid", "lan loss=0.0", default),
        ("hybrid", "lan loss=0.1", default),
    }
    assert len(cells) == len({c.group for c in cells}) * 2 == 6 * 2 * 2
    # Two sizes, two losses, two seeds; each with both budgets and the other protocol.
    assert len({c.comparable for c in cells}) == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name"),
        ({"name": 3}, "name must be a str"),
        ({"protocols": []}, "protocols must have"),
        ({"protocols": ["hybird"]}, "unknown protocol 'hybird'"),
        ({"protocols": ["hybrid", 3]}, r"protocols[1] must be a str"),
        ({"processes": [0]}, "processes[0] must be an integer of at least 2"),
        ({"processes": []}, "processes must have"),
        ({"processes": 3}, "processes must be a list"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [-1]}, "seeds[0]"),
        ({"messages": 0}, "messages must be at least 1"),
        ({"mesages": 3}, "unknown key 'mesages'"),
        ({"memory_gib": "all"}, "memory_gib must be a float"),
        ({"grids": []}, "grids must be a list of tables"),
        ({"grids": {"one": {}}}, "grids must be a list of tables"),
        ({"grids": [3]}, "grids[0] must be a table"),
        ({"grids": [{}]}, "grids[0].name must be a non-empty string"),
        (
            {"grids": [{"name": "a"}, {"name": "a"}]},
            "grids[1].name: 'a' is the name of an earlier grid",
        ),
        ({"grids": [{"name": "a", "size": 3}]}, "unknown key 'grids[0].size'"),
        (
            {"grids": [{"name": "a", "processes": [1]}]},
            "grid a: processes[0] must be an integer",
        ),
        ({"profiles": 3}, "profiles must be a table of tables"),
        ({"profiles": {"small": {"name": "x"}}}, "unknown key 'profiles.small.name'"),
        ({"profiles": {"small": {"grids": {"a": 3}}}}, "a must be a table"),
        ({"networks": ["lan"]}, "networks: unknown name 'lan'"),
        ({"networks": {"x": {"overlay": "mesh"}}}, "unknown overlay 'mesh'"),
        ({"workloads": {"x": {"probe": "all"}}}, "'all' is not a valid probe"),
        ({"protocols": ["hybrid", "hybrid"]}, "the same run"),
        ({"workloads": {"one": {"speed": 3}}}, "unknown key workloads.one.speed"),
        ({"workloads": {"one": 3}}, "workloads.one must be a table"),
        ({"workloads": {}}, "workloads must be a non-empty table"),
        ({"networks": {"x": {"loss": "much"}}}, "networks.x.loss must be a float"),
        ({"networks": {"x": {"loss": 2}}}, "networks.x: loss must be"),
        ({"networks": {"x": {"reliable": 1}}}, "networks.x.reliable must be a bool"),
        ({"networks": {"x": {"silent_members": -1}}}, "silent_members must be at least 0"),
        ({"networks": {"x": {"delay": "-1"}}}, "networks.x"),
        ({"protocols": ["vector"], "workloads": {"one": {}}}, "vector supports none"),
    ],
)
def test_an_error_names_the_key_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_study({**FULL, **change})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


GRIDS: dict[str, Any] = {
    **FULL,
    "protocols": ["hybrid"],
    "workloads": {"one": {"gap": ["0.01", "0.1"], "service_time": [1, 2]}},
    "grids": [
        {"name": "small", "seeds": [7]},
        {"name": "large", "processes": [50], "networks": ["wan"], "protocols": ["matrix"]},
        {"name": "own", "networks": {"here": {"loss": [0.0, 0.5]}}},
    ],
    "profiles": {
        "tiny": {
            "messages": 2,
            "seeds": 1,
            "grids": {"large": {"processes": [9]}, "own": {"skip": True}},
        },
        "none": {"grids": {name: {"skip": True} for name in ("small", "large", "own")}},
        "lost": {"grids": {"lage": {}}},
    },
}


def test_keys_of_a_grid_override_those_of_the_file() -> None:
    study = parse_study(GRIDS)
    found = {
        (c.grid, c.scenario.protocol, c.network, c.scenario.processes, c.scenario.seed)
        for c in study.cells
    }
    wanted = {
        ("small", "hybrid", net, size, 7) for net in ("lan", "wan") for size in (3, 5)
    }
    wanted |= {("large", "matrix", "wan", 50, seed) for seed in (0, 1)}
    wanted |= {
        ("own", "hybrid", f"here loss={loss}", size, seed)
        for loss in ("0.0", "0.5")
        for size in (3, 5)
        for seed in (0, 1)
    }
    assert found == wanted
    assert {c.scenario.loss for c in study.cells if c.grid == "own"} == {0.0, 0.5}


def test_a_list_of_values_makes_a_variant_for_each() -> None:
    variants = {
        (c.workload, c.scenario.gap, c.scenario.service_time)
        for c in parse_study(GRIDS).cells
    }
    assert variants == {
        (f"one gap={gap} service_time={job}", gap, str(job))
        for gap in ("0.01", "0.1")
        for job in (1, 2)
    }


def test_a_grid_is_in_the_group_the_comparable_and_the_id() -> None:
    twice = {**FULL, "grids": [{"name": "a"}, {"name": "b"}]}
    cells = parse_study(twice).cells
    for name in ("id", "group", "comparable"):
        a, b = ({getattr(c, name) for c in cells if c.grid == grid} for grid in "ab")
        assert not a & b
    assert len({c.id for c in cells}) == len(cells)


def test_a_profile_overrides_keys_of_the_file_and_of_grids() -> None:
    study = parse_study(GRIDS, "tiny")
    assert study.profile == "tiny"
    assert {c.scenario.messages for c in study.cells} == {2}
    found = {(c.grid, c.scenario.processes, c.scenario.seed) for c in study.cells}
    # The grid's own seeds override the profile's.
    assert found == {("small", 3, 7), ("small", 5, 7), ("large", 9, 0)}


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("tny", "unknown profile 'tny'; known profiles: tiny, none, lost"),
        ("none", "skips every grid"),
        ("lost", "profiles.lost.grids.lage: unknown grid"),
    ],
)
def test_an_invalid_profile_is_refused(profile: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_study(GRIDS, profile)


def test_cells_that_need_too_much_memory_are_listed_and_not_run() -> None:
    table = {**FULL, "protocols": ["matrix", "hybrid"], "processes": [4, 10_000]}
    study = parse_study({**table, "workloads": {"one": {"workload": "pipeline"}}})
    assert {(c.scenario.protocol, c.scenario.processes) for c in study.too_large} == {
        ("matrix", 10_000)
    }
    assert len(study.cells) == 3 * len(study.too_large)
    assert all("needs about" in cell.too_large for cell in study.too_large)
    assert not {c.id for c in study.cells} & {c.id for c in study.too_large}
    roomy = parse_study({**table, "workloads": {"one": {}}, "memory_gib": 1000})
    assert not roomy.too_large


@pytest.mark.parametrize("name", built_in_studies())
def test_built_in_studies_can_be_run_whole_and_reduced(name: str) -> None:
    whole = load_study(name)
    assert whole.name == name
    assert whole.title == built_in_studies()[name]
    assert all("set --recordings DIR" in note for note in whole.skipped)
    for cell in whole.cells:
        assert cell.scenario.command().startswith("antecede simulate")
    if name == "quick":
        assert sum(cell.estimate.copies for cell in whole.cells) < 700_000
        return
    reduced = load_study(name, "reduced")
    assert reduced.profile == "reduced"
    assert sum(c.weight for c in reduced.cells) < sum(c.weight for c in whole.cells) / 3


def test_the_studies_of_papers_have_the_parameters_of_the_papers() -> None:
    fig4 = load_study("cykas-fig4").cells
    assert {c.scenario.processes for c in fig4} == {25, 50, 100, 200, 500}
    assert {c.scenario.bandwidth for c in fig4} == {2e4, 1e5, 1e6, 1e7}
    assert {(c.scenario.delay, c.scenario.messages) for c in fig4} == {("0.005", 100)}
    fig5 = load_study("cykas-fig5").cells
    assert {c.scenario.service_time for c in fig5} == {
        "0.0005",
        "0.005",
        "0.0125",
        "0.025",
        "0.05",
    }
    assert {c.scenario.gap for c in fig5} == {"0.001", "0.01", "0.1", "1"}
    assert {c.scenario.service_share for c in fig5} == {0.1}
    fig6 = load_study("cykas-fig6").cells
    assert {c.scenario.service_share for c in fig6} == {0.0, 0.1}
    for cell in fig5 + fig6:
        assert (cell.scenario.processes, cell.scenario.bandwidth) == (100, 50_000)
    fig7 = load_study("pc-fig7").cells
    assert {c.scenario.processes for c in fig7 if "fig7" in c.grid} == {1000, 10_000}
    assert {"0.1", "1", "5"} <= {c.scenario.delay for c in fig7}
    assert {c.scenario.reliable for c in fig4 + fig5 + fig6 + fig7} == {True}
    large = load_study("microservices")
    assert {c.scenario.processes for c in large.cells} == {10, 100, 1000, 10_000}
    assert {c.scenario.loss for c in large.cells} == {0.0, 0.01, 0.05}
    assert {c.scenario.protocol for c in large.too_large} == {"matrix"}


def test_the_study_of_the_budget_has_the_sizes_losses_and_budgets_of_its_page() -> None:
    study = load_study("budget")
    assert {c.scenario.processes for c in study.cells} == {10, 40, 100, 1000, 10_000}
    assert {c.scenario.loss for c in study.cells} == {0.0, 0.01, 0.05}
    own = [c.scenario for c in study.cells if c.scenario.protocol == "bounded"]
    assert {s.budget_bytes for s in own} == {0, 8, 16, 32, 64, 128, inf}
    assert {s.silent_members for s in own} == {0, 1}
    peers = {c.scenario.protocol for c in study.cells} - {"bounded"}
    assert peers == {"hybrid", "optimal", "matrix", "vector"}
    (note,) = study.skipped
    assert note.count(".log") + note.count(".csv.gz") == 6


def test_every_grid_of_quick_is_one_of_another_study() -> None:
    others = {
        cell.grid
        for name in built_in_studies()
        if name != "quick"
        for cell in (*load_study(name).cells, *load_study(name).too_large)
    }
    quick = load_study("quick")
    assert {cell.grid for cell in (*quick.cells, *quick.too_large)} <= others


def test_an_unknown_study_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown study 'quik': use one of .*quick"):
        load_study("quik")


def test_a_missing_key_is_named() -> None:
    for key in ("name", "protocols", "processes"):
        with pytest.raises(ConfigError, match=key):
            parse_study({k: v for k, v in FULL.items() if k != key})


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_study(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_study(tmp_path / "bad.toml")
    (tmp_path / "wrong.toml").write_text('name = "x"')
    with pytest.raises(ConfigError, match=r"wrong.toml: protocols is missing"):
        load_study(tmp_path / "wrong.toml")


def test_groups_have_about_equal_weights_the_heaviest_first() -> None:
    cells = parse_study({**FULL, "processes": [3, 5, 9, 30], "seeds": 5}).cells
    groups = group_cells(cells, 8)
    assert sorted(c.id for group in groups for c in group) == sorted(c.id for c in cells)
    loads = [sum(cell.weight for cell in group) for group in groups]
    assert loads == sorted(loads, reverse=True)
    assert max(loads) - min(loads) <= max(cell.weight for cell in cells)
    assert len(group_cells(cells[:3], 8)) == 3
