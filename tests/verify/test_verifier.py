"""The verifier agrees with the oracle on any run, in any order of its rows."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.testing import Cluster, random_schedule, run_schedule
from antecede.trace import Event, Kind
from antecede.trace.reader import NumberedBatch, Trace
from antecede.trace.run_info import RunInfo
from antecede.trace.store import open_store
from antecede.trace.table import events_to_table
from antecede.verify import MessageId, Property, Violation, verify_events
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.delivery_order import check_delivery_order
from antecede.verify.kernels.matching import Copies, DeliveryMatcher
from antecede.verify.kernels.slot_map import SlotMap
from antecede.verify.kernels.state import new_state
from antecede.verify.kernels.stream import NotLinearExtensionError, Rows, RowStream
from antecede.verify.verdict import Status, TraceVerdict
from antecede.verify.verifier import verify_trace

CAUSAL, FIFO = Property.CAUSAL, Property.FIFO
NO_DUPLICATION, NO_CREATION = Property.NO_DUPLICATION, Property.NO_CREATION
LIVENESS = Property.LIVENESS
ALL = 1_000_000
"""More violations than any run here has."""


class MemoryTrace(Trace):
    """A trace in memory, with batches of any size."""

    def __init__(self, table: pa.Table, info: RunInfo, batch_rows: int = 1 << 17) -> None:
        self.location = open_store("memory")
        self.info = info
        self.rows = table.num_rows
        self._batch_rows = batch_rows
        for name in ("run", "kind"):
            column = table.column(name).combine_chunks().dictionary_encode()
            table = table.set_column(table.schema.get_field_index(name), name, column)
        self._table = table

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        starts = range(0, self.rows, self._batch_rows)
        for start in reversed(starts) if backward else starts:
            part = self._table.slice(start, self._batch_rows).combine_chunks()
            if start + part.num_rows > first and (last is None or start <= last):
                (batch,) = part.to_batches()
                yield NumberedBatch(start, batch)


def memory(run: list[Event], batch_rows: int = 1 << 17, **info: object) -> MemoryTrace:
    fields = {"complete": True, **info}
    run_info = RunInfo(run="r", **fields)  # type: ignore[arg-type]
    return MemoryTrace(events_to_table(run, "r"), run_info, batch_rows)


def send(source: int, number: int, *targets: int) -> Event:
    return Event(
        process=source, kind=Kind.SEND, source=source, number=number, targets=targets
    )


def broadcast(source: int, number: int) -> Event:
    return Event(process=source, kind=Kind.SEND, source=source, number=number)


def deliver(process: int, source: int, number: int) -> Event:
    return Event(
        process=process, kind=Kind.DELIVER, source=source, number=number, target=process
    )


def message_of(event: Event) -> MessageId:
    assert event.source is not None
    assert event.number is not None
    return MessageId(event.source, event.number)


def arbitrary_run(
    random: Random, processes: int, steps: int, fan_out_max: int
) -> list[Event]:
    """Return a random run without a protocol: copies arrive in any order, or are lost."""
    ids = random.sample(range(-5, 10_000_000), processes)
    in_flight_max = random.choice([1, 3, 100])
    run: list[Event] = []
    in_flight: list[tuple[int, int, int]] = []
    numbers = {p: list(range(1, steps + 1)) for p in ids}
    if random.random() < 0.2:
        for shuffled in numbers.values():
            random.shuffle(shuffled)
    for _ in range(steps):
        if in_flight and (len(in_flight) > in_flight_max or random.random() < 0.5):
            run.append(deliver(*in_flight.pop(random.randrange(len(in_flight)))))
            continue
        source = random.choice(ids)
        number = numbers[source].pop(0)
        targets = random.choices(ids, k=random.randint(0, fan_out_max))
        run.append(send(source, number, *targets))
        in_flight += [(target, source, number) for target in dict.fromkeys(targets)]
    random.shuffle(in_flight)
    run += [deliver(*copy) for copy in in_flight if random.random() < 0.8]
    return run


def cluster_run(
    random: Random, processes: int, steps: int, fan_out_max: int
) -> list[Event]:
    """Return a random run of a real protocol on a lossy network."""
    cluster = Cluster(random.choice(["hybrid", "hybrid-basic"]), processes)
    schedule = random_schedule(
        random,
        processes=processes,
        steps=steps,
        fan_out_max=fan_out_max,
        loss=0.1,
        duplicate=0.1,
        seconds=(0.1, 1.0),
    )
    run_schedule(cluster, schedule)
    if random.random() < 0.8:
        cluster.run_until_idle(random)
    return list(cluster.history)


def corrupt(random: Random, run: list[Event]) -> None:
    """Corrupt a run: swap, remove, repeat, invent or misdirect a delivery."""
    deliveries = [i for i, event in enumerate(run) if event.kind is Kind.DELIVER]
    if not deliveries:
        return
    i = random.choice(deliveries)
    change = random.choice(["swap", "swap", "swap", "remove", "repeat", "invent", "stray"])
    if change == "swap":
        j = random.choice([j for j in deliveries if run[j].process == run[i].process])
        run[i], run[j] = run[j], run[i]
    elif change == "remove":
        del run[i]
    elif change == "repeat":
        run.insert(random.randint(i, len(run)), run[i])
    elif change == "invent":
        source = random.choice([run[i].source or 0, 77_777_777])
        run.insert(i, deliver(run[i].process, source, random.choice([9_999, 1, 2])))
    else:
        other = random.choice(run).process
        index = random.randint(i, len(run))
        run.insert(index, replace(run[i], process=other, target=other))


def check_chain(run: list[Event], shown: Violation) -> None:
    """Check that each message was sent or delivered before its process sent the next."""
    assert shown.chain[-1] == shown.message
    assert len(shown.chain) > 1
    for earlier, later in pairwise(shown.chain):
        history = [
            event
            for event in run
            if event.process == later.source and event.kind in (Kind.SEND, Kind.DELIVER)
        ]
        known = [message_of(event) for event in history]
        kinds = [event.kind for event in history]
        sent = list(zip(kinds, known, strict=True)).index((Kind.SEND, later))
        assert earlier in known[:sent]
    delivered = [
        message_of(event)
        for event in run
        if event.process == shown.process and event.kind is Kind.DELIVER
    ]
    assert delivered.index(shown.message) < delivered.index(shown.chain[0])


ViolationKey = tuple[Property, int, MessageId]


def keys(violations: Sequence[Violation]) -> Counter[ViolationKey]:
    return Counter((v.property, v.process, v.message) for v in violations)


def compare(run: list[Event], trace: Trace) -> TraceVerdict | None:
    """Check that oracle and verifier agree; return None if the events are not a run."""
    try:
        verdict = verify_events(run, complete=trace.info.complete)
    except TraceError:
        with pytest.raises(TraceError):
            verify_trace(trace)
        return None
    found = verify_trace(trace, violations_max=ALL)
    ours, theirs = keys(found.violations), keys(verdict.violations)
    assert set(ours) == set(theirs)
    for key, count in ours.items():
        assert count == (1 if key[0] in (CAUSAL, FIFO) else theirs[key])
    pairs = {(v.property, v.process, v.message, v.chain[:1]): v for v in verdict.violations}
    for shown in found.violations:
        # The same pair of messages, and a chain of the same length.
        theirs_shown = pairs[shown.property, shown.process, shown.message, shown.chain[:1]]
        assert len(shown.chain) == len(theirs_shown.chain)
        if shown.property in (CAUSAL, FIFO):
            check_chain(run, shown)
    for which in Property:
        count = sum(count for key, count in ours.items() if key[0] is which)
        is_violated = found.statuses[which] is Status.VIOLATED
        assert is_violated == bool(count)
        if is_violated:
            assert found.counts[which] == count
    assert found.messages == verdict.messages
    assert found.deliveries == verdict.deliveries
    assert found.held == verdict.held or not trace.info.complete
    return found


def random_batch_rows(random: Random, run: list[Event]) -> int:
    """Return a random batch size, so that batches end at any row and few are tiny."""
    return max(1, len(run) // random.choice([1, 1, 2, 5]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "count", "processes_max", "steps_max"),
    [
        (arbitrary_run, 1000, 4, 25),
        (arbitrary_run, 300, 12, 120),
        (cluster_run, 800, 4, 60),
        (cluster_run, 60, 8, 400),
    ],
)
def test_the_verifier_agrees_with_the_oracle(
    make: type,
    count: int,
    processes_max: int,
    steps_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Small pools are moved often.
    monkeypatch.setattr("antecede.verify.kernels.state.POOL_ROWS_MIN", 1)
    violated: Counter[Property] = Counter()
    held = invalid = 0
    for seed in range(count):
        random = Random(seed)
        processes = random.randint(2, processes_max)
        run = make(
            random, processes, random.randint(1, steps_max), random.choice([1, 1, 2, 4])
        )
        for _ in range(random.choice([0, 0, 1, 2, 5])):
            corrupt(random, run)
        complete = random.random() < 0.8
        trace = memory(run, random_batch_rows(random, run), complete=complete)
        verdict = compare(run, trace)
        if verdict is None:
            invalid += 1
            continue
        held += verdict.held
        violated.update(w for w in Property if verdict.statuses[w] is Status.VIOLATED)
    # The agreement means little unless there are runs of all kinds.
    assert held > count / 50
    assert invalid
    assert set(violated) == set(Property)
    assert min(violated.values()) > count / 50


def shuffled(random: Random, run: list[Event], **info: object) -> MemoryTrace:
    """Return the run with its rows in random order and without steps."""
    table = events_to_table(run, "r")
    table = table.take(random.sample(range(len(run)), len(run)))
    steps = pa.array([None] * len(run), pa.int64())
    table = table.set_column(table.schema.get_field_index("step"), "step", steps)
    return MemoryTrace(
        table, RunInfo(run="r", complete=True), random_batch_rows(random, run)
    )


@pytest.mark.long
def test_the_verdict_does_not_depend_on_the_order_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antecede.verify.linear_extension.BATCH_ROWS_MAX", 11)
    for seed in range(300):
        random = Random(seed)
        make = random.choice([arbitrary_run, arbitrary_run, cluster_run])
        run = make(random, random.randint(2, 6), 40, random.choice([1, 3]))
        for _ in range(random.choice([0, 0, 1, 2])):
            corrupt(random, run)
        verdict = compare(run, shuffled(random, run))
        if verdict is not None:
            assert verdict.counts == verify_trace(memory(run)).counts
            assert verdict.statuses == verify_trace(memory(run)).statuses


@pytest.mark.long
def test_a_run_in_parts_on_disk_has_the_verdict_of_the_run_in_memory(
    tmp_path: Path,
) -> None:
    for seed in range(20):
        random = Random(seed)
        run = arbitrary_run(random, 5, 60, 2)
        corrupt(random, run)
        directory = tmp_path / str(seed)
        parts = directory / "events.parquet"
        parts.mkdir(parents=True)
        table = events_to_table(run, "r")
        for number, start in enumerate(range(0, len(run), 13)):
            name = parts / f"part-{number:03}.parquet"
            pq.write_table(table.slice(start, 13), name, row_group_size=5)
        (directory / "run.json").write_text(RunInfo(run="r", complete=True).to_json())
        try:
            expected = verify_trace(memory(run))
        except TraceError:
            with pytest.raises(TraceError):
                verify_trace(directory)
        else:
            assert verify_trace(directory) == expected
            assert verify_trace(str(directory)) == expected


@pytest.mark.long
def test_the_order_check_may_start_in_the_middle_of_a_run() -> None:
    """If it includes the sends of all copies in flight at its first row."""
    found = 0
    for seed in range(150):
        random = Random(seed)
        run = arbitrary_run(random, random.randint(2, 5), 60, 2)
        stream = RowStream(memory(run))
        matcher = DeliveryMatcher()
        (backward,) = stream.backward()
        copies, _ = matcher.match(backward, len(stream.processes))
        whole = early_deliveries_from(0, backward, copies, stream)
        for edge in range(0, len(run), 5):
            sends = backward.row[backward.is_send]
            in_flight = [
                int(sends[send])
                for send in range(len(sends))
                for copy in range(copies.start[send], copies.stop[send])
                if sends[send] < edge < copies.limit[copy]
            ]
            part = early_deliveries_from(min([*in_flight, edge]), backward, copies, stream)
            expected = {early for early in whole if early[0] >= edge}
            assert {early for early in part if early[0] >= edge} == expected
            found += len(expected)
    assert found > 1000


def early_deliveries_from(
    first: int, rows: Rows, copies: Copies, stream: RowStream
) -> set[tuple[int, ...]]:
    """Check the rows from ``first`` on; return row of the send, target, limit, own."""
    start = int(np.searchsorted(rows.row, first))
    sends = int(np.count_nonzero(rows.is_send[:start]))
    rows = rows._replace(
        row=rows.row[start:],
        is_send=rows.is_send[start:],
        process=rows.process[start:],
        source=rows.source[start:],
        number=rows.number[start:],
    )
    copies = copies._replace(
        deliveries=copies.deliveries[sends:],
        earliest=copies.earliest[sends:],
        start=copies.start[sends:],
        stop=copies.stop[sends:],
    )
    slots = SlotMap()
    source = rows.source.astype(np.int64)
    slots.add(source[rows.is_send], rows.number[rows.is_send])
    slot = slots.find(source, rows.number)
    _, early, _ = check_delivery_order(
        new_state(),
        rows,
        slot,
        copies,
        processes=len(stream.processes),
        messages=len(slots),
    )
    columns = (rows.row[early.send], *early[1:])
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_the_order_check_refuses_a_delivery_before_its_send() -> None:
    run = [send(0, 1, 1), deliver(1, 0, 1), send(0, 2, 1), deliver(1, 0, 2)]
    stream = RowStream(memory(run))
    (rows,) = stream.backward()
    copies, _ = DeliveryMatcher().match(rows, len(stream.processes))
    slot = np.zeros(4, np.int32)  # The second message reuses the slot of the first.
    state, _, ended = check_delivery_order(
        new_state(), rows, slot, copies, processes=2, messages=1
    )
    assert ended.tolist() == [0, 0]
    inverted = rows._replace(is_send=~rows.is_send)
    for before in (new_state(), state):
        with pytest.raises(NotLinearExtensionError):
            check_delivery_order(before, inverted, slot, copies, processes=2, messages=1)


def long_run(random: Random, messages: int) -> list[Event]:
    """Return a run that violates causal order, with at most 6 messages in flight."""
    run: list[Event] = []
    in_flight: list[tuple[int, int, int]] = []
    for number in range(1, messages + 1):
        source, target = random.sample(range(8), 2)
        run.append(send(source, number, target))
        in_flight.append((target, source, number))
        while len(in_flight) > random.randrange(6):
            run.append(deliver(*in_flight.pop(random.randrange(len(in_flight)))))
    return run + [deliver(*copy) for copy in in_flight]


@pytest.mark.long
def test_memory_does_not_grow_with_the_length_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created: list[SlotMap] = []

    class ObservedSlotMap(SlotMap):
        def __init__(self) -> None:
            super().__init__()
            created.append(self)

    monkeypatch.setattr("antecede.verify.verifier.SlotMap", ObservedSlotMap)
    monkeypatch.setattr("antecede.verify.kernels.matching.SlotMap", ObservedSlotMap)
    short = verify_trace(memory(long_run(Random(1), 1_000), 500))
    long = verify_trace(memory(long_run(Random(1), 30_000), 500))
    assert long.counts[CAUSAL] > 20 * short.counts[CAUSAL] > 0
    # At most one limit for each message in flight, at each process and on each message.
    assert 0 < short.limits_max <= long.limits_max <= 6 * (8 + 6)
    # A slot for each message in flight and each of a batch, in either pass.
    assert len(created) == 4
    assert max(len(slots) for slots in created) <= 500 + 6
    assert [slots.held for slots in created] == [0] * 4


def test_only_the_copies_in_flight_of_the_past_are_kept() -> None:
    run = [send(0, 1, 1)]
    for number in range(1, 2_000):
        run += [send(2, number, 3), deliver(3, 2, number)]
    run.append(deliver(1, 0, 1))
    verdict = verify_trace(memory(run, 100))
    assert verdict.held
    assert verdict.limits_max <= 2


FIGURE = [
    send(0, 1, 3),
    send(0, 2, 1),
    deliver(1, 0, 2),
    send(1, 1, 2),
    deliver(2, 1, 1),
    send(2, 1, 3),
    deliver(3, 2, 1),
    deliver(3, 0, 1),
]
"""Process 3 delivers 2:1 before 0:1, which happened before it."""


def test_a_verdict_formats_its_violations() -> None:
    verdict = verify_trace(
        memory([*FIGURE, deliver(3, 0, 1), deliver(2, 9, 9), send(0, 3, 4)])
    )
    assert verdict.status is Status.VIOLATED
    assert [str(violation) for violation in verdict.violations] == [
        "causal: process 3 delivered 2:1 before 0:1, which happened before it:"
        " 0:1 -> 0:2 -> 1:1 -> 2:1",
        "no-duplication: process 3 delivered 0:1 twice",
        "no-creation: process 2 delivered 9:9, which was never sent to it",
        "liveness: process 4 never delivered 0:3",
    ]
    assert str(verdict).splitlines()[:6] == [
        "r: 5 messages, 6 deliveries",
        "  causal         violated (1)",
        "  fifo           held",
        "  no-duplication violated (1)",
        "  no-creation    violated (1)",
        "  liveness       violated (1)",
    ]
    assert str(verdict).splitlines()[6:] == [str(v) for v in verdict.violations]
    found = json.loads(verdict.to_json())
    assert found["held"] is False
    assert found["status"] == "violated"
    assert found["properties"]["causal"] == {
        "status": "violated", "count": 1, "judged": 6, "violated": 1, "unknown": 0,
    }  # fmt: skip
    assert found["violations"][0]["chain"] == ["0:1", "0:2", "1:1", "2:1"]


def test_the_earliest_violations_of_each_property_are_returned() -> None:
    run = [send(0, number, 1) for number in range(1, 11)]
    run += [deliver(1, 0, number) for number in range(10, 0, -1)]
    run += [deliver(1, 0, number) for number in (4, 5, 6)]
    run += [deliver(1, 5, number) for number in (7, 8, 9)]
    run += [send(0, number, 1) for number in (11, 12, 13)]
    for batch_rows in (1, 4, 100):
        verdict = verify_trace(memory(run, batch_rows), violations_max=2)
        assert verdict.counts == {
            CAUSAL: 9,
            FIFO: 9,
            NO_DUPLICATION: 3,
            NO_CREATION: 3,
            LIVENESS: 3,
        }
        found = [(v.property, str(v.message)) for v in verdict.violations]
        assert found == [
            (CAUSAL, "0:2"), (CAUSAL, "0:3"), (FIFO, "0:2"), (FIFO, "0:3"),
            (NO_DUPLICATION, "0:4"), (NO_DUPLICATION, "0:5"),
            (NO_CREATION, "5:7"), (NO_CREATION, "5:8"),
            (LIVENESS, "0:11"), (LIVENESS, "0:12"),
        ]  # fmt: skip
        assert str(verdict).endswith("and 17 more")
        assert verify_trace(memory(run, batch_rows), violations_max=0).violations == ()
    # Also of messages that were never sent, and that were sent to others.
    run = [send(0, 1, 2), deliver(1, 8, 8), *[deliver(p, 0, 1) for p in (3, 1, 2)]]
    verdict = verify_trace(memory(run), violations_max=2)
    unsent = [(v.process, str(v.message)) for v in verdict.violations]
    assert unsent == [(1, "8:8"), (3, "0:1")]


def test_a_run_without_messages_has_all_properties(tmp_path: Path) -> None:
    pq.write_table(events_to_table([], "r"), tmp_path / "events.parquet")
    assert verify_trace(tmp_path).held
    for run in ([], [Event(process=1, kind=Kind.LOCAL), Event(process=0, kind=Kind.CRASH)]):
        verdict = verify_trace(memory(run))
        assert verdict.held
        assert (verdict.messages, verdict.deliveries) == (0, 0)
        assert verdict.status is Status.HELD


def test_liveness_is_unknown_in_an_incomplete_run() -> None:
    verdict = verify_trace(memory([send(0, 1, 1)], complete=False))
    assert verdict.statuses[LIVENESS] is Status.UNKNOWN
    assert verdict.counts[LIVENESS] == 1
    assert verdict.violations == ()
    assert verdict.status is Status.UNKNOWN
    assert "unknown: the run is not marked complete" in str(verdict)
    assert verify_trace(memory([send(0, 1, 1), deliver(1, 0, 1)], complete=False)).held
    # A violation counts even if another property is unknown.
    violated = verify_trace(memory([*FIGURE, send(0, 3, 1)], complete=False))
    assert violated.status is Status.VIOLATED


def test_liveness_of_a_broadcast_holds_if_every_process_delivered_it() -> None:
    run = [broadcast(0, 1), deliver(1, 0, 1), broadcast(1, 1), deliver(0, 1, 1)]
    assert verify_trace(memory(run)).held
    others = [deliver(2, 1, 1), deliver(2, 0, 1)]
    verdict = verify_trace(memory(run + others))
    assert verdict.counts == {
        CAUSAL: 1,
        FIFO: 0,
        NO_DUPLICATION: 0,
        NO_CREATION: 0,
        LIVENESS: 0,
    }
    assert verdict.statuses[LIVENESS] is Status.HELD
    verdict = verify_trace(memory([*run, others[1]]))
    assert verdict.statuses[LIVENESS] is Status.UNKNOWN
    assert verdict.status is Status.UNKNOWN
    assert verify_trace(memory(run, processes=3)).statuses[LIVENESS] is Status.UNKNOWN
    to_itself = verify_trace(memory([broadcast(0, 1), deliver(0, 0, 1)], processes=2))
    assert to_itself.statuses[LIVENESS] is Status.UNKNOWN
    assert verify_trace(memory([*run, deliver(1, 0, 1)])).counts[NO_DUPLICATION] == 1
    # A message that is certainly lost is still a violation.
    assert (
        verify_trace(memory([*run, others[1], send(0, 2, 1)])).statuses[LIVENESS]
        is Status.VIOLATED
    )


def test_a_gap_in_a_history_makes_unviolated_properties_unknown() -> None:
    table = events_to_table(FIGURE, "r")
    info = RunInfo(run="r", complete=True)
    for missing in (0, 4):
        kept = [i for i in range(len(FIGURE)) if i != missing]
        rest = table.take(kept)
        for rows in (rest, rest.take(list(range(len(kept)))[::-1])):
            verdict = verify_trace(MemoryTrace(rows, info))
            assert verdict.statuses[NO_DUPLICATION] is Status.UNKNOWN
            assert verdict.reasons == ("the histories of the processes have 1 gap",)
    from_one = pc.add(table.column("seq"), 1)
    shifted = table.set_column(table.schema.get_field_index("seq"), "seq", from_one)
    for rows in (shifted, shifted.take(list(range(len(FIGURE)))[::-1])):
        verdict = verify_trace(MemoryTrace(rows, info))
        assert verdict.statuses[NO_DUPLICATION] is Status.UNKNOWN
        (reason,) = verdict.reasons
        assert "if the events are numbered from 1, subtract 1 from seq" in reason
    within = [send(0, 1, 1), send(0, 2, 1), send(0, 3, 1), deliver(1, 0, 1)]
    verdict = verify_trace(MemoryTrace(events_to_table(within, "r").take([0, 2, 3]), info))
    assert verdict.statuses[CAUSAL] is Status.UNKNOWN
    assert verdict.statuses[LIVENESS] is Status.VIOLATED
    foreign = verify_trace(MemoryTrace(table.slice(1), RunInfo(run="r")))
    assert foreign.statuses[NO_CREATION] is Status.UNKNOWN
    assert foreign.status is Status.UNKNOWN


def test_a_repeated_row_is_a_surplus_delivery() -> None:
    table = events_to_table(FIGURE, "r")
    for copied in (
        pa.concat_tables([table, table.slice(7, 1)]),
        table.take([0, *range(8)]),
    ):
        if copied.slice(0, 1) == copied.slice(1, 1):
            with pytest.raises(TraceError, match="0:1 is sent twice"):
                verify_trace(MemoryTrace(copied, RunInfo(run="r")))
        else:
            assert (
                verify_trace(MemoryTrace(copied, RunInfo(run="r"))).counts[NO_DUPLICATION]
                == 1
            )


def test_events_that_are_not_a_run_are_refused() -> None:
    invalid = {
        "0:1 is sent twice": [send(0, 1, 1), deliver(1, 0, 1), send(0, 1, 1)],
        "process 2 sends 0:1, which is not its own": [replace(send(0, 1, 1), process=2)],
        "without a number": [send(0, 1, 1), replace(deliver(1, 0, 1), number=None)],
        "without a source": [replace(send(0, 1, 1), source=None)],
        "process 0 delivered 0:1 before it can": [deliver(0, 0, 1), send(0, 1, 0)],
    }
    for reason, run in invalid.items():
        for batch_rows in (1, 2, 100):
            with pytest.raises(TraceError, match=reason):
                verify_trace(memory(run, batch_rows))
    # Each process delivers the other's message before it sends its own.
    cycle = [deliver(0, 1, 1), send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    with pytest.raises(TraceError, match="before it can have been sent"):
        verify_trace(memory(cycle))
    with pytest.raises(ConfigError, match="violations_max"):
        verify_trace(memory([]), violations_max=-1)


@pytest.mark.long
def test_a_message_sent_twice_is_found_for_numbers_in_any_order() -> None:
    for seed in range(50):
        random = Random(seed)
        numbers = random.sample(range(1, 40), 20)
        run = [send(random.randrange(2), number, 2) for number in numbers]
        batch_rows = random.randint(1, 30)
        assert verify_trace(memory(run, batch_rows)).counts[LIVENESS] == 20
        run.insert(random.randint(0, 20), random.choice(run))
        with pytest.raises(TraceError, match="is sent twice"):
            verify_trace(memory(run, batch_rows))


def test_slots_are_unique_and_reused() -> None:
    random = Random(3)
    slots = SlotMap()
    held: dict[tuple[int, int], int] = {}
    for _ in range(200):
        keys = [(random.randrange(-9, 9), random.randrange(200)) for _ in range(300)]
        keys = random.sample(keys, random.randrange(300))
        first = np.array([key[0] for key in keys], np.int64)
        second = np.array([key[1] for key in keys], np.int64)
        assert slots.find(first, second).tolist() == [held.get(key, -1) for key in keys]
        for key, slot in zip(keys, slots.add(first, second).tolist(), strict=True):
            assert held.setdefault(key, slot) == slot
        assert len(set(held.values())) == len(held) == slots.held
        removed = random.sample(sorted(held), random.randrange(len(held) + 1))
        slots.remove(np.array([held.pop(key) for key in removed], np.int32))
    # 3,600 keys were added and removed; slots are as many as keys held at once.
    assert len(slots) < 2_000
    assert all((slots.first[s], slots.second[s]) == key for key, s in held.items())


def test_kernels_are_compiled_without_a_writable_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = []

    def njit(**options: bool) -> Callable[[Callable[[], int]], Callable[[], int]]:
        cached.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return lambda function: function

    monkeypatch.setattr("antecede.verify.kernels.compiled.njit", njit)
    assert compiled(lambda: 5)() == 5
    assert cached == [True, False]


def test_a_full_disk_raises_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def save(file: object, column: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("antecede.verify.verifier.np.save", save)
    with pytest.raises(StorageError, match=r"cannot write to .*: No space left on device"):
        verify_trace(memory(FIGURE))


def test_null_targets_are_refused() -> None:
    table = events_to_table([send(0, 1, 1)], "r")
    targets = pa.array([[1, None]], pa.list_(pa.int32()))
    table = table.set_column(table.schema.get_field_index("targets"), "targets", targets)
    with pytest.raises(TraceError, match="null among its targets"):
        verify_trace(MemoryTrace(table, RunInfo(run="r")))
