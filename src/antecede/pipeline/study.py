"""A study: protocols times workloads times networks times sizes times seeds.

It is a TOML file::

    name = "lan-or-wan"
    protocols = ["hybrid", "cykas", "matrix"]
    sizes = [10, 100]        # processes
    seeds = 5                # or a list of them
    messages = 100           # of each process

    [workloads.steady]
    workload = "uniform"     # as for `antecede simulate`; also gap, size, job, job_share
    gap = "exponential:0.02"

    [networks.wan]
    delay = "lognormal:0.05,0.5"   # also bandwidth, loss, duplicate, reorder, reliable
    loss = 0.01

Every combination is a *cell*, one run, with an id that depends on what is run and on
nothing else. A combination that a protocol cannot serve is left out.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.sim.runner import check_able
from antecede.sim.simulate import Scenario

__all__ = ["Cell", "Study", "load_study", "parse_study"]

T = TypeVar("T")

WORKLOAD_KEYS = {"workload": str, "gap": str, "size": str, "job": str, "job_share": float}
NETWORK_KEYS = {
    "delay": str,
    "bandwidth": float,
    "loss": float,
    "duplicate": float,
    "reorder": float,
    "reliable": bool,
}
TOP_KEYS = ("name", "protocols", "sizes", "seeds", "messages", "until_s")
ID_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    id: str
    workload: str
    """Its name in the study."""
    network: str
    """Its name in the study."""
    scenario: Scenario

    @property
    def group(self) -> str:
        """Everything but the seed."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        return f"{scenario.protocol} {self.workload} {self.network} {size}"

    @property
    def comparable(self) -> str:
        """Everything but the protocol: the same work on the same network."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        return f"{self.workload} {self.network} {size} {scenario.seed}"

    @property
    def weight(self) -> float:
        """How much work it is, roughly: copies of messages times what each costs."""
        scenario = self.scenario
        copies = float(scenario.processes * scenario.messages)
        if scenario.workload.startswith("broadcast"):
            copies *= scenario.processes
        if scenario.protocol == "matrix":
            copies *= 1 + scenario.processes**2 / 3000
        return copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All cells of a study."""

    name: str
    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]
    """Combinations that a protocol cannot serve, each with the reason."""


def load_study(path: Path) -> Study:
    """Read a study from its file, or raise ConfigError, which names the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    try:
        return parse_study(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_study(table: Mapping[str, object]) -> Study:
    """Make a study from what the file says, or raise ConfigError, which names the key."""
    for key in table:
        if key not in (*TOP_KEYS, "workloads", "networks"):
            raise ConfigError(f"unknown key {key!r}")
    name = _checked(table, "name", str, None)
    if not name:
        raise ConfigError("name must not be empty")
    protocols = _strings(table, "protocols")
    sizes = _numbers(table, "sizes", least=2)
    seeds = _seeds(table)
    base = Scenario(messages=_checked(table, "messages", int, 20))
    if base.messages < 1:
        raise ConfigError(f"messages must be at least 1, got {base.messages}")
    if "until_s" in table:
        base = replace(base, until_s=_checked(table, "until_s", float, None))
    workloads = _variants(table, "workloads", WORKLOAD_KEYS, base)
    networks = _variants(table, "networks", NETWORK_KEYS, base)
    cells: list[Cell] = []
    left_out: list[str] = []
    for which in protocols:
        protocol(which)  # Raises if there is none of that name.
        before = len(cells)
        for workload, work in workloads.items():
            for size in sizes:
                trial = replace(work, protocol=which, processes=size)
                try:
                    check_able(protocol(which), trial.make_workload(), None)
                except ConfigError as error:
                    left_out.append(f"{which} on {workload}, {size} processes: {error}")
                    continue
                for network, changes in networks.items():
                    for seed in seeds:
                        scenario = replace(trial, seed=seed, **_differences(changes))
                        scenario.make_network()  # Raises if a value is out of range.
                        cells.append(_cell(scenario, workload, network))
        if len(cells) == before:
            raise ConfigError(f"protocols: {which} can serve none of the workloads")
    return Study(name=name, cells=tuple(cells), left_out=tuple(left_out))


def _cell(scenario: Scenario, workload: str, network: str) -> Cell:
    text = json.dumps(asdict(scenario), sort_keys=True)
    digest = blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()
    return Cell(
        id=f"{scenario.protocol}-{scenario.processes}-{digest}",
        workload=workload,
        network=network,
        scenario=scenario,
    )


def _differences(scenario: Scenario) -> dict[str, Any]:
    return {key: getattr(scenario, key) for key in NETWORK_KEYS}


def _variants(
    table: Mapping[str, object],
    key: str,
    known: Mapping[str, type],
    base: Scenario,
) -> dict[str, Scenario]:
    """Read the named variants of workloads or networks."""
    found = table.get(key, {"default": {}})
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{key} must be a table of at least one, such as [{key}.one]")
    variants: dict[str, Scenario] = {}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise ConfigError(f"{key}.{name} must be a table")
        changes: dict[str, Any] = {}
        for field, value in values.items():
            if field not in known:
                raise ConfigError(
                    f"unknown key {key}.{name}.{field}; there are: {', '.join(known)}"
                )
            if known[field] is str and isinstance(value, int | float):
                value = str(value)
            changes[field] = _of_type(f"{key}.{name}.{field}", value, known[field])
        try:
            variants[name] = replace(base, **changes)
            variants[name].make_network()
        except ConfigError as error:
            raise ConfigError(f"{key}.{name}: {error}") from error
    return variants


def _of_type(key: str, value: object, kind: type) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ConfigError(f"{key} must be a {kind.__name__}, got {value!r}")
    return value


def _checked(table: Mapping[str, object], key: str, kind: type[T], default: T | None) -> T:
    if key not in table:
        if default is None:
            raise ConfigError(f"{key} is missing")
        return default
    value = _of_type(key, table[key], kind)
    assert isinstance(value, kind)
    return value


def _strings(table: Mapping[str, object], key: str) -> list[str]:
    found = _checked(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must name at least one")
    return [str(_of_type(f"{key}[{i}]", each, str)) for i, each in enumerate(found)]


def _numbers(table: Mapping[str, object], key: str, *, least: int) -> list[int]:
    found = _checked(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must have at least one number")
    numbers: list[int] = []
    for i, each in enumerate(found):
        if not isinstance(each, int) or isinstance(each, bool) or each < least:
            raise ConfigError(f"{key}[{i}] must be a number of at least {least}: {each!r}")
        numbers.append(each)
    return numbers


def _seeds(table: Mapping[str, object]) -> list[int]:
    found = table.get("seeds", 1)
    if isinstance(found, list):
        return _numbers(table, "seeds", least=0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ConfigError(f"seeds must be a number of at least 1, or a list: {found!r}")
    return list(range(found))
