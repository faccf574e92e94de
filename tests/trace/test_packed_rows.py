"""Packed rows have the columns and types of the schema."""

import numpy as np
import pyarrow as pa

from antecede.trace.packed_rows import PACKED
from antecede.trace.recorders import KINDS, ROW, ROW_FIELDS
from antecede.trace.schema import SCHEMA


def test_packed_fields_have_the_types_of_their_columns() -> None:
    assert PACKED.names == tuple(name for name, _ in ROW_FIELDS)
    assert PACKED.itemsize == ROW.size == 37
    for name in PACKED.names:
        if name != "kind":
            assert pa.from_numpy_dtype(PACKED[name]) == SCHEMA.field(name).type
    assert set(SCHEMA.names) - set(PACKED.names) == {"run", "seq", "step", "targets"}


def test_a_row_is_read_back_as_it_was_packed() -> None:
    values = (3, 1.5, KINDS.index(KINDS[4]), -1, 1 << 40, 7, 100, -1)
    (row,) = np.frombuffer(ROW.pack(*values), PACKED)
    assert tuple(row.tolist()) == values
