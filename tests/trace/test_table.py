"""Events are converted to rows of the schema and back."""

from random import Random

import pyarrow as pa
import pytest

from antecede.errors import TraceError
from antecede.testing import Cluster, random_schedule, run_schedule
from antecede.trace import Event, Kind
from antecede.trace.schema import SCHEMA
from antecede.trace.table import events_from_table, events_to_table

EVENTS = [
    Event(process=7, kind=Kind.SEND, source=7, number=1, targets=(2, 3), time=0.5),
    Event(process=2, kind=Kind.DELIVER, source=7, number=1, target=2, time=1.5),
    Event(
        process=7, kind=Kind.CONTROL, target=2, payload_bytes=0, metadata_bytes=3, time=2.0
    ),
    Event(process=7, kind=Kind.SEND, source=7, number=2, targets=None, time=2.0),
    Event(process=7, kind=Kind.SEND, source=7, number=3, targets=(), time=2.0),
]


def test_rows_have_the_schema_and_are_numbered_by_process_and_in_the_run() -> None:
    table = events_to_table(EVENTS, "mine")
    assert table.schema == SCHEMA
    assert table.column("run").to_pylist() == ["mine"] * 5
    assert table.column("seq").to_pylist() == [0, 0, 1, 2, 3]
    assert table.column("step").to_pylist() == [0, 1, 2, 3, 4]
    assert table.column("kind").to_pylist() == [
        "send", "deliver", "control", "send", "send",
    ]  # fmt: skip
    assert table.column("targets").to_pylist() == [[2, 3], None, None, None, []]
    assert table.column("metadata_bytes").to_pylist() == [None, None, 3, None, None]


def test_a_run_converted_in_parts_equals_the_whole_run() -> None:
    next_seq: dict[int, int] = {}
    parts = [
        events_to_table(EVENTS[:2], "mine", next_seq=next_seq),
        events_to_table(EVENTS[2:], "mine", first_step=2, next_seq=next_seq),
    ]
    assert pa.concat_tables(parts) == events_to_table(EVENTS, "mine")
    assert next_seq == {7: 4, 2: 1}


def test_events_survive_a_round_trip() -> None:
    assert list(events_from_table(events_to_table(EVENTS, "mine"))) == EVENTS
    assert list(events_from_table(events_to_table([], "mine"))) == []
    random = Random(5)
    cluster = Cluster("hybrid", 4)
    schedule = random_schedule(random, processes=4, steps=300, fan_out_max=3, loss=0.2)
    run_schedule(cluster, schedule)
    cluster.run_until_idle(random)
    table = events_to_table(cluster.history, "mine")
    assert list(events_from_table(table)) == list(cluster.history)
    batches = table.to_batches(max_chunksize=7)
    assert [event for batch in batches for event in events_from_table(batch)] == list(
        cluster.history
    )


def test_an_unknown_kind_is_refused() -> None:
    table = events_to_table(EVENTS, "mine")
    kinds = pa.array(["send", "teleport", "control", "send", "send"])
    table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
    with pytest.raises(TraceError, match="'teleport'"):
        list(events_from_table(table))
