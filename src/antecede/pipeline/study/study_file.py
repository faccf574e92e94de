"""What a study's file may say: layers of keys, and variants that expand to several.

A grid's keys are those of the file's top level, of the profile, of the grid itself, and of
the profile for that grid, the later ones before the earlier. :func:`layered` puts them
together, :func:`variants` reads named workloads and networks.
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
    "checked",
    "counts",
    "layered",
    "seeds",
    "strings",
    "variants",
]

T = TypeVar("T")
Grid = dict[str, object]

WORKLOAD_KEYS = {
    "workload": str,
    "gap": str,
    "size": str,
    "job": str,
    "job_share": float,
    "sample": str,
}
NETWORK_KEYS = {
    "delay": str,
    "bandwidth": float,
    "loss": float,
    "duplicate": float,
    "reorder": float,
    "reliable": bool,
    "first_timeout_s": float,
    "overlay": str,
}
GRID_KEYS = (
    "protocols",
    "sizes",
    "seeds",
    "messages",
    "until_s",
    "memory_gib",
    "workloads",
    "networks",
)
"""What a grid may set for itself, and a profile for a grid or for all of them."""
TOP_KEYS = ("name", "title", "grids", "profiles", *GRID_KEYS)


def layered(table: Mapping[str, object], profile: str | None) -> dict[str, Grid]:
    """Return the keys of every grid, by its name; the only one may have no name.

    Raise ConfigError, which names the key, if something is unknown or of the wrong kind.
    """
    _check_keys(table, TOP_KEYS, "")
    changes = _profile(table, profile)
    by_grid = _tables(changes.get("grids", {}), "grids of a profile")
    grids = _named_grids(table)
    for name in by_grid:
        if name not in grids:
            raise ConfigError(f"profiles.{profile}.grids.{name}: there is no such grid")
    found: dict[str, Grid] = {}
    for name, grid in grids.items():
        own = by_grid.get(name, {})
        if own.get("left_out") is True:
            continue
        layers = (table, changes, grid, own)
        keys: Grid = {}
        for layer in layers:
            keys |= {key: layer[key] for key in GRID_KEYS if key in layer}
        for key in ("workloads", "networks"):
            keys[key] = _chosen(key, keys.get(key), [layer.get(key) for layer in layers])
        found[name] = keys
    if not found:
        raise ConfigError(f"profiles.{profile} leaves out every grid")
    return found


def _profile(table: Mapping[str, object], profile: str | None) -> dict[str, object]:
    known = _tables(table.get("profiles", {}), "profiles")
    for name, values in known.items():
        _check_keys(values, ("grids", *GRID_KEYS), f"profiles.{name}.")
        for grid, own in _tables(values.get("grids", {}), f"profiles.{name}.grids").items():
            _check_keys(own, ("left_out", *GRID_KEYS), f"profiles.{name}.grids.{grid}.")
    if profile is None:
        return {}
    if profile not in known:
        names = ", ".join(known) or "none"
        raise ConfigError(f"no profile {profile!r}; there are: {names}")
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
            raise ConfigError(f"grids[{i}].name must be a name, got {name!r}")
        if name in grids:
            raise ConfigError(f"grids[{i}].name: there is a grid {name!r} already")
        grids[name] = grid
    return grids


def _chosen(key: str, wanted: object, layers: list[object]) -> object:
    """Return named variants; a list of names chooses among those of all layers."""
    if not isinstance(wanted, list):
        return wanted if wanted is not None else {"default": {}}
    known: dict[str, object] = {}
    for layer in layers:
        if isinstance(layer, dict):
            known |= layer
    for name in wanted:
        if name not in known:
            raise ConfigError(f"{key} has no {name!r}; there are: {', '.join(known)}")
    return {name: known[name] for name in wanted}


def _tables(found: object, what: str) -> dict[str, dict[str, object]]:
    if not isinstance(found, dict):
        raise ConfigError(f"{what} must be a table of tables")
    for name, each in found.items():
        if not isinstance(each, dict):
            raise ConfigError(f"{what}: {name} must be a table")
    return found


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(
                f"unknown key {f'{prefix}{key}'!r}; there are: {', '.join(known)}"
            )


def variants(
    grid: Mapping[str, object], key: str, known: Mapping[str, type], base: Scenario
) -> dict[str, Scenario]:
    """Read the named variants of workloads or networks.

    A key with a list of values makes a variant for each, and its name says which.
    """
    found = grid.get(key)
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{key} must be a table of at least one, such as [{key}.one]")
    scenarios: dict[str, Scenario] = {}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise ConfigError(f"{key}.{name} must be a table")
        for field in values:
            if field not in known:
                raise ConfigError(
                    f"unknown key {key}.{name}.{field}; there are: {', '.join(known)}"
                )
        listed = {
            field: value for field, value in values.items() if isinstance(value, list)
        }
        for choice in product(*listed.values()):
            chosen = dict(zip(listed, choice, strict=True))
            words = [f"{field}={value}" for field, value in chosen.items()]
            full_name = " ".join([name, *words])
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


def _of_type(key: str, value: object, kind: type) -> object:
    """Return ``value``, as a float if that is wanted, or raise ConfigError."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ConfigError(f"{key} must be a {kind.__name__}, got {value!r}")
    return value


def checked(table: Mapping[str, object], key: str, kind: type[T], default: T | None) -> T:
    """Return the value of a key; raise ConfigError if it is wrong, or must be there."""
    if key not in table:
        if default is None:
            raise ConfigError(f"{key} is missing")
        return default
    value = _of_type(key, table[key], kind)
    assert isinstance(value, kind)
    return value


def strings(table: Mapping[str, object], key: str) -> list[str]:
    """Return a list of at least one word."""
    found = checked(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must name at least one")
    return [str(_of_type(f"{key}[{i}]", each, str)) for i, each in enumerate(found)]


def counts(table: Mapping[str, object], key: str, *, least: int) -> list[int]:
    """Return a list of whole numbers of at least ``least``."""
    found = checked(table, key, list, None)
    if not found:
        raise ConfigError(f"{key} must have at least one number")
    numbers: list[int] = []
    for i, each in enumerate(found):
        if not isinstance(each, int) or isinstance(each, bool) or each < least:
            raise ConfigError(f"{key}[{i}] must be a number of at least {least}: {each!r}")
        numbers.append(each)
    return numbers


def seeds(table: Mapping[str, object]) -> list[int]:
    """Return the seeds: so many, from 0, or those that are listed."""
    found = table.get("seeds", 1)
    if isinstance(found, list):
        return counts(table, "seeds", least=0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ConfigError(f"seeds must be a number of at least 1, or a list: {found!r}")
    return list(range(found))
