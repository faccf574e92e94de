"""Traces of nodes, merged, are the trace of the run."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError
from antecede.merge.merge import merge_traces
from antecede.trace import Event, Kind
from antecede.trace.live.writer import LiveTrace
from antecede.trace.reader import RunInfo, Trace, read_trace
from antecede.trace.table import table_of
from antecede.verify import MessageId, Property
from antecede.verify.verdict import Report, Status
from antecede.verify.verifier import verify
from tests.trace.nodes import (
    STARTED,
    Node,
    by_process,
    events_by_process,
    history,
    name_of,
    process_of,
    record_nodes,
    swap_deliveries,
)

ALL = 1_000_000
RUNS: dict[str, dict[str, str | float]] = {
    "hybrid": {"workload": "uniform:fan_out=3", "processes": 12, "loss": 0.1},
    "unordered": {"protocol": "unordered", "processes": 8, "messages": 30, "loss": 0.05},
    "vector": {"protocol": "vector", "workload": "broadcast", "messages": 8, "loss": 0.05},
    "flood": {"protocol": "flood", "workload": "broadcast", "processes": 6, "messages": 5},
}  # fmt: skip


def judged(events: list[Event], directory: Path) -> Report:
    """Judge a run as it was simulated."""
    directory.mkdir()
    pq.write_table(table_of(events, "test"), directory / "events.parquet")
    processes = len({event.process for event in events})
    info = RunInfo(run="test", complete=True, processes=processes)
    (directory / "run.json").write_text(info.to_json())
    return verify(directory, violations_max=ALL)


def findings(
    report: Report, names: dict[int, str] | None = None
) -> Counter[tuple[Property, int, MessageId]]:
    """Name what is violated; chains may differ, as there may be several."""

    def old(process: int) -> int:
        return process if names is None else process_of(names[process])

    return Counter(
        (
            violation.property,
            old(violation.process),
            MessageId(old(violation.message.source), violation.message.number),
        )
        for violation in report.violations
    )


def is_extension(events: list[Event]) -> bool:
    """Whether every send stands before its deliveries, and a transmit before an arrival."""
    sent: set[object] = set()
    for event in events:
        message = (event.source, event.number)
        if event.kind is Kind.SEND:
            sent.add(message)
        elif event.kind in (Kind.RELEASE, Kind.TRANSMIT):
            sent.add((message, event.target))
        if event.kind is Kind.DELIVER and message not in sent:
            return False
        if event.kind is Kind.ARRIVE and (message, event.process) not in sent:
            return False
    return True


@pytest.mark.parametrize("name", RUNS)
def test_merged_traces_are_the_run_and_have_its_verdict(name: str, tmp_path: Path) -> None:
    events = history(**RUNS[name])
    paths = record_nodes(events, tmp_path / "nodes", skew=5.0, flush_rows=37, part_rows=100)
    merged = merge_traces(paths, tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(events)
    assert (merged.events, merged.holes, merged.notes) == (len(events), (), ())
    assert merged.messages == sum(event.kind is Kind.SEND for event in events)
    report = verify(trace, violations_max=ALL)
    expected = judged(events, tmp_path / "simulated")
    assert findings(report, trace.info.names) == findings(expected)
    assert report == replace(
        expected, violations=report.violations, kept_max=report.kept_max
    )
    assert report.held == (name != "unordered")


def test_the_rows_stand_in_an_order_that_was_possible(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    merge_traces(record_nodes(events, tmp_path / "nodes", skew=5.0), tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    found = list(trace.events())
    assert is_extension(found)
    assert not is_extension(sorted(found, key=lambda event: event.time))
    table = pq.read_table(tmp_path / "merged" / "events.parquet")
    assert table.column("step").to_pylist() == list(range(len(events)))
    places: dict[int, int] = {}
    for row in table.select(["process", "seq"]).to_pylist():
        assert row["seq"] == places.get(row["process"], 0)
        places[row["process"]] = row["seq"] + 1


def test_with_right_clocks_the_rows_stand_in_the_order_of_time(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    merge_traces(record_nodes(events, tmp_path / "nodes"), tmp_path / "merged")
    times = [event.time for event in read_trace(tmp_path / "merged").events()]
    assert times == sorted(times)


def test_neither_the_order_of_directories_nor_of_rows_matters(tmp_path: Path) -> None:
    paths = record_nodes(history(**RUNS["hybrid"]), tmp_path / "nodes", part_rows=60)
    merge_traces(paths, tmp_path / "one")
    for path in paths:
        shuffle_rows(path)
    merge_traces(paths[::-1], tmp_path / "two")
    one, two = (pq.read_table(tmp_path / n / "events.parquet") for n in ("one", "two"))
    assert one.equals(two)


def shuffle_rows(path: Path) -> None:
    """Put the rows of a node's trace in one part, in any order."""
    table = pq.read_table(path / "events.parquet")
    for part in (path / "events.parquet").iterdir():
        part.unlink()
    places = list(range(table.num_rows))
    Random(3).shuffle(places)
    pq.write_table(table.take(pa.array(places)), path / "events.parquet" / "part.parquet")


def test_a_swapped_pair_of_deliveries_turns_the_verdict(tmp_path: Path) -> None:
    events = history(processes=4, messages=30)
    merge_traces(record_nodes(events, tmp_path / "right"), tmp_path / "held")
    swap_deliveries(events, process=2)
    merge_traces(record_nodes(events, tmp_path / "wrong"), tmp_path / "violated")
    assert verify(tmp_path / "held").held
    report = verify(tmp_path / "violated")
    assert report.statuses[Property.CAUSAL] is Status.VIOLATED
    assert report.statuses[Property.FIFO] is Status.VIOLATED
    names = read_trace(tmp_path / "violated").info.names
    assert {names[violation.process] for violation in report.violations} == {name_of(2)}


def record_restarted(
    events: list[Event], directory: Path, process: int, started: list[float]
) -> list[Path]:
    """Let a process record its history in as many parts as it was started."""
    own = [event for event in events if event.process == process]
    cuts = [len(own) * part // len(started) for part in range(len(started) + 1)]
    paths = []
    for part, start in enumerate(started):
        path = directory / f"{name_of(process)}.{part}"
        node = Node(path, process, started=start)
        node.record(own[cuts[part] : cuts[part + 1]])
        node.trace.close(complete=True)
        paths.append(path)
    return paths


def test_the_starts_of_a_node_are_one_history(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[5])
    starts = record_restarted(events, tmp_path, 5, [STARTED, STARTED + 1, STARTED + 2])
    merged = merge_traces([*starts[::-1], *paths], tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(events)
    assert (merged.nodes, merged.restarts, merged.holes) == (12, 2, ())
    assert verify(trace).held


def test_starts_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[5])
    clock_set_back = [STARTED - part for part in range(10)]
    starts = record_restarted(events, tmp_path, 5, clock_set_back)
    with pytest.raises(ConfigError, match="a node that forgets its numbers needs a new"):
        merge_traces([*starts, *paths], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_node_that_begins_its_numbers_again_is_refused(tmp_path: Path) -> None:
    for start in (1.0, 2.0):
        with LiveTrace(tmp_path / f"a{start}", "a", started=start) as node:
            node.name_of(1, "b")
            node.sent(0, 1, [1], start)
    words = "a2.0: a sends message 1, though it sent up to 1 in .*a1.0, started before"
    with pytest.raises(ConfigError, match=words):
        merge_traces([tmp_path / "a2.0", tmp_path / "a1.0"], tmp_path / "merged")


def test_two_ids_of_one_name_are_one_process(tmp_path: Path) -> None:
    with LiveTrace(tmp_path / "a", "a") as node:
        node.name_of(1, "b")
        node.name_of(2, "b")
        node.sent(0, 1, [1], 0.0)
        node.sent(0, 2, [2], 0.0)
    with LiveTrace(tmp_path / "b", "b"):
        pass
    merge_traces([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    events = list(read_trace(tmp_path / "merged").events())
    assert [event.targets for event in events] == [(1,), (1,)]


def test_a_missing_node_is_a_hole_with_a_name(tmp_path: Path) -> None:
    events = history(processes=4, messages=20)
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[3])
    merged = merge_traces(paths, tmp_path / "merged")
    delivered = sum(
        event.kind is Kind.DELIVER and event.source == 3 and event.process != 3
        for event in events
    )
    copies = sum((event.targets or ()).count(3) for event in events if event.process != 3)
    assert delivered > 0
    assert merged.holes == (
        f"no trace of {name_of(3)}: {delivered} deliveries of its messages lack their send,"
        f" and of {copies} copies to it nothing is known",
    )
    kept = [event for event in events if event.process != 3]
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(kept)
    assert not trace.info.complete
    report = verify(trace)
    assert set(report.statuses.values()) == {Status.UNKNOWN}
    assert report.counts[Property.GENUINE] == delivered
    assert merged.holes[0] in report.reasons


def test_what_is_undelivered_is_lost_only_if_every_node_was_done(tmp_path: Path) -> None:
    events = history(processes=3, messages=5)
    events.append(Event(process=0, kind=Kind.SEND, source=0, number=6, targets=(1,)))
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[0])
    for complete, status in ((True, Status.VIOLATED), (False, Status.UNKNOWN)):
        node = Node(tmp_path / f"{complete}", 0)
        node.record(event for event in events if event.process == 0)
        node.trace.close(complete=complete)
        out = tmp_path / f"merged-{complete}"
        merge_traces([*paths, tmp_path / f"{complete}"], out)
        report = verify(out)
        assert report.statuses[Property.LIVE] is status
        assert report.statuses[Property.CAUSAL] is Status.HELD


def test_what_is_violated_stays_so_beside_a_hole(tmp_path: Path) -> None:
    events = history(processes=4, messages=30)
    swap_deliveries(events, process=2)
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[3])
    merge_traces(paths, tmp_path / "merged")
    report = verify(tmp_path / "merged")
    assert report.statuses[Property.FIFO] is Status.VIOLATED
    assert report.statuses[Property.LIVE] is Status.UNKNOWN


def test_a_peer_that_nobody_heard_of_or_wrote_to_is_no_hole(tmp_path: Path) -> None:
    events = history(processes=3, messages=5)
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[0])
    node = Node(tmp_path / "0", 0)
    node.meet(99)
    node.record(event for event in events if event.process == 0)
    node.trace.close(complete=True)
    merged = merge_traces([*paths, tmp_path / "0"], tmp_path / "merged")
    assert merged.holes == ()
    assert verify(tmp_path / "merged").held


def test_a_delivery_that_a_whole_trace_does_not_bear_out_is_a_violation(
    tmp_path: Path,
) -> None:
    events = history(processes=3, messages=5)
    invented = Event(process=1, kind=Kind.DELIVER, source=2, number=99, target=1)
    paths = record_nodes([*events, invented], tmp_path / "nodes")
    merged = merge_traces(paths, tmp_path / "merged")
    assert merged.holes == ()
    assert merged.notes == (f"1 deliveries of messages of {name_of(2)} lack their send",)
    report = verify(tmp_path / "merged")
    assert report.statuses[Property.GENUINE] is Status.VIOLATED


def leave_unclosed(events: list[Event], directory: Path, flushed: int, **o: object) -> None:
    """Leave what a kill after the flush leaves of the events of process 0."""
    own = [event for event in events if event.process == 0]
    running = directory.with_name(f"{directory.name}-running")
    node = Node(running, 0, **o)
    node.record(own[:flushed])
    node.trace.flush()
    node.record(own[flushed:])
    shutil.copytree(running, directory)
    node.trace.close()


def test_a_killed_node_is_merged_up_to_its_last_flush(tmp_path: Path) -> None:
    events = history(processes=3, messages=20)
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[0])
    leave_unclosed(events, tmp_path / "killed", flushed=30)
    merged = merge_traces([*paths, tmp_path / "killed"], tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    expected = by_process(events)
    expected[0] = expected[0][:30]
    assert events_by_process(trace) == expected
    killed, lacking = merged.holes
    assert killed == (
        f"{name_of(0)} was killed: up to 4,096 events are missing at the end of"
        f" {tmp_path / 'killed'}"
    )
    assert "lack their send" in lacking
    assert set(verify(trace).statuses.values()) == {Status.UNKNOWN}


def test_a_kill_that_nobody_can_have_noticed_is_no_hole(tmp_path: Path) -> None:
    """A node that flushes before anything leaves it has lost nothing that matters."""
    events = history(processes=3, messages=20)
    own = [event for event in events if event.process == 0]
    paths = record_nodes(events, tmp_path / "nodes", leave_out=[0])
    options = {"write_ahead": True, "flush_rows": 1000}
    leave_unclosed(events, tmp_path / "killed", flushed=len(own), **options)
    merged = merge_traces([*paths, tmp_path / "killed"], tmp_path / "merged")
    assert merged.holes == ()
    leave_unclosed(events, tmp_path / "earlier", flushed=30, **options)
    merged = merge_traces([*paths, tmp_path / "earlier"], tmp_path / "broken")
    assert len(merged.holes) == 1, "the promise was not kept, and it shows"


def test_histories_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    """Three deliver what was sent only after they did, round and round."""
    for process in range(3):
        node = Node(tmp_path / str(process), process)
        other, next_one = (process + 1) % 3, (process + 2) % 3
        node.record(
            [
                Event(process=process, kind=Kind.DELIVER, source=other, number=1),
                Event(process=process, kind=Kind.SEND, source=process, number=1,
                      targets=(next_one,)),
            ]
        )  # fmt: skip
        node.trace.close()
    with pytest.raises(ConfigError) as caught:
        merge_traces([tmp_path / str(process) for process in range(3)], tmp_path / "merged")
    one, two, three = (name_of(process) for process in (0, 1, 2))
    assert str(caught.value) == (
        f"no order of the events is possible: {one} delivered {two}:1, which {two} sent"
        f" only after it delivered {three}:1, which {three} sent only after it delivered"
        f" {one}:1, which {one} sent only afterwards"
    )


def test_an_arrival_before_its_release_is_noted(tmp_path: Path) -> None:
    """Sends and deliveries alone make the order then."""
    for process, other in ((0, 1), (1, 0)):
        node = Node(tmp_path / str(process), process)
        node.record(
            [
                Event(process=process, kind=Kind.ARRIVE, source=other, number=1),
                Event(process=process, kind=Kind.SEND, source=process, number=1,
                      targets=(other,)),
                Event(process=process, kind=Kind.RELEASE, source=process, number=1,
                      target=other),
                Event(process=process, kind=Kind.DELIVER, source=other, number=1),
            ]
        )  # fmt: skip
        node.trace.close(complete=True)
    merged = merge_traces([tmp_path / "0", tmp_path / "1"], tmp_path / "merged")
    assert merged.notes == ("a copy arrived before it was transmitted, by the histories",)
    assert verify(tmp_path / "merged").held


def wrong_run(nodes: list[Path]) -> list[Path]:
    LiveTrace(nodes[0].parent / "x", "x", run="other", protocol="hybrid").close()
    return [*nodes, nodes[0].parent / "x"]


def wrong_protocol(nodes: list[Path]) -> list[Path]:
    LiveTrace(nodes[0].parent / "x", "x", run="test", protocol="cykas").close()
    return [*nodes, nodes[0].parent / "x"]


def twice(nodes: list[Path]) -> list[Path]:
    return [*nodes, nodes[0]]


def simulated(nodes: list[Path]) -> list[Path]:
    directory = nodes[0].parent / "simulated"
    judged(history(processes=3, messages=3), directory)
    return [*nodes, directory]


def nameless(nodes: list[Path]) -> list[Path]:
    path = nodes[0] / "run.json"
    info = RunInfo.from_json(path.read_text())
    path.write_text(replace(info, names={0: info.names[0]}).to_json())
    return nodes


def renamed(nodes: list[Path]) -> list[Path]:
    path = nodes[0] / "run.json"
    info = RunInfo.from_json(path.read_text())
    path.write_text(replace(info, more={**info.more, "name": name_of(88)}).to_json())
    path = nodes[1] / "run.json"
    info = RunInfo.from_json(path.read_text())
    path.write_text(replace(info, names={**info.names, 88: name_of(88)}).to_json())
    return nodes


def rewritten(nodes: list[Path], column: str, value: int) -> list[Path]:
    (part,) = (nodes[0] / "events.parquet").iterdir()
    table = pq.read_table(part)
    values = [value] * table.num_rows
    place = table.schema.get_field_index(column)
    table = table.set_column(
        place, table.schema.field(place), [pa.array(values, table.schema.field(place).type)]
    )
    pq.write_table(table, part)
    return nodes


def of_another(nodes: list[Path]) -> list[Path]:
    return rewritten(nodes, "process", 1)


def same_place(nodes: list[Path]) -> list[Path]:
    return rewritten(nodes, "seq", 4)


def no_start(nodes: list[Path]) -> list[Path]:
    path = nodes[0] / "run.json"
    info = RunInfo.from_json(path.read_text())
    path.write_text(replace(info, more={"kind": "node", "name": "x"}).to_json())
    return nodes


def nothing(nodes: list[Path]) -> list[Path]:
    return []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (wrong_run, "is of run 'test' and .* of 'other'; merge the nodes of one run only"),
        (wrong_protocol, "is of protocol 'hybrid' and .* of 'cykas'"),
        (twice, "hold the same start of n.*; name each trace once"),
        (simulated, "simulated is not the trace of a node"),
        (nameless, "has no name in run.json"),
        (renamed, "process 0 is not n16-88, the node itself"),
        (of_another, "has rows of the node itself only"),
        (same_place, "two rows have the seq 4"),
        (no_start, "lacks 'name' or 'started'"),
        (nothing, "there is nothing to merge"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused(how: object, words: str, tmp_path: Path) -> None:
    assert callable(how)
    nodes = record_nodes(history(processes=3, messages=3), tmp_path / "nodes")
    with pytest.raises(ConfigError, match=words) as caught:
        merge_traces(how(nodes), tmp_path / "merged")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "merged").exists()


def test_a_merged_trace_is_never_overwritten(tmp_path: Path) -> None:
    nodes = record_nodes(history(processes=3, messages=3), tmp_path / "nodes")
    merge_traces(nodes, tmp_path / "merged")
    with pytest.raises(ConfigError, match="holds a trace already"):
        merge_traces(nodes, tmp_path / "merged")


def test_nodes_that_did_nothing_make_an_empty_trace(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LiveTrace(tmp_path / name, name).close(complete=True)
    merged = merge_traces([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert (merged.nodes, merged.events) == (2, 0)
    trace: Trace = read_trace(tmp_path / "merged")
    assert trace.rows == 0
    assert trace.info.names == {0: "a", 1: "b"}
