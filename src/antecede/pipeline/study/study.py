"""A study: protocols times workloads times networks times sizes times seeds.

It is a TOML file::

    name = "lan-or-wan"
    title = "What distance costs"   # a line for people; may be left out
    protocols = ["hybrid", "cykas", "matrix"]
    sizes = [10, 100]        # processes
    seeds = 5                # or a list of them
    messages = 100           # of each process

    [workloads.steady]
    workload = "uniform"     # as for `antecede simulate`; also gap, size, job, job_share
    gap = ["0.01", "0.1"]    # a list makes a variant for each: "steady gap=0.01"

    [networks.wan]
    delay = "lognormal:0.05,0.5"   # also bandwidth, duplicate, first_timeout_s and others
    loss = 0.01

Every combination is a *cell*, one run, with an id that depends on what is run, and on the
name of its grid, and on nothing else. A combination that a protocol cannot serve is left
out. A cell whose state would take more than ``memory_gib`` (4 unless set) by
:func:`antecede.pipeline.study.cost_model.estimate` is in the table of cells, but not run.

A file may have several grids, each with keys of its own in place of the file's, and
profiles, which change the file's keys or those of a grid to make a smaller study of it::

    [[grids]]
    name = "large"
    sizes = [1000, 10000]
    networks = ["wan"]       # a list of names chooses among the file's

    [profiles.reduced]
    seeds = 1
    grids.large.sizes = [1000]     # grids.NAME.left_out = true leaves a grid out
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.pipeline.study.cost_model import Estimate, estimate
from antecede.pipeline.study.study_file import (
    NETWORK_KEYS,
    WORKLOAD_KEYS,
    Grid,
    checked,
    counts,
    layered,
    seeds,
    strings,
    variants,
)
from antecede.sim.overlays import overlay_parameters
from antecede.sim.runner import check_able
from antecede.sim.simulate import Scenario

__all__ = ["Cell", "Study", "built_in_studies", "load_study", "parse_study"]

ID_BYTES = 6
MEMORY_GIB = 4.0
"""What a cell may take unless the study says otherwise: two at once fit into a laptop."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    id: str
    workload: str
    """Its name in the study."""
    network: str
    """Its name in the study."""
    scenario: Scenario
    grid: str = ""
    """The name of its grid; empty where the study has none."""
    too_large: str = ""
    """Why it is not run, if so."""

    @property
    def group(self) -> str:
        """Everything but the seed."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        words = (self.grid, scenario.protocol, self.workload, self.network, size)
        return " ".join(word for word in words if word)

    @property
    def comparable(self) -> str:
        """Everything but the protocol: the same work on the same network."""
        scenario = self.scenario
        size = f"{scenario.processes}x{scenario.messages}"
        words = (self.grid, self.workload, self.network, size, str(scenario.seed))
        return " ".join(word for word in words if word)

    @property
    def estimate(self) -> Estimate:
        """What it takes, roughly."""
        return estimate(self.scenario)

    @property
    def weight(self) -> float:
        """How much work it is, roughly: for sharing cells out evenly."""
        return self.estimate.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All cells of a study."""

    name: str
    cells: tuple[Cell, ...]
    """What is run."""
    left_out: tuple[str, ...]
    """Combinations that a protocol cannot serve, each with the reason."""
    title: str = ""
    """A line for people."""
    profile: str = ""
    """Which of its profiles this is; empty for the whole study."""
    too_large: tuple[Cell, ...] = ()
    """What is not run, because it would not fit: each cell says why."""


def built_in_studies() -> dict[str, str]:
    """Return the names of the studies that come with antecede, each with its title."""
    found: dict[str, str] = {}
    for path in files("antecede").joinpath("studies").iterdir():
        if path.name.endswith(".toml"):
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            found[path.name.removesuffix(".toml")] = str(table.get("title", ""))
    return dict(sorted(found.items()))


def load_study(which: Path | str, profile: str | None = None) -> Study:
    """Read a study from its file, or a built-in one by its name.

    Raise ConfigError, which names the key, if it cannot be; a name that there is not gets
    those that there are.
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
                f"no study {text!r}; there are: {', '.join(known)};"
                " a file's name ends in .toml"
            )
        path = files("antecede").joinpath("studies", f"{text}.toml")
        content = path.read_text(encoding="utf-8")
    try:
        return parse_study(tomllib.loads(content), profile)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{text} is not TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{text}: {error}") from error


def parse_study(table: Mapping[str, object], profile: str | None = None) -> Study:
    """Make a study from what the file says, or raise ConfigError, which names the key."""
    grids = layered(table, profile)
    name = checked(table, "name", str, None)
    if not name:
        raise ConfigError("name must not be empty")
    cells: list[Cell] = []
    left_out: list[str] = []
    for grid, keys in grids.items():
        try:
            _expand(grid, keys, cells, left_out)
        except ConfigError as error:
            if not grid:
                raise
            raise ConfigError(f"grid {grid}: {error}") from error
    ids: set[str] = set()
    for cell in cells:
        if cell.id in ids:
            raise ConfigError(f"two cells are the same run: {cell.group}")
        ids.add(cell.id)
    return Study(
        name=name,
        cells=tuple(cell for cell in cells if not cell.too_large),
        left_out=tuple(left_out),
        title=checked(table, "title", str, ""),
        profile=profile or "",
        too_large=tuple(cell for cell in cells if cell.too_large),
    )


def _expand(grid: str, keys: Grid, cells: list[Cell], left_out: list[str]) -> None:
    """Add the cells of a grid."""
    protocols = strings(keys, "protocols")
    sizes = counts(keys, "sizes", least=2)
    seed_list = seeds(keys)
    memory = checked(keys, "memory_gib", float, MEMORY_GIB)
    base = Scenario(messages=checked(keys, "messages", int, 20))
    if base.messages < 1:
        raise ConfigError(f"messages must be at least 1, got {base.messages}")
    if "until_s" in keys:
        base = replace(base, until_s=checked(keys, "until_s", float, None))
    workloads = variants(keys, "workloads", WORKLOAD_KEYS, base)
    networks = variants(keys, "networks", NETWORK_KEYS, base)
    where = f"{grid}: " if grid else ""
    for which in protocols:
        protocol(which)  # Raises if there is none of that name.
        before = len(cells)
        for workload, work in workloads.items():
            for size in sizes:
                trial = replace(work, protocol=which, processes=size)
                try:
                    check_able(protocol(which), trial.make_workload(), None)
                except ConfigError as error:
                    note = f"{where}{which} on {workload}, {size} processes: {error}"
                    left_out.append(note)
                    continue
                for network, changes in networks.items():
                    for seed in seed_list:
                        scenario = replace(trial, seed=seed, **_differences(changes))
                        scenario.make_network()  # Raises if a value is out of range.
                        overlay_parameters(scenario.overlay)
                        scenario.make_probe()
                        cells.append(_cell(scenario, grid, workload, network, memory))
        if len(cells) == before:
            raise ConfigError(f"protocols: {which} can serve none of the workloads")


def _cell(
    scenario: Scenario, grid: str, workload: str, network: str, memory_gib: float
) -> Cell:
    told = {**asdict(scenario), "grid": grid} if grid else asdict(scenario)
    text = json.dumps(told, sort_keys=True)
    digest = blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()
    needed = estimate(scenario).memory_bytes / GIB
    return Cell(
        id=f"{scenario.protocol}-{scenario.processes}-{digest}",
        workload=workload,
        network=network,
        scenario=scenario,
        grid=grid,
        too_large=(
            f"needs about {needed:.0f} GiB, more than {memory_gib:g}"
            if needed > memory_gib
            else ""
        ),
    )


def _differences(scenario: Scenario) -> dict[str, Any]:
    return {key: getattr(scenario, key) for key in NETWORK_KEYS}
