"""Events become rows of the schema, and the same events again."""

from random import Random

import pyarrow as pa
import pytest

from antecede.errors import ConfigError
from antecede.testing import Cluster, play, random_schedule
from antecede.trace import Event, Kind
from antecede.trace.schema import SCHEMA
from antecede.trace.table import events_of, table_of

EVENTS = [
    Event(process=7, kind=Kind.SEND, source=7, number=1, targets=(2, 3), time=0.5),
    Event(process=2, kind=Kind.DELIVER, source=7, number=1, target=2, time=1.5),
    Event(
        process=7, kind=Kind.CONTROL, target=2, payload_bytes=0, metadata_bytes=3, time=2.0
    ),
    Event(process=7, kind=Kind.SEND, source=7, number=2, targets=None, time=2.0),
    Event(process=7, kind=Kind.SEND, source=7, number=3, targets=(), time=2.0),
]


def test_rows_have_the_schema_and_count_per_process_and_in_all() -> None:
    table = table_of(EVENTS, "mine")
    assert table.schema == SCHEMA
    assert table.column("run").to_pylist() == ["mine"] * 5
    assert table.column("seq").to_pylist() == [0, 0, 1, 2, 3]
    assert table.column("step").to_pylist() == [0, 1, 2, 3, 4]
    assert table.column("kind").to_pylist() == [
        "send", "deliver", "control", "send", "send",
    ]  # fmt: skip
    assert table.column("targets").to_pylist() == [[2, 3], None, None, None, []]
    assert table.column("metadata_bytes").to_pylist() == [None, None, 3, None, None]


def test_a_run_in_parts_is_the_run_in_one_piece() -> None:
    next_seq: dict[int, int] = {}
    parts = [
        table_of(EVENTS[:2], "mine", next_seq=next_seq),
        table_of(EVENTS[2:], "mine", first_step=2, next_seq=next_seq),
    ]
    assert pa.concat_tables(parts) == table_of(EVENTS, "mine")
    assert next_seq == {7: 4, 2: 1}


def test_events_survive_the_way_there_and_back() -> None:
    assert list(events_of(table_of(EVENTS, "mine"))) == EVENTS
    assert list(events_of(table_of([], "mine"))) == []
    random = Random(5)
    cluster = Cluster("hybrid", 4)
    schedule = random_schedule(random, processes=4, steps=300, fan_out_max=3, loss=0.2)
    play(cluster, schedule)
    cluster.settle(random)
    table = table_of(cluster.history, "mine")
    assert list(events_of(table)) == list(cluster.history)
    batches = table.to_batches(max_chunksize=7)
    assert [event for batch in batches for event in events_of(batch)] == list(
        cluster.history
    )


def test_an_unknown_kind_is_refused() -> None:
    table = table_of(EVENTS, "mine")
    kinds = pa.array(["send", "teleport", "control", "send", "send"])
    table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
    with pytest.raises(ConfigError, match="'teleport'"):
        list(events_of(table))
