"""The verifier says what the oracle says, of any run, in any order of its rows."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError
from antecede.testing import Cluster, play, random_schedule
from antecede.trace import Event, Kind
from antecede.trace.reader import NumberedBatch, RunInfo, Trace
from antecede.trace.table import table_of
from antecede.verify import MessageId, Property, Violation, judge
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.matching import Copies, Matching
from antecede.verify.kernels.slots import Slots
from antecede.verify.kernels.state import new_state
from antecede.verify.kernels.stream import Disordered, Rows, RowStream
from antecede.verify.kernels.walk import walk
from antecede.verify.verdict import EXIT_HELD, EXIT_UNKNOWN, EXIT_VIOLATED, Report, Status
from antecede.verify.verifier import verify

CAUSAL, FIFO = Property.CAUSAL, Property.FIFO
ONCE, GENUINE, LIVE = Property.ONCE, Property.GENUINE, Property.LIVE
ALL = 1_000_000
"""More violations than any run here has."""


class MemoryTrace(Trace):
    """A table in place of files, in batches of any size."""

    def __init__(self, table: pa.Table, info: RunInfo, batch_rows: int = 1 << 17) -> None:
        self.path = Path("memory")
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
    return MemoryTrace(table_of(run, "r"), RunInfo(run="r", **fields), batch_rows)  # type: ignore[arg-type]


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
    """Draw a run with no protocol at all: copies arrive in any order, or are lost."""
    ids = random.sample(range(-5, 10_000_000), processes)
    patience = random.choice([1, 3, 100])
    run: list[Event] = []
    flying: list[tuple[int, int, int]] = []
    numbers = {p: list(range(1, steps + 1)) for p in ids}
    if random.random() < 0.2:
        for shuffled in numbers.values():
            random.shuffle(shuffled)
    for _ in range(steps):
        if flying and (len(flying) > patience or random.random() < 0.5):
            run.append(deliver(*flying.pop(random.randrange(len(flying)))))
            continue
        source = random.choice(ids)
        number = numbers[source].pop(0)
        targets = random.choices(ids, k=random.randint(0, fan_out_max))
        run.append(send(source, number, *targets))
        flying += [(target, source, number) for target in dict.fromkeys(targets)]
    random.shuffle(flying)
    run += [deliver(*copy) for copy in flying if random.random() < 0.8]
    return run


def cluster_run(
    random: Random, processes: int, steps: int, fan_out_max: int
) -> list[Event]:
    """Draw a run of a real protocol on a hostile network."""
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
    play(cluster, schedule)
    if random.random() < 0.8:
        cluster.settle(random)
    return list(cluster.history)


def do_harm(random: Random, run: list[Event]) -> None:
    """Break a run: swap two deliveries of a process, remove, repeat, invent, misdirect."""
    places = [i for i, event in enumerate(run) if event.kind is Kind.DELIVER]
    if not places:
        return
    i = random.choice(places)
    harm = random.choice(["swap", "swap", "swap", "remove", "repeat", "invent", "stray"])
    if harm == "swap":
        j = random.choice([j for j in places if run[j].process == run[i].process])
        run[i], run[j] = run[j], run[i]
    elif harm == "remove":
        del run[i]
    elif harm == "repeat":
        run.insert(random.randint(i, len(run)), run[i])
    elif harm == "invent":
        source = random.choice([run[i].source or 0, 77_777_777])
        run.insert(i, deliver(run[i].process, source, random.choice([9_999, 1, 2])))
    else:
        other = random.choice(run).process
        at = random.randint(i, len(run))
        run.insert(at, replace(run[i], process=other, target=other))


def check_chain(run: list[Event], shown: Violation) -> None:
    """Every link: sent or delivered at a process before that process sent the next."""
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


Finding = tuple[Property, int, MessageId]


def findings(violations: Sequence[Violation]) -> Counter[Finding]:
    return Counter((v.property, v.process, v.message) for v in violations)


def compare(run: list[Event], trace: Trace) -> Report | None:
    """Let both judge a run, and require the same; None if it is none."""
    try:
        verdict = judge(run, complete=trace.info.complete)
    except ConfigError:
        with pytest.raises(ConfigError):
            verify(trace)
        return None
    report = verify(trace, violations_max=ALL)
    ours, theirs = findings(report.violations), findings(verdict.violations)
    assert set(ours) == set(theirs)
    for finding, count in ours.items():
        assert count == (1 if finding[0] in (CAUSAL, FIFO) else theirs[finding])
    pairs = {(v.property, v.process, v.message, v.chain[:1]): v for v in verdict.violations}
    for shown in report.violations:
        # The same pair of messages, and a chain that is as short.
        theirs_shown = pairs[shown.property, shown.process, shown.message, shown.chain[:1]]
        assert len(shown.chain) == len(theirs_shown.chain)
        if shown.property in (CAUSAL, FIFO):
            check_chain(run, shown)
    for which in Property:
        count = sum(count for finding, count in ours.items() if finding[0] is which)
        broken = report.statuses[which] is Status.VIOLATED
        assert broken == bool(count)
        if broken:
            assert report.counts[which] == count
    assert report.messages == verdict.messages
    assert report.deliveries == verdict.deliveries
    assert report.held == verdict.held or not trace.info.complete
    return report


def batch_rows_of(random: Random, run: list[Event]) -> int:
    """Draw a size of batches, so that no boundary is special and few are tiny."""
    return max(1, len(run) // random.choice([1, 1, 2, 5]))


@pytest.mark.parametrize(
    ("make", "count", "processes_max", "steps_max"),
    [
        (arbitrary_run, 2000, 4, 25),
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
    monkeypatch.setattr(
        "antecede.verify.kernels.state.ROOM_FIRST", 1
    )  # So that pools are moved.
    broken: Counter[Property] = Counter()
    held = impossible = 0
    for seed in range(count):
        random = Random(seed)
        processes = random.randint(2, processes_max)
        run = make(
            random, processes, random.randint(1, steps_max), random.choice([1, 1, 2, 4])
        )
        for _ in range(random.choice([0, 0, 1, 2, 5])):
            do_harm(random, run)
        complete = random.random() < 0.8
        trace = memory(run, batch_rows_of(random, run), complete=complete)
        report = compare(run, trace)
        if report is None:
            impossible += 1
            continue
        held += report.held
        broken.update(w for w in Property if report.statuses[w] is Status.VIOLATED)
    # The runs are of all sorts, or the agreement would mean little.
    assert held > count / 50
    assert impossible
    assert set(broken) == set(Property)
    assert min(broken.values()) > count / 50


def shuffled(random: Random, run: list[Event], **info: object) -> MemoryTrace:
    """The same run, its rows in any order and without steps."""
    table = table_of(run, "r")
    table = table.take(random.sample(range(len(run)), len(run)))
    steps = pa.array([None] * len(run), pa.int64())
    table = table.set_column(table.schema.get_field_index("step"), "step", steps)
    return MemoryTrace(table, RunInfo(run="r", complete=True), batch_rows_of(random, run))


def test_the_order_of_rows_is_irrelevant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecede.verify.linear_extension.BATCH_ROWS_MAX", 11)
    for seed in range(300):
        random = Random(seed)
        make = random.choice([arbitrary_run, arbitrary_run, cluster_run])
        run = make(random, random.randint(2, 6), 40, random.choice([1, 3]))
        for _ in range(random.choice([0, 0, 1, 2])):
            do_harm(random, run)
        report = compare(run, shuffled(random, run))
        if report is not None:
            assert report.counts == verify(memory(run)).counts
            assert report.statuses == verify(memory(run)).statuses


def test_a_run_on_disk_in_parts_is_judged_as_in_memory(tmp_path: Path) -> None:
    for seed in range(20):
        random = Random(seed)
        run = arbitrary_run(random, 5, 60, 2)
        do_harm(random, run)
        directory = tmp_path / str(seed)
        parts = directory / "events.parquet"
        parts.mkdir(parents=True)
        table = table_of(run, "r")
        for number, start in enumerate(range(0, len(run), 13)):
            name = parts / f"part-{number:03}.parquet"
            pq.write_table(table.slice(start, 13), name, row_group_size=5)
        (directory / "run.json").write_text(RunInfo(run="r", complete=True).to_json())
        try:
            expected = verify(memory(run))
        except ConfigError:
            with pytest.raises(ConfigError):
                verify(directory)
        else:
            assert verify(directory) == expected
            assert verify(str(directory)) == expected


def test_a_walk_may_begin_in_the_middle() -> None:
    """With what is in flight at its left edge, it finds what the whole walk finds."""
    found = 0
    for seed in range(150):
        random = Random(seed)
        run = arbitrary_run(random, random.randint(2, 5), 60, 2)
        stream = RowStream(memory(run))
        matching = Matching()
        (backward,) = stream.backward()
        copies, _ = matching.match(backward, len(stream.processes))
        whole = walk_from(0, backward, copies, stream)
        for edge in range(0, len(run), 5):
            sends = backward.row[backward.is_send]
            flying = [
                int(sends[send])
                for send in range(len(sends))
                for copy in range(copies.start[send], copies.stop[send])
                if sends[send] < edge < copies.limit[copy]
            ]
            part = walk_from(min([*flying, edge]), backward, copies, stream)
            expected = {finding for finding in whole if finding[0] >= edge}
            assert {finding for finding in part if finding[0] >= edge} == expected
            found += len(expected)
    assert found > 1000


def walk_from(
    first: int, rows: Rows, copies: Copies, stream: RowStream
) -> set[tuple[int, ...]]:
    """Walk the rows from one on; return row of the send, target, limit, own limit."""
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
    slots = Slots()
    source = rows.source.astype(np.int64)
    slots.add(source[rows.is_send], rows.number[rows.is_send])
    slot = slots.find(source, rows.number)
    _, overtaken, _ = walk(
        new_state(),
        rows,
        slot,
        copies,
        processes=len(stream.processes),
        messages=len(slots),
    )
    columns = (rows.row[overtaken.send], *overtaken[1:])
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_a_walk_refuses_a_delivery_that_stands_before_its_send() -> None:
    run = [send(0, 1, 1), deliver(1, 0, 1), send(0, 2, 1), deliver(1, 0, 2)]
    stream = RowStream(memory(run))
    (rows,) = stream.backward()
    copies, _ = Matching().match(rows, len(stream.processes))
    slot = np.zeros(4, np.int32)  # One slot serves both messages, one after the other.
    state, _, ended = walk(new_state(), rows, slot, copies, processes=2, messages=1)
    assert ended.tolist() == [0, 0]
    turned = rows._replace(is_send=~rows.is_send)
    for before in (new_state(), state):
        with pytest.raises(Disordered):
            walk(before, turned, slot, copies, processes=2, messages=1)


def long_run(random: Random, messages: int) -> list[Event]:
    """A run of any length that breaks causal order, with at most 6 messages in flight."""
    run: list[Event] = []
    flying: list[tuple[int, int, int]] = []
    for number in range(1, messages + 1):
        source, target = random.sample(range(8), 2)
        run.append(send(source, number, target))
        flying.append((target, source, number))
        while len(flying) > random.randrange(6):
            run.append(deliver(*flying.pop(random.randrange(len(flying)))))
    return run + [deliver(*copy) for copy in flying]


def test_what_is_kept_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Slots] = []

    class WatchedSlots(Slots):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("antecede.verify.verifier.Slots", WatchedSlots)
    monkeypatch.setattr("antecede.verify.kernels.matching.Slots", WatchedSlots)
    short = verify(memory(long_run(Random(1), 1_000), 500))
    long = verify(memory(long_run(Random(1), 30_000), 500))
    assert long.counts[CAUSAL] > 20 * short.counts[CAUSAL] > 0
    # At most one limit for each message in flight, at each process and on each message.
    assert 0 < short.kept_max <= long.kept_max <= 6 * (8 + 6)
    # A slot for each message in flight and each of a batch, in either pass.
    assert len(made) == 4
    assert max(len(slots) for slots in made) <= 500 + 6
    assert [slots.held for slots in made] == [0] * 4


def test_a_message_delivered_late_is_all_that_is_kept_of_the_past() -> None:
    run = [send(0, 1, 1)]
    for number in range(1, 2_000):
        run += [send(2, number, 3), deliver(3, 2, number)]
    run.append(deliver(1, 0, 1))
    report = verify(memory(run, 100))
    assert report.held
    assert report.kept_max <= 2


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


def test_a_report_says_what_was_found() -> None:
    report = verify(memory([*FIGURE, deliver(3, 0, 1), deliver(2, 9, 9), send(0, 3, 4)]))
    assert report.exit_code == EXIT_VIOLATED
    assert [str(violation) for violation in report.violations] == [
        "causal: process 3 delivered 2:1 before 0:1, which happened before it:"
        " 0:1 -> 0:2 -> 1:1 -> 2:1",
        "once: 3 delivered 0:1 twice",
        "genuine: 2 delivered 9:9 though it was never sent to it",
        "live: 4 delivered 0:3 never",
    ]
    assert str(report).splitlines()[:6] == [
        "r: 5 messages, 6 deliveries",
        "  causal   violated (1)",
        "  fifo     held",
        "  once     violated (1)",
        "  genuine  violated (1)",
        "  live     violated (1)",
    ]
    assert str(report).splitlines()[6:] == [str(v) for v in report.violations]
    found = json.loads(report.to_json())
    assert found["held"] is False
    assert found["exit_code"] == 1
    assert found["properties"]["causal"] == {"status": "violated", "count": 1}
    assert found["violations"][0]["chain"] == ["0:1", "0:2", "1:1", "2:1"]


def test_the_earliest_violations_of_each_property_are_named() -> None:
    run = [send(0, number, 1) for number in range(1, 11)]
    run += [deliver(1, 0, number) for number in range(10, 0, -1)]
    run += [deliver(1, 0, number) for number in (4, 5, 6)]
    run += [deliver(1, 5, number) for number in (7, 8, 9)]
    run += [send(0, number, 1) for number in (11, 12, 13)]
    for batch_rows in (1, 4, 100):
        report = verify(memory(run, batch_rows), violations_max=2)
        assert report.counts == {CAUSAL: 9, FIFO: 9, ONCE: 3, GENUINE: 3, LIVE: 3}
        named = [(v.property, str(v.message)) for v in report.violations]
        assert named == [
            (CAUSAL, "0:2"), (CAUSAL, "0:3"), (FIFO, "0:2"), (FIFO, "0:3"),
            (ONCE, "0:4"), (ONCE, "0:5"), (GENUINE, "5:7"), (GENUINE, "5:8"),
            (LIVE, "0:11"), (LIVE, "0:12"),
        ]  # fmt: skip
        assert str(report).endswith("and 17 more")
        assert verify(memory(run, batch_rows), violations_max=0).violations == ()
    # Of what was never sent and what was sent elsewhere, too.
    run = [send(0, 1, 2), deliver(1, 8, 8), *[deliver(p, 0, 1) for p in (3, 1, 2)]]
    report = verify(memory(run), violations_max=2)
    places = [(v.process, str(v.message)) for v in report.violations]
    assert places == [(1, "8:8"), (3, "0:1")]


def test_what_has_no_messages_holds(tmp_path: Path) -> None:
    pq.write_table(table_of([], "r"), tmp_path / "events.parquet")
    assert verify(tmp_path).held
    for run in ([], [Event(process=1, kind=Kind.LOCAL), Event(process=0, kind=Kind.CRASH)]):
        report = verify(memory(run))
        assert report.held
        assert (report.messages, report.deliveries) == (0, 0)
        assert report.exit_code == EXIT_HELD


def test_an_unfinished_run_leaves_it_unknown_what_is_lost() -> None:
    report = verify(memory([send(0, 1, 1)], complete=False))
    assert report.statuses[LIVE] is Status.UNKNOWN
    assert report.counts[LIVE] == 1
    assert report.violations == ()
    assert report.exit_code == EXIT_UNKNOWN
    assert "unknown: the run did not come to rest" in str(report)
    assert verify(memory([send(0, 1, 1), deliver(1, 0, 1)], complete=False)).held
    # What is violated is violated, whatever is unknown besides.
    assert verify(memory([*FIGURE, send(0, 3, 1)], complete=False)).exit_code == 1


def test_a_broadcast_is_live_if_it_reached_everyone() -> None:
    run = [broadcast(0, 1), deliver(1, 0, 1), broadcast(1, 1), deliver(0, 1, 1)]
    assert verify(memory(run)).held
    others = [deliver(2, 1, 1), deliver(2, 0, 1)]
    report = verify(memory(run + others))
    assert report.counts == {CAUSAL: 1, FIFO: 0, ONCE: 0, GENUINE: 0, LIVE: 0}
    assert report.statuses[LIVE] is Status.HELD
    report = verify(memory([*run, others[1]]))
    assert report.statuses[LIVE] is Status.UNKNOWN
    assert report.exit_code == EXIT_UNKNOWN
    assert verify(memory(run, processes=3)).statuses[LIVE] is Status.UNKNOWN
    to_itself = verify(memory([broadcast(0, 1), deliver(0, 0, 1)], processes=2))
    assert to_itself.statuses[LIVE] is Status.UNKNOWN
    assert verify(memory([*run, deliver(1, 0, 1)])).counts[ONCE] == 1
    # A message that is surely lost is a violation even so.
    assert (
        verify(memory([*run, others[1], send(0, 2, 1)])).statuses[LIVE] is Status.VIOLATED
    )


def test_a_gap_in_a_history_leaves_unknown_what_seemed_to_hold() -> None:
    table = table_of(FIGURE, "r")
    info = RunInfo(run="r", complete=True)
    for missing in (0, 4):
        kept = [i for i in range(len(FIGURE)) if i != missing]
        rest = table.take(kept)
        for rows in (rest, rest.take(list(range(len(kept)))[::-1])):
            report = verify(MemoryTrace(rows, info))
            assert report.statuses[ONCE] is Status.UNKNOWN
            assert report.reasons == ("a gap in what the processes recorded",)
    within = [send(0, 1, 1), send(0, 2, 1), send(0, 3, 1), deliver(1, 0, 1)]
    report = verify(MemoryTrace(table_of(within, "r").take([0, 2, 3]), info))
    assert report.statuses[CAUSAL] is Status.UNKNOWN
    assert report.statuses[LIVE] is Status.VIOLATED
    foreign = verify(MemoryTrace(table.slice(1), RunInfo(run="r")))
    assert foreign.statuses[GENUINE] is Status.UNKNOWN
    assert foreign.exit_code == EXIT_UNKNOWN


def test_a_row_that_stands_twice_is_a_delivery_too_many() -> None:
    table = table_of(FIGURE, "r")
    for copied in (
        pa.concat_tables([table, table.slice(7, 1)]),
        table.take([0, *range(8)]),
    ):
        if copied.slice(0, 1) == copied.slice(1, 1):
            with pytest.raises(ConfigError, match="0:1 is sent twice"):
                verify(MemoryTrace(copied, RunInfo(run="r")))
        else:
            assert verify(MemoryTrace(copied, RunInfo(run="r"))).counts[ONCE] == 1


def test_events_that_are_no_run_are_refused() -> None:
    no_runs = {
        "0:1 is sent twice": [send(0, 1, 1), deliver(1, 0, 1), send(0, 1, 1)],
        "0:1 is sent by another": [replace(send(0, 1, 1), process=2)],
        "without its number": [send(0, 1, 1), replace(deliver(1, 0, 1), number=None)],
        "without its source": [replace(send(0, 1, 1), source=None)],
        "process 0 delivered 0:1 before it can": [deliver(0, 0, 1), send(0, 1, 0)],
    }
    for reason, run in no_runs.items():
        for batch_rows in (1, 2, 100):
            with pytest.raises(ConfigError, match=reason):
                verify(memory(run, batch_rows))
    # Each process delivers the other's message before it sends its own.
    circle = [deliver(0, 1, 1), send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    with pytest.raises(ConfigError, match="before it can have been sent"):
        verify(memory(circle))
    with pytest.raises(ConfigError, match="violations_max"):
        verify(memory([]), violations_max=-1)


def test_a_message_sent_twice_is_found_whatever_the_numbers() -> None:
    for seed in range(50):
        random = Random(seed)
        numbers = random.sample(range(1, 40), 20)
        run = [send(random.randrange(2), number, 2) for number in numbers]
        batch_rows = random.randint(1, 30)
        assert verify(memory(run, batch_rows)).counts[LIVE] == 20
        run.insert(random.randint(0, 20), random.choice(run))
        with pytest.raises(ConfigError, match="is sent twice"):
            verify(memory(run, batch_rows))


def test_slots_are_given_once_and_again_when_they_are_free() -> None:
    random = Random(3)
    slots = Slots()
    held: dict[tuple[int, int], int] = {}
    for _ in range(200):
        names = [(random.randrange(-9, 9), random.randrange(200)) for _ in range(300)]
        names = random.sample(names, random.randrange(300))
        first = np.array([name[0] for name in names], np.int64)
        second = np.array([name[1] for name in names], np.int64)
        assert slots.find(first, second).tolist() == [held.get(n, -1) for n in names]
        for name, slot in zip(names, slots.add(first, second).tolist(), strict=True):
            assert held.setdefault(name, slot) == slot
        assert len(set(held.values())) == len(held) == slots.held
        gone = random.sample(sorted(held), random.randrange(len(held) + 1))
        slots.remove(np.array([held.pop(name) for name in gone], np.int32))
    # 3,600 names came and went; no more slots were made than were held at once.
    assert len(slots) < 2_000
    assert all((slots.first[s], slots.second[s]) == name for name, s in held.items())


def test_kernels_are_compiled_even_where_no_cache_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def njit(**options: bool) -> Callable[[Callable[[], int]], Callable[[], int]]:
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return lambda function: function

    monkeypatch.setattr("antecede.verify.kernels.compiled.njit", njit)
    assert compiled(lambda: 5)() == 5
    assert asked == [True, False]


def test_a_full_disk_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def save(file: object, column: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("antecede.verify.verifier.np.save", save)
    with pytest.raises(ConfigError, match=r"cannot write to .*: No space left on device"):
        verify(memory(FIGURE))


def test_targets_that_are_null_are_refused() -> None:
    table = table_of([send(0, 1, 1)], "r")
    targets = pa.array([[1, None]], pa.list_(pa.int32()))
    table = table.set_column(table.schema.get_field_index("targets"), "targets", targets)
    with pytest.raises(ConfigError, match="null among its targets"):
        verify(MemoryTrace(table, RunInfo(run="r")))
