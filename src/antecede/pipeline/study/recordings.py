"""Recorded traffic in a study: one grid for each recording.

A study file lists recordings, and a grid names some of them in place of its workloads,
processes and messages::

    [recordings.chord]
    file = "shiviz/chord.log"   # also regex, delimiter, ignore and receives

    [[grids]]
    name = "recorded"
    recordings = ["chord"]
    [grids.networks.recorded]
    delay = "recorded"          # the delay of each recording

:func:`expand_recordings` replaces the grid by ``recorded-chord`` and so on, whose workload
replays the recording. The caller reads the files; a recording whose file is absent is
skipped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from antecede.errors import ConfigError

__all__ = ["LoadRecording", "RecordedWorkload", "expand_recordings"]

RECORDING_KEYS = ("file", "regex", "delimiter", "ignore", "receives")
RECORDED_DELAY = "recorded"
"""The delay of a network that stands for the delay of the recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWorkload:
    """A recording that was converted to a workload."""

    workload: str
    """A workload of the catalogue: ``replay:DIRECTORY``."""
    processes: int
    messages: int
    """The messages of each process, on average."""
    delay: str


LoadRecording = Callable[[str, Mapping[str, str]], RecordedWorkload | None]
"""Converts the recording of a name and its keys; None if its file is absent."""


def expand_recordings(
    table: Mapping[str, object], profile: str | None, load: LoadRecording | None
) -> tuple[dict[str, object], list[str]]:
    """Replace each grid with recordings by one grid for each recording.

    Args:
        table: A parsed study file; grids of other kinds are returned unchanged.
        profile: The profile; recordings of a grid that it skips are not loaded.
        load: Converts a recording; None if no recordings are available.

    Returns:
        The table, and a line for each grid with absent recordings.

    Raises:
        ConfigError: A recording is unknown, or has an invalid key.
    """
    known = _recordings(table)
    expanded = {key: value for key, value in table.items() if key != "recordings"}
    listed = table.get("grids")
    if not isinstance(listed, list):
        return expanded, []
    notes: list[str] = []
    grids: list[object] = []
    replaced: dict[str, list[str]] = {}
    for grid in listed:
        if not isinstance(grid, dict) or "recordings" not in grid:
            grids.append(grid)
            continue
        name = str(grid.get("name"))
        found = replaced.setdefault(name, [])
        own = _changes(table, profile, name)
        absent = []
        for recording in _selected(name, {**grid, **own}, known):
            if own.get("skip") is True:
                continue
            keys = known[recording]
            loaded = None if load is None else load(recording, keys)
            if loaded is None:
                absent.append(keys["file"])
                continue
            found.append(f"{name}-{recording}")
            grids.append(_grid(grid, found[-1], recording, loaded))
        if absent:
            reason = "set --recordings DIR" if load is None else "not in that directory"
            notes.append(f"{name}: no recordings {', '.join(absent)}: {reason}")
    expanded["grids"] = grids
    if "profiles" in table:
        expanded["profiles"] = _profiles(table["profiles"], replaced)
    return expanded, notes


def _recordings(table: Mapping[str, object]) -> dict[str, dict[str, str]]:
    found = table.get("recordings", {})
    if not isinstance(found, dict):
        raise ConfigError("recordings must be a table of tables")
    for name, keys in found.items():
        if not isinstance(keys, dict):
            raise ConfigError(f"recordings.{name} must be a table")
        for key, value in keys.items():
            if key not in RECORDING_KEYS or not isinstance(value, str):
                raise ConfigError(
                    f"recordings.{name}.{key} must be a str, and one of:"
                    f" {', '.join(RECORDING_KEYS)}"
                )
        if "file" not in keys:
            raise ConfigError(f"recordings.{name}.file is missing")
    return found


def _selected(
    name: str, grid: Mapping[str, object], known: Mapping[str, object]
) -> list[str]:
    wanted = grid["recordings"]
    if not isinstance(wanted, list) or not wanted:
        raise ConfigError(f"grid {name}: recordings must be a non-empty list of names")
    for each in wanted:
        if each not in known:
            names = ", ".join(known)
            raise ConfigError(f"grid {name}: unknown recording {each!r}; known: {names}")
    for key in ("workloads", "processes", "messages"):
        if key in grid:
            raise ConfigError(f"grid {name}: recordings determine {key}; remove it")
    return wanted


def _grid(
    grid: Mapping[str, object], name: str, recording: str, loaded: RecordedWorkload
) -> dict[str, object]:
    """Return the grid of one recording."""
    found = {key: value for key, value in grid.items() if key != "recordings"}
    found["name"] = name
    found["workloads"] = {recording: {"workload": loaded.workload}}
    found["processes"] = [loaded.processes]
    found["messages"] = loaded.messages
    networks = grid.get("networks")
    if isinstance(networks, dict):
        found["networks"] = {
            key: {**network, "delay": loaded.delay}
            if isinstance(network, dict) and network.get("delay") == RECORDED_DELAY
            else network
            for key, network in networks.items()
        }
    return found


def _changes(
    table: Mapping[str, object], profile: str | None, grid: str
) -> Mapping[str, object]:
    """Return what a profile changes in a grid; empty if its table is not valid."""
    found: object = table
    for key in ("profiles", profile, "grids", grid):
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _profiles(profiles: object, replaced: Mapping[str, list[str]]) -> object:
    """Return the profiles, in which the new grids have the changes of the old ones."""
    if not isinstance(profiles, dict):
        return profiles
    found: dict[str, object] = {}
    for name, profile in profiles.items():
        grids = profile.get("grids") if isinstance(profile, dict) else None
        if not isinstance(grids, dict):
            found[name] = profile
            continue
        changed: dict[str, object] = {}
        for old, own in grids.items():
            if old in replaced and isinstance(own, dict):
                own = {key: value for key, value in own.items() if key != "recordings"}
            changed |= dict.fromkeys(replaced.get(old, [old]), own)
        found[name] = {**profile, "grids": changed}
    return found
