"""The tables of the kernels, filled from a transition table.

Local steps are computed by the protocol's own code, in Python, once each. Their results are
copied to arrays, in which the kernels look them up.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.check.inputs import send_input
from antecede.check.kernels.expansion import (
    COPIES,
    EFFECT_MAX,
    HAS_TIMERS,
    IN_FLIGHT,
    INPUT_BASE,
    IS_FIFO,
    MOVES_MAX,
    PROCESSES,
    SENDS,
    Fingerprints,
    SpaceArrays,
    Steps,
    put_step,
    rehash_steps,
)
from antecede.check.state_space import StateSpace
from antecede.check.transitions import Step
from antecede.errors import ConfigError
from antecede.verify.kernels.slot_map import Longs

__all__ = ["KernelTables"]

INITIAL_STEPS = 1 << 12
FULL = 0.5
"""The largest fraction of the cells of the steps that is in use."""
SET_BYTES = 4
"""The bytes of a set of copies."""


class KernelTables:
    """The arrays of one state space."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._table = space.table
        symmetry = space.symmetry
        layout = space.layout
        identity = list(range(layout.processes))
        self._permutations = [identity] if symmetry is None else symmetry.permutations
        orders = len(self._permutations)
        self._locals = _Rows(2, np.int64)  # Messages sent, and orbit.
        self._times = _Rows(2, np.float64)  # Clock, and when the next timer is due.
        self._permuted_locals = _Rows(orders, np.int32)
        self._channels = _Rows(1, np.int32)
        self._permuted_packets = _Rows(orders, np.int32)
        self._keys: Fingerprints = np.zeros(INITIAL_STEPS, np.uint64)
        self._offsets: Longs = np.zeros(INITIAL_STEPS, np.int64)
        self._effects = _Rows(1, np.int64)
        self._steps = 0
        self._shape = self._make_shape()
        options, starts = self._make_options()
        self.model: SpaceArrays = (
            self._shape,
            options,
            starts,
            np.array(self._permutations, np.int64).reshape(-1),
            self._permuted_sets(),
            np.array([space.patience_s]),
        )
        self._copy_new()

    def arrays(self) -> Steps:
        """Return the current arrays, which the next step may replace."""
        return (
            self._locals.used(),
            self._times.used(),
            self._permuted_locals.used(),
            self._channels.used(),
            self._permuted_packets.used(),
            self._keys,
            self._offsets,
            self._effects.used(),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that :meth:`restore` needs, by name."""
        return {
            "new_steps": np.array(self._table.new_steps, np.int64),
            "keys": self._keys,
            "offsets": self._offsets,
            "effects": self._effects.used(),
            "effect_max": self._shape[EFFECT_MAX : EFFECT_MAX + 1],
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill the tables of a new state space as they were at :meth:`to_arrays`."""
        table = self._table
        new_steps = arrays["new_steps"].tolist()
        for local, code in zip(new_steps[::2], new_steps[1::2], strict=True):
            table.step(table.locals[local], code)
        if table.new_steps.tolist() != new_steps:
            raise ConfigError(
                "the checkpoint belongs to another version of the protocol: delete it"
            )
        self._copy_new()
        for each in table.locals:
            each.steps.clear()
        self._keys, self._offsets = arrays["keys"], arrays["offsets"]
        self._steps = int(np.count_nonzero(self._keys))
        self._shape[EFFECT_MAX] = arrays["effect_max"][0]
        self._effects.clear()
        self._effects.extend(arrays["effects"])

    def compute(self, missing: Longs) -> None:
        """Compute the steps with these keys."""
        for key in missing.tolist():
            local = self._table.locals[key >> 32]
            code = (key & 0xFFFFFFFF) - INPUT_BASE
            step = self._table.step(local, code)
            del local.steps[code]  # From now on, the kernels find the step in the arrays.
            self._add(local.process, key, step)
        self._copy_new()

    def _add(self, process: int, key: int, step: Step) -> None:
        layout = self._space.layout
        effect = [step.local.id, len(step.packets), *step.packets, len(step.deliveries)]
        for source, number in step.deliveries:
            bit = 0
            message = 0
            if number <= layout.sends:
                bit = layout.bits.get(layout.copy(source, number - 1, process), 0)
                message = source * layout.sends + number - 1
            effect += [message, bit]
        self._shape[EFFECT_MAX] = max(self._shape[EFFECT_MAX], len(step.packets))
        if self._steps + 1 > FULL * len(self._keys):
            keys = np.zeros(2 * len(self._keys), np.uint64)
            offsets = np.zeros(2 * len(self._keys), np.int64)
            rehash_steps(self._keys, self._offsets, keys, offsets)
            self._keys, self._offsets = keys, offsets
        put_step(self._keys, self._offsets, key, self._effects.count)
        self._steps += 1
        self._effects.extend(effect)

    def _copy_new(self) -> None:
        """Copy the local states and packets that were met since the last call."""
        table = self._table
        symmetry = self._space.symmetry
        orders = range(len(self._permutations))
        # To permute a local state or a packet may add further ones.
        while self._locals.count < len(table.locals) or self._channels.count < len(
            table.packets
        ):
            for local in table.locals[self._locals.count :]:
                permuted, orbit = [local.id], local.id
                if symmetry is not None:
                    orbit = symmetry.least_fingerprint(local)
                    permuted = [symmetry.local(which, local).id for which in orders]
                self._permuted_locals.extend(permuted)
                self._locals.extend([local.sends, orbit])
                self._times.extend([local.clock, local.due])
            for packet in table.packets[self._channels.count :]:
                permuted = [packet.id]
                if symmetry is not None:
                    permuted = [symmetry.packet(which, packet.id) for which in orders]
                self._permuted_packets.extend(permuted)
                processes = self._space.layout.processes
                self._channels.extend([packet.source * processes + packet.target])

    def _make_shape(self) -> Longs:
        space, layout = self._space, self._space.layout
        shape = np.zeros(COPIES, np.int64)
        shape[PROCESSES] = layout.processes
        shape[SENDS] = layout.sends
        shape[IN_FLIGHT] = layout.in_flight
        shape[IS_FIFO] = space.fifo
        shape[HAS_TIMERS] = space.timers
        most = max(len(options) for own in space.options for options in own)
        shape[MOVES_MAX] = layout.processes * (most + 1)
        copies = np.array(layout.copies_to + layout.copies_of, np.int64)
        return np.concatenate([shape, copies])

    def _make_options(self) -> tuple[Longs, Longs]:
        layout = self._space.layout
        options: list[int] = []
        starts = [0]
        for process, own in enumerate(self._space.options):
            for which, target_sets in enumerate(own):
                for targets in target_sets:
                    copies = 0
                    for target in range(layout.processes):
                        if targets >> target & 1:
                            copies |= layout.bits[layout.copy(process, which, target)]
                    options += [send_input(targets), copies]
                starts.append(len(options) // 2)
        return np.array(options, np.int64), np.array(starts, np.int64)

    def _permuted_sets(self) -> Longs:
        """Return, by permutation, byte position and byte, the permuted set of copies."""
        canonicalizer = self._space.canonicalizer
        permuted: list[int] = []
        every = sum(self._space.layout.bits.values())
        for which in range(len(self._permutations)):
            for position in range(SET_BYTES):
                for byte in range(256):
                    copies = byte << (8 * position) & every
                    if self._space.symmetry is not None:
                        copies = canonicalizer.permute_copies(which, copies)
                    permuted.append(copies)
        return np.array(permuted, np.int64)


class _Rows:
    """A growing array of rows."""

    def __init__(self, width: int, kind: type[np.generic]) -> None:
        self._width = width
        self._values: NDArray[Any] = np.zeros(1024 * width, kind)
        self.count = 0

    def clear(self) -> None:
        """Remove all rows."""
        self.count = 0

    def extend(self, values: list[int] | list[float] | NDArray[Any]) -> None:
        """Append a row, or if rows have one element, several."""
        start = self.count * self._width
        end = start + len(values)
        if end > len(self._values):
            larger = np.zeros(2 * end, self._values.dtype)
            larger[:start] = self._values[:start]
            self._values = larger
        self._values[start:end] = values
        self.count = end // self._width

    def used(self) -> NDArray[Any]:
        """Return the elements in use, one row after the other."""
        return self._values[: self.count * self._width]
