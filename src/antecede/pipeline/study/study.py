"""A study: every combination of protocols, workloads, networks, group sizes and seeds.

A TOML file defines it::

    name = "lan-or-wan"
    title = "What distance costs"   # optional, shown to people
    protocols = ["hybrid", "cykas", "matrix"]
    processes = [10, 100]    # numbers of processes
    seeds = 5                # or a list of seeds
    messages = 100           # per process

    [workloads.steady]
    workload = "uniform"     # as for `antecede simulate`; also gap, payload_bytes
    gap = ["0.01", "0.1"]    # a list makes a variant for each: "steady gap=0.01"

    [networks.wan]
    delay = "lognormal:0.05,0.5"   # also bandwidth, duplicate, first_timeout_s and others
    loss = 0.01

Every combination is a *cell*: one run. Its id depends only on its scenario and the name of
its grid; of a program or a replayed trace, the id depends on the content and not on the
path. A combination that a protocol does not support is skipped. A cell that needs more
than ``memory_gib`` (default 4) according to
:func:`antecede.pipeline.study.cost_model.estimate` is in the table of cells, but not run.

A file may have several grids, whose keys override the file's, and profiles, which override
keys of the file or of a grid to define a smaller study::

    [[grids]]
    name = "large"
    processes = [1000, 10000]
    networks = ["wan"]       # a list of names selects from the file's

    [profiles.reduced]
    seeds = 1
    grids.large.processes = [1000]   # grids.NAME.skip = true skips a grid

:mod:`antecede.pipeline.study.recordings` describes grids of recorded traffic.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.pipeline.study.cost_model import Estimate, estimate
from antecede.pipeline.study.recordings import LoadRecording, expand_recordings
from antecede.pipeline.study.study_file import (
    NETWORK_KEYS,
    WORKLOAD_KEYS,
    Grid,
    merge_layers,
    read_counts,
    read_seeds,
    read_strings,
    read_value,
    read_variants,
    without_budget,
)
from antecede.sim.overlays import overlay_parameters
from antecede.sim.runner import check_capabilities
from antecede.sim.simulate import Scenario
from antecede.sim.workloads.program import Program
from antecede.sim.workloads.workload import Workload

__all__ = ["Cell", "Study", "built_in_studies", "load_study", "parse_study"]

ID_BYTES = 6
CONTENT_BYTES = 16
MEMORY_GIB = 4.0
"""The default memory limit of a cell: a laptop runs two at once."""
GIB = 1 << 30
WITH_BUDGET = "bounded"
"""The protocol that uses ``budget_bytes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    id: str
    workload: str
    """The workload's name in the study."""
    network: str
    """The network's name in the study."""
    scenario: Scenario
    grid: str = ""
    """The grid's name; empty if the study has no grids."""
    too_large: str = ""
    """Why the cell is not run; empty if it is."""

    @property
    def group(self) -> str:
        """The key of the cells that differ only in the seed."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        words = (self.grid, scenario.protocol, self.workload, self.network, size)
        return " ".join(word for word in words if word)

    @property
    def comparable(self) -> str:
        """The key of the cells that differ only in the protocol and its budget."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        network = without_budget(self.network)
        words = (self.grid, self.workload, network, size, str(scenario.seed))
        return " ".join(word for word in words if word)

    @property
    def estimate(self) -> Estimate:
        """The estimated cost of the run."""
        return estimate(self.scenario)

    @property
    def weight(self) -> float:
        """The estimated time, for dividing cells evenly among tasks."""
        return self.estimate.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All cells of a study."""

    name: str
    cells: tuple[Cell, ...]
    """The cells to run."""
    skipped: tuple[str, ...]
    """Combinations that a protocol does not support, and recordings whose file is absent,
    each with the reason."""
    title: str = ""
    profile: str = ""
    """The name of the profile; empty for the whole study."""
    too_large: tuple[Cell, ...] = ()
    """Cells that are not run, because they need too much memory."""


def built_in_studies() -> dict[str, str]:
    """Return the names and titles of the studies that antecede ships."""
    found: dict[str, str] = {}
    for path in files("antecede").joinpath("studies").iterdir():
        if path.name.endswith(".toml"):
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            found[path.name.removesuffix(".toml")] = str(table.get("title", ""))
    return dict(sorted(found.items()))


def load_study(
    which: Path | str,
    profile: str | None = None,
    load_recording: LoadRecording | None = None,
) -> Study:
    """Read a study from a file, or a built-in study by its name.

    Args:
        which: The file, or the name.
        profile: The name of a profile; None for the whole study.
        load_recording: Converts a recording; None to skip recordings.

    Raises:
        ConfigError: The study does not exist, or a key is invalid.
    """
    text = str(which)
    if "/" in text or text.endswith(".toml"):
        try:
            content = Path(which).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {text}: {error.strerror}") from error
    else:
        known = built_in_studies()
        if text not in known:
            raise ConfigError(
                f"unknown study {text!r}: use one of {', '.join(known)},"
                " or a file name that ends in .toml"
            )
        path = files("antecede").joinpath("studies", f"{text}.toml")
        content = path.read_text(encoding="utf-8")
    try:
        return parse_study(tomllib.loads(content), profile, load_recording)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{text} is not valid TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{text}: {error}") from error


def parse_study(
    table: Mapping[str, object],
    profile: str | None = None,
    load_recording: LoadRecording | None = None,
) -> Study:
    """Make a study from a parsed file; raise ConfigError if a key is invalid."""
    table, skipped = expand_recordings(table, profile, load_recording)
    grids = merge_layers(table, profile)
    name = read_value(table, "name", str, None)
    if not name:
        raise ConfigError("name must not be empty")
    cells: list[Cell] = []
    for grid, keys in grids.items():
        try:
            _expand(grid, keys, cells, skipped)
        except ConfigError as error:
            if not grid:
                raise
            raise ConfigError(f"grid {grid}: {error}") from error
    ids: set[str] = set()
    for cell in cells:
        if cell.id in ids:
            raise ConfigError(f"two cells are the same run: {cell.group}; remove one")
        ids.add(cell.id)
    return Study(
        name=name,
        cells=tuple(cell for cell in cells if not cell.too_large),
        skipped=tuple(skipped),
        title=read_value(table, "title", str, ""),
        profile=profile or "",
        too_large=tuple(cell for cell in cells if cell.too_large),
    )


def _expand(grid: str, keys: Grid, cells: list[Cell], skipped: list[str]) -> None:
    """Append the cells of a grid to ``cells``, and skipped combinations to ``skipped``."""
    protocols = read_strings(keys, "protocols")
    process_counts = read_counts(keys, "processes", least=2)
    seed_list = read_seeds(keys)
    memory = read_value(keys, "memory_gib", float, MEMORY_GIB)
    base = Scenario(messages=read_value(keys, "messages", int, 20))
    if base.messages < 1:
        raise ConfigError(f"messages must be at least 1, got {base.messages}")
    if "until_s" in keys:
        base = replace(base, until_s=read_value(keys, "until_s", float, None))
    workloads = read_variants(keys, "workloads", WORKLOAD_KEYS, base)
    networks = read_variants(keys, "networks", NETWORK_KEYS, base)
    contents: dict[str, str] = {}
    prefix = f"{grid}: " if grid else ""
    # The budget has no effect on other protocols, so they run once on each network.
    others = {
        without_budget(name): replace(changes, budget_bytes=DEFAULT_BUDGET_BYTES)
        for name, changes in networks.items()
    }
    for which in protocols:
        protocol(which)  # Raises if the protocol is unknown.
        own_networks = networks if which == WITH_BUDGET else others
        before = len(cells)
        for workload, work in workloads.items():
            for size in process_counts:
                trial = replace(work, protocol=which, processes=size)
                try:
                    made = trial.make_workload()
                    check_capabilities(protocol(which), made, None)
                except ConfigError as error:
                    note = f"{prefix}{which} on {workload}, {size} processes: {error}"
                    skipped.append(note)
                    continue
                if trial.workload not in contents:
                    contents[trial.workload] = _content(trial.workload, made)
                for network, changes in own_networks.items():
                    for seed in seed_list:
                        scenario = replace(trial, seed=seed, **_network_values(changes))
                        scenario.make_network()  # Raises if a value is out of range.
                        overlay_parameters(scenario.overlay)
                        scenario.make_probe()
                        cell = Cell(
                            id=_cell_id(scenario, grid, contents[trial.workload]),
                            workload=workload,
                            network=network,
                            scenario=scenario,
                            grid=grid,
                            too_large=_too_large(scenario, memory),
                        )
                        cells.append(cell)
        if len(cells) == before:
            raise ConfigError(f"protocols: {which} supports none of the workloads")


def _content(text: str, workload: Workload) -> str:
    """Return a workload of the catalogue, with a digest in place of the path of a file."""
    if not isinstance(workload, Program):
        return text
    digest = blake2b(digest_size=CONTENT_BYTES)
    digest.update(repr((workload.processes, sorted(workload.names.items()))).encode())
    for sends in workload.sends:
        digest.update(repr(sends).encode())
    return f"{text.partition(':')[0]}:{digest.hexdigest()}"


def _cell_id(scenario: Scenario, grid: str, content: str) -> str:
    fields = {**asdict(scenario), "workload": content}
    if grid:
        fields["grid"] = grid
    text = json.dumps(fields, sort_keys=True)
    digest = blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()
    return f"{scenario.protocol}-{scenario.processes}-{digest}"


def _too_large(scenario: Scenario, memory_gib: float) -> str:
    """Return why a run needs too much memory; empty if it does not."""
    needed = estimate(scenario).memory_bytes / GIB
    if needed <= memory_gib:
        return ""
    return f"needs about {needed:.0f} GiB, more than {memory_gib:g}"


def _network_values(scenario: Scenario) -> dict[str, Any]:
    return {key: getattr(scenario, key) for key in NETWORK_KEYS}
