"""Studies: what a file may say, and the cells that it expands to."""

from pathlib import Path
from typing import Any

import pytest

from antecede.errors import ConfigError
from antecede.pipeline.simulate_cells import pack
from antecede.pipeline.study import load_study, parse_study

FULL: dict[str, Any] = {
    "name": "full",
    "protocols": ["hybrid", "vector"],
    "sizes": [3, 5],
    "seeds": 2,
    "messages": 4,
    "workloads": {
        "one": {"workload": "uniform", "gap": 0.01},
        "all": {"workload": "broadcast"},
    },
    "networks": {"lan": {"delay": "0.001"}, "wan": {"delay": "0.05", "loss": 0.1}},
}


def test_cells_are_all_combinations_that_can_be_served() -> None:
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
    assert len(study.left_out) == 2
    assert all("vector has no unicast" in note for note in study.left_out)


def test_the_words_of_the_file_reach_the_scenario() -> None:
    for cell in parse_study(FULL).cells:
        assert cell.scenario.gap == (
            "0.01" if cell.workload == "one" else "exponential:0.05"
        )
        assert cell.scenario.delay == ("0.001" if cell.network == "lan" else "0.05")
        assert cell.scenario.loss == (0.1 if cell.network == "wan" else 0.0)
        assert cell.scenario.messages == 4


def test_ids_are_stable_and_say_what_is_run() -> None:
    first, again = parse_study(FULL), parse_study(FULL)
    assert [c.id for c in first.cells] == [c.id for c in again.cells]
    assert len({c.id for c in first.cells}) == len(first.cells)
    changed = parse_study(
        {**FULL, "networks": {**FULL["networks"], "wan": {"delay": "0.06"}}}
    )
    kept = {c.id for c in first.cells} & {c.id for c in changed.cells}
    assert kept == {c.id for c in first.cells if c.network == "lan"}


def test_a_new_name_of_a_network_changes_no_id() -> None:
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name"),
        ({"name": 3}, "name must be a str"),
        ({"protocols": []}, "protocols must name"),
        ({"protocols": ["hybird"]}, "unknown protocol 'hybird'"),
        ({"protocols": ["hybrid", 3]}, r"protocols[1] must be a str"),
        ({"sizes": [0]}, "sizes[0] must be a number of at least 2"),
        ({"sizes": []}, "sizes must have"),
        ({"sizes": 3}, "sizes must be a list"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [-1]}, "seeds[0]"),
        ({"messages": 0}, "messages must be at least 1"),
        ({"mesages": 3}, "unknown key 'mesages'"),
        ({"workloads": {"one": {"speed": 3}}}, "unknown key workloads.one.speed"),
        ({"workloads": {"one": 3}}, "workloads.one must be a table"),
        ({"workloads": {}}, "workloads must be a table"),
        ({"networks": {"x": {"loss": "much"}}}, "networks.x.loss must be a float"),
        ({"networks": {"x": {"loss": 2}}}, "networks.x: loss must be"),
        ({"networks": {"x": {"reliable": 1}}}, "networks.x.reliable must be a bool"),
        ({"networks": {"x": {"delay": "-1"}}}, "networks.x"),
        ({"protocols": ["vector"], "workloads": {"one": {}}}, "vector can serve none"),
    ],
)
def test_an_error_names_the_key_in_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_study({**FULL, **change})
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_missing_is_named() -> None:
    for key in ("name", "protocols", "sizes"):
        with pytest.raises(ConfigError, match=key):
            parse_study({k: v for k, v in FULL.items() if k != key})


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_study(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_study(tmp_path / "bad.toml")
    (tmp_path / "wrong.toml").write_text('name = "x"')
    with pytest.raises(ConfigError, match=r"wrong.toml: protocols is missing"):
        load_study(tmp_path / "wrong.toml")


def test_tasks_get_equal_shares_the_heaviest_first() -> None:
    cells = parse_study({**FULL, "sizes": [3, 5, 9, 30], "seeds": 5}).cells
    groups = pack(cells, 8)
    assert sorted(c.id for group in groups for c in group) == sorted(c.id for c in cells)
    loads = [sum(cell.weight for cell in group) for group in groups]
    assert loads == sorted(loads, reverse=True)
    assert max(loads) - min(loads) <= max(cell.weight for cell in cells)
    assert len(pack(cells[:3], 8)) == 3
