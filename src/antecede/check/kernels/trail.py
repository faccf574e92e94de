"""The trail of a search: by state, its fingerprint and its predecessor."""

import numpy as np
from numpy.typing import NDArray

from antecede.check.kernels.expansion import Fingerprints
from antecede.errors import ConfigError
from antecede.verify.kernels.slot_map import Longs

__all__ = ["Trail"]

STATES_MAX = 1 << 32


class Trail:
    """Two arrays that grow; a state takes 12 bytes."""

    def __init__(self) -> None:
        self._values: list[Fingerprints] = []
        self._origins: list[NDArray[np.uint32]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Fingerprints:
        """By state, its fingerprint."""
        if len(self._values) != 1:
            self._values = [np.concatenate([np.empty(0, np.uint64), *self._values])]
        return self._values[0]

    @property
    def origins(self) -> NDArray[np.uint32]:
        """By state, the index of the state from which it was found first."""
        if len(self._origins) != 1:
            self._origins = [np.concatenate([np.empty(0, np.uint32), *self._origins])]
        return self._origins[0]

    def add(self, values: Fingerprints, origins: Longs | NDArray[np.uint32]) -> None:
        """Append states; raise ConfigError beyond the largest index."""
        self._count += len(values)
        if self._count > STATES_MAX:
            raise ConfigError(f"more than {STATES_MAX:,} states: reduce the bounds")
        self._values.append(values)
        self._origins.append(origins.astype(np.uint32))
