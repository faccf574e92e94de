"""The keys of a study's file: layers that override each other, and variants.

A grid's keys come from four layers: the file's top level, the profile, the grid, and the
profile's entry for the grid; a later layer overrides an earlier one. :func:`merge_layers`
merges them, :func:`read_variants` reads named workloads and networks.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from antecede.errors import ConfigError
from antecede.sim.simulate import Scenario

__all__ = [
    "GRID_KEYS",
    "NETWORK_KEYS",
    "WORKLOAD_KEYS",
    "Grid",
    "read_value",
    "read_counts",
    "merge_layers",
    "read_seeds",
    "read_strings",
    "read_variants",
    "without_budget",
]

T = TypeVar("T")
Grid = dict[str, object]

WORKLOAD_KEYS = {
    "workload": str,
    "gap": str,
    "payload_bytes": str,
    "service_time": str,
    "service_share": float,
    "probe": str,
}
NETWORK_KEYS = {
    "delay": str,
    "bandwidth": float,
    "loss": float,
    "duplicate": float,
    "reorder": float,
    "reliable": bool,
    "first_timeout_s": float,
    "budget_bytes": float,
    "overlay": str,
    "silent_members": int,
    "silent_from_s": float,
}
GRID_KEYS = (
    "protocols",
    "processes",
    "seeds",
    "messages",
    "until_s",
    "memory_gib",
    "workloads",
    "networks",
)
"""Keys that the file, a grid or a profile may set."""
TOP_KEYS = ("name", "title", "grids", "profiles", *GRID_KEYS)


def merge_layers(table: Mapping[str, object], profile: str | None) -> dict[str, Grid]:
    """Return the keys of every grid, by its name; a file without grids has one, named "".

    Raises:
        ConfigError: A key is unknown, or a value has the wrong type.
    """
    _check_keys(table, TOP_KEYS, "")
    changes = _profile(table, profile)
    by_grid = _tables(changes.get("grids", {}), "grids of a profile")
    grids = _named_grids(table)
    for name in by_grid:
        if name not in grids:
            raise ConfigError(f"profiles.{profile}.grids.{name}: unknown grid {name!r}")
    found: dict[str, Grid] = {}
    for name, grid in grids.items():
        own = by_grid.get(name, {})
        if own.get("skip") is True:
            continue
        layers = (table, changes, grid, own)
        keys: Grid = {}
        for layer in layers:
            keys |= {key: layer[key] for key in GRID_KEYS if key in layer}
        for key in ("workloads", "networks"):
            keys[key] = _select(key, keys.get(key), [layer.get(key) for layer in layers])
        found[name] = keys
    if not found:
        raise ConfigError(f"profiles.{profile} skips every grid")
    return found


def _profile(table: Mapping[str, object], profile: str | None) -> dict[str, object]:
    known = _tables(table.get("profiles", {}), "profiles")
    for name, values in known.items():
        _check_keys(values, ("grids", *GRID_KEYS), f"profiles.{name}.")
        for grid, own in _tables(values.get("grids", {}), f"profiles.{name}.grids").items():
            _check_keys(own, ("skip", *GRID_KEYS), f"profiles.{name}.grids.{grid}.")
    if profile is None:
        return {}
    if profile not in known:
        names = ", ".join(known) or "none"
        raise ConfigError(f"unknown profile {profile!r}; known profiles: {names}")
    return dict(known[profile])


def _named_grids(table: Mapping[str, object]) -> dict[str, Grid]:
    if "grids" not in table:
        return {"": {}}
    listed = table["grids"]
    if not isinstance(listed, list) or not listed:
        raise ConfigError("grids must be a list of tables, such as [[grids]]")
    grids: dict[str, Grid] = {}
    for i, grid in enumerate(listed):
        if not isinstance(grid, dict):
            raise ConfigError(f"grids[{i}] must be a table")
        _check_keys(grid, ("name", *GRID_KEYS), f"grids[{i}].")
        name = grid.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"grids[{i}].name must be a non-empty string, got {name!r}")
        if name in grids:
            raise ConfigError(f"grids[{i}].name: {name!r} is the name of an earlier grid")
        grids[name] = grid
    return grids


def _select(key: str, wanted: object, layers: list[object]) -> object:
    """Return named variants; a list of names selects from those of all layers."""
    if not isinstance(wanted, list):
        return wanted if wanted is not None else {"default": {}}
    known: dict[str, object] = {}
    for layer in layers:
        if isinstance(layer, dict):
            known |= layer
    for name in wanted:
        if name not in known:
            raise ConfigError(f"{key}: unknown name {name!r}; known: {', '.join(known)}")
    return {name: known[name] for name in wanted}


def _tables(found: object, key: str) -> dict[str, dict[str, object]]:
    if not isinstance(found, dict):
        raise ConfigError(f"{key} must be a table of tables")
    for name, value in found.items():
        if not isinstance(value, dict):
            raise ConfigError(f"{key}: {name} must be a table")
    return found


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(
                f"unknown key {f'{prefix}{key}'!r}; known keys: {', '.join(known)}"
            )


def read_variants(
    grid: Mapping[str, object], key: str, known: Mapping[str, type], base: Scenario
) -> dict[str, Scenario]:
    """Return the named variants of workloads or networks.

    A key with a list of values makes a variant for each value, with the value in its name.
    """
    found = grid.get(key)
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{key} must be a non-empty table, such as [{key}.one]")
    scenarios: dict[str, Scenario] = {}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise ConfigError(f"{key}.{name} must be a table")
        for field in values:
            if field not in known:
                raise ConfigError(
                    f"unknown key {key}.{name}.{field}; known keys: {', '.join(known)}"
                )
        listed = {
            field: value for field, value in values.items() if isinstance(value, list)
        }
        for choice in product(*listed.values()):
            chosen = dict(zip(listed, choice, strict=True))
            values_text = [f"{field}={value}" for field, value in chosen.items()]
            full_name = " ".join([name, *values_text])
            changes: dict[str, Any] = {}
            for field, value in {**values, **chosen}.items():
                if known[field] is str and isinstance(value, int | float):
                    value = str(value)
                changes[field] = _of_type(f"{key}.{name}.{field}", value, known[field])
            try:
                scenarios[full_name] = replace(base, **changes)
                scenarios[full_name].make_network()
            except ConfigError as error:
                raise ConfigError(f"{key}.{full_name}: {error}") from error
    return scenarios


def without_budget(name: str) -> str:
    """Return the name of a network without the value of its budget."""
    words = name.split(" ")
    return " ".join(word for word in words if not word.startswith("budget_bytes="))


def _of_type(key: str, value: object, kind: type) -> object:
    """Return ``value``, converted from int to float if needed, or raise ConfigError."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ConfigError(f"{key} must be a {kind.__name__}, got {value!r}")
    return value


def read_value(
    table: Mapping[str, object], key: str, kind: type[T], default: T | None
) -> T:
    """Return the value of a key; raise ConfigError if it is missing or has another type.

    A key with a default may be missing.
    """
    if key not in table:
        if default is None:
            raise ConfigError(f"{key} is missing")
        return default
    value = _of_type(key, table[key], kind)
    assert isinstance(value, kind)
    return value


def read_strings(table: Mapping[str, object], key: str) -> list[str]:
    """Return a non-empty list of strings."""
    found = read_value(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must have at least one entry")
    return [str(_of_type(f"{key}[{i}]", value, str)) for i, value in enumerate(found)]


def read_counts(table: Mapping[str, object], key: str, *, least: int) -> list[int]:
    """Return a non-empty list of integers of at least ``least``."""
    found = read_value(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must have at least one entry")
    numbers: list[int] = []
    for i, value in enumerate(found):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(
                f"{key}[{i}] must be an integer of at least {least}, got {value!r}"
            )
        numbers.append(value)
    return numbers


def read_seeds(table: Mapping[str, object]) -> list[int]:
    """Return the seeds: a list of them, or a count N for 0 to N - 1."""
    found = table.get("seeds", 1)
    if isinstance(found, list):
        return read_counts(table, "seeds", least=0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ConfigError(f"seeds must be a list or an integer of at least 1: {found!r}")
    return list(range(found))
