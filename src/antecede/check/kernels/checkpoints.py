"""Checkpoints: a search between two rounds, in one file, from which it continues."""

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede import __version__
from antecede.check.checker import CheckConfig
from antecede.check.kernels.blocks import Block, pack
from antecede.check.kernels.level_search import LevelSearch
from antecede.check.kernels.trail import Trail
from antecede.check.search import Frontier, SearchResult
from antecede.check.state_space import StateSpace
from antecede.errors import ConfigError, StorageError

__all__ = ["Checkpoints", "search_levels"]

FILE = "checkpoint.npz"
GAP_S = 60.0
SAVING_SHARE_MAX = 0.05
"""The largest fraction of the time of a search that is spent on its checkpoints."""

Arrays = Mapping[str, NDArray[Any]]


class Checkpoints:
    """The checkpoint of a search in a directory."""

    def __init__(self, directory: Path, config: Mapping[str, object]) -> None:
        """Create the directory, and set the identity of the search."""
        self._path = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create the directory {directory}: {error.strerror}"
            ) from error
        self._config = {"version": __version__, **config}
        self._saved = monotonic()
        self._gap_s = GAP_S

    def is_due(self) -> bool:
        """Return whether enough time has passed since the last checkpoint."""
        return monotonic() - self._saved >= self._gap_s

    def save(self, search: LevelSearch) -> None:
        """Write a checkpoint, which replaces the previous one."""
        start = monotonic()
        partial = self._path.with_name(f".{os.getpid()}.{FILE}")
        try:
            arrays = self._to_arrays(search)
            np.savez(partial, **arrays)  # type: ignore[arg-type]
            partial.replace(self._path)
        except OSError as error:
            raise StorageError(f"cannot write {partial}: {error.strerror}") from error
        finally:
            partial.unlink(missing_ok=True)
        self._saved = monotonic()
        self._gap_s = max(GAP_S, (self._saved - start) / SAVING_SHARE_MAX)

    def load(self, search: LevelSearch) -> bool:
        """Restore a search, which must be new; return False if there is no checkpoint."""
        try:
            with self._path.open("rb") as file, np.load(file) as arrays:
                self._restore(search, arrays)
        except FileNotFoundError:
            return False
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"{self._path} is not a valid checkpoint: {error}"
            ) from error
        return True

    def _to_arrays(self, search: LevelSearch) -> dict[str, NDArray[Any]]:
        result = search.result
        blocks = search.level + search.following
        numbers = {
            "states": result.states,
            "transitions": result.transitions,
            "ends": result.ends,
            "result_depth": result.depth,
            "depth": search.depth,
            "first_depth": search.first_depth,
            "left": len(search.level),
        }
        first = pack(search.first_level)
        return {
            "config": np.array(json.dumps(self._config)),
            "numbers": np.array(json.dumps(numbers)),
            "words": np.concatenate([block.words for block in blocks]),
            "sizes": np.concatenate([np.diff(block.starts) for block in blocks]),
            "counts": np.array([len(block) for block in blocks], np.int64),
            "firsts": np.array([block.first for block in blocks], np.int64),
            "first_words": first.words,
            "first_starts": first.starts,
            "first_values": search.first_values,
            "values": search.trail.values,
            "origins": search.trail.origins,
            **search.tables.to_arrays(),
        }

    def _restore(self, search: LevelSearch, arrays: Arrays) -> None:
        config = json.loads(str(arrays["config"]))
        if config != json.loads(json.dumps(self._config)):
            raise ConfigError(
                f"{self._path} belongs to another search or version of antecede:"
                " choose another --checkpoint-dir"
            )
        numbers = json.loads(str(arrays["numbers"]))
        result = search.result
        result.states = numbers["states"]
        result.transitions = numbers["transitions"]
        result.ends = numbers["ends"]
        result.depth = numbers["result_depth"]
        search.depth = numbers["depth"]
        blocks = _blocks(arrays)
        search.level = blocks[: numbers["left"]]
        search.following = blocks[numbers["left"] :]
        words, starts = arrays["first_words"], arrays["first_starts"].tolist()
        search.first_level = [words[start:end].tobytes() for start, end in pairwise(starts)]
        search.first_depth = numbers["first_depth"]
        search.first_values = arrays["first_values"]
        search.trail = Trail()
        search.trail.add(arrays["values"], arrays["origins"])
        search.tables.restore(arrays)
        search.visit_again()


def _blocks(arrays: Arrays) -> list[Block]:
    words, sizes = arrays["words"], arrays["sizes"]
    found: list[Block] = []
    word = state = 0
    for count, first in zip(
        arrays["counts"].tolist(), arrays["firsts"].tolist(), strict=True
    ):
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(sizes[state : state + count], out=starts[1:])
        end = word + int(starts[-1])
        found.append(Block(words[word:end], starts, first))
        word, state = end, state + count
    return found


def search_levels(
    space: StateSpace,
    result: SearchResult,
    frontier: Frontier,
    should_continue: Callable[[SearchResult, int], bool],
    config: CheckConfig,
    directory: Path | None = None,
) -> None:
    """Search with kernels, and add to ``result``: from a checkpoint, else from a frontier.

    ``should_continue`` is called with the counts and the bytes of memory needed next; the
    search ends, not exhausted but with a checkpoint, if it returns False.
    """
    search = LevelSearch(space, result)
    if directory is None:
        search.start(frontier)
        search.run(lambda needed: should_continue(result, needed))
        return
    fields = asdict(config)
    del fields["states_max"], fields["memory_max_gib"]  # The user may raise these limits.
    checkpoints = Checkpoints(directory, fields)
    if not checkpoints.load(search):
        search.start(frontier)

    def save_and_continue(needed: int) -> bool:
        is_last = not should_continue(result, needed)
        if is_last or checkpoints.is_due():
            checkpoints.save(search)
        return not is_last

    search.run(save_and_continue)
