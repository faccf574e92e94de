"""The merged traces of nodes are the trace of the run."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import AntecedeError, ConfigError, TraceError
from antecede.merge.merge import merge_traces
from antecede.trace import Event, Kind
from antecede.trace.live.writer import NodeTraceWriter
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.verify import MessageId, Property
from antecede.verify.verdict import Status, TraceVerdict
from antecede.verify.verifier import verify_trace
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


def verify_simulated(events: list[Event], directory: Path) -> TraceVerdict:
    """Verify the simulated run itself."""
    directory.mkdir()
    pq.write_table(events_to_table(events, "test"), directory / "events.parquet")
    processes = len({event.process for event in events})
    info = RunInfo(run="test", complete=True, processes=processes)
    (directory / "run.json").write_text(info.to_json())
    return verify_trace(directory, violations_max=ALL)


def violation_keys(
    verdict: TraceVerdict, names: dict[int, str] | None = None
) -> Counter[tuple[Property, int, MessageId]]:
    """Return the violations without their chains, of which there may be several."""

    def original(process: int) -> int:
        return process if names is None else process_of(names[process])

    return Counter(
        (
            violation.property,
            original(violation.process),
            MessageId(original(violation.message.source), violation.message.number),
        )
        for violation in verdict.violations
    )


def is_extension(events: list[Event]) -> bool:
    """Return whether sends precede deliveries, and transmits precede arrivals."""
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


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_merged_traces_are_the_run_and_have_its_verdict(name: str, tmp_path: Path) -> None:
    events = history(**RUNS[name])
    paths = record_nodes(events, tmp_path / "nodes", skew=5.0, flush_rows=37, part_rows=100)
    merged = merge_traces(paths, tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(events)
    assert (merged.events, merged.missing, merged.notes) == (len(events), (), ())
    assert merged.messages == sum(event.kind is Kind.SEND for event in events)
    verdict = verify_trace(trace, violations_max=ALL)
    expected = verify_simulated(events, tmp_path / "simulated")
    assert violation_keys(verdict, trace.info.names) == violation_keys(expected)
    assert verdict == replace(
        expected, violations=verdict.violations, limits_max=verdict.limits_max
    )
    assert verdict.held == (name != "unordered")


def test_the_rows_are_in_a_linear_extension(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    merge_traces(record_nodes(events, tmp_path / "nodes", skew=5.0), tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    found = list(trace.events())
    assert is_extension(found)
    assert not is_extension(sorted(found, key=lambda event: event.time))
    table = pq.read_table(tmp_path / "merged" / "events.parquet")
    assert table.column("step").to_pylist() == list(range(len(events)))
    next_seq: dict[int, int] = {}
    for row in table.select(["process", "seq"]).to_pylist():
        assert row["seq"] == next_seq.get(row["process"], 0)
        next_seq[row["process"]] = row["seq"] + 1


def test_with_correct_clocks_the_rows_are_in_the_order_of_time(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    merge_traces(record_nodes(events, tmp_path / "nodes"), tmp_path / "merged")
    times = [event.time for event in read_trace(tmp_path / "merged").events()]
    assert times == sorted(times)


@pytest.mark.long
def test_the_result_does_not_depend_on_the_order_of_directories_or_rows(
    tmp_path: Path,
) -> None:
    paths = record_nodes(history(**RUNS["hybrid"]), tmp_path / "nodes", part_rows=60)
    merge_traces(paths, tmp_path / "one")
    for path in paths:
        shuffle_rows(path)
    merge_traces(paths[::-1], tmp_path / "two")
    one, two = (pq.read_table(tmp_path / n / "events.parquet") for n in ("one", "two"))
    assert one.equals(two)


def shuffle_rows(path: Path) -> None:
    """Rewrite a node's trace as one part with its rows in random order."""
    table = pq.read_table(path / "events.parquet")
    for part in (path / "events.parquet").iterdir():
        part.unlink()
    indexes = list(range(table.num_rows))
    Random(3).shuffle(indexes)
    pq.write_table(table.take(pa.array(indexes)), path / "events.parquet" / "part.parquet")


def test_two_swapped_deliveries_violate_causal_order(tmp_path: Path) -> None:
    events = history(processes=4, messages=30)
    merge_traces(record_nodes(events, tmp_path / "right"), tmp_path / "held")
    swap_deliveries(events, process=2)
    merge_traces(record_nodes(events, tmp_path / "wrong"), tmp_path / "violated")
    assert verify_trace(tmp_path / "held").held
    verdict = verify_trace(tmp_path / "violated")
    assert verdict.statuses[Property.CAUSAL] is Status.VIOLATED
    assert verdict.statuses[Property.FIFO] is Status.VIOLATED
    names = read_trace(tmp_path / "violated").info.names
    assert {names[violation.process] for violation in verdict.violations} == {name_of(2)}


def record_restarted(
    events: list[Event], directory: Path, process: int, started: list[float]
) -> list[Path]:
    """Record the history of a process as that of several incarnations."""
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


@pytest.mark.long
def test_the_incarnations_of_a_node_are_one_history(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    paths = record_nodes(events, tmp_path / "nodes", skip=[5])
    incarnations = record_restarted(
        events, tmp_path, 5, [STARTED, STARTED + 1, STARTED + 2]
    )
    merged = merge_traces([*incarnations[::-1], *paths], tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(events)
    assert (merged.nodes, merged.restarts, merged.missing) == (12, 2, ())
    assert verify_trace(trace).held


def test_incarnations_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    events = history(**RUNS["hybrid"])
    paths = record_nodes(events, tmp_path / "nodes", skip=[5])
    clock_set_back = [STARTED - part for part in range(10)]
    incarnations = record_restarted(events, tmp_path, 5, clock_set_back)
    with pytest.raises(TraceError, match="a node that restarts its numbers needs a new"):
        merge_traces([*incarnations, *paths], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_node_that_restarts_its_numbers_is_refused(tmp_path: Path) -> None:
    for start in (1.0, 2.0):
        with NodeTraceWriter(tmp_path / f"a{start}", "a", started=start) as node:
            node.set_name(1, "b")
            node.observer.sent(0, 1, [1], start)
    reason = "a2.0: a sends message 1, but its earlier trace .*a1.0 ends with message 1"
    with pytest.raises(TraceError, match=reason):
        merge_traces([tmp_path / "a2.0", tmp_path / "a1.0"], tmp_path / "merged")


def test_two_ids_of_one_name_are_one_process(tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path / "a", "a") as node:
        node.set_name(1, "b")
        node.set_name(2, "b")
        node.observer.sent(0, 1, [1], 0.0)
        node.observer.sent(0, 2, [2], 0.0)
    with NodeTraceWriter(tmp_path / "b", "b"):
        pass
    merge_traces([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    events = list(read_trace(tmp_path / "merged").events())
    assert [event.targets for event in events] == [(1,), (1,)]


def test_a_missing_node_is_reported_by_name(tmp_path: Path) -> None:
    events = history(processes=4, messages=20)
    paths = record_nodes(events, tmp_path / "nodes", skip=[3])
    merged = merge_traces(paths, tmp_path / "merged")
    delivered = sum(
        event.kind is Kind.DELIVER and event.source == 3 and event.process != 3
        for event in events
    )
    copies = sum((event.targets or ()).count(3) for event in events if event.process != 3)
    assert delivered > 0
    assert merged.missing == (
        f"no trace of {name_of(3)}: {delivered} deliveries of its messages lack their send,"
        f" and the deliveries of {copies} copies to it are unknown",
    )
    kept = [event for event in events if event.process != 3]
    trace = read_trace(tmp_path / "merged")
    assert events_by_process(trace) == by_process(kept)
    assert not trace.info.complete
    verdict = verify_trace(trace)
    assert set(verdict.statuses.values()) == {Status.UNKNOWN}
    assert verdict.counts[Property.NO_CREATION] == delivered
    assert merged.missing[0] in verdict.reasons
    # Without run.json, the events themselves show that deliveries are missing.
    (tmp_path / "merged" / "run.json").unlink()
    copied = verify_trace(tmp_path / "merged")
    assert set(copied.statuses.values()) == {Status.UNKNOWN}


def test_undelivered_messages_are_lost_only_if_every_node_was_complete(
    tmp_path: Path,
) -> None:
    events = history(processes=3, messages=5)
    events.append(Event(process=0, kind=Kind.SEND, source=0, number=6, targets=(1,)))
    paths = record_nodes(events, tmp_path / "nodes", skip=[0])
    for complete, status in ((True, Status.VIOLATED), (False, Status.UNKNOWN)):
        node = Node(tmp_path / f"{complete}", 0)
        node.record(event for event in events if event.process == 0)
        node.trace.close(complete=complete)
        out = tmp_path / f"merged-{complete}"
        merge_traces([*paths, tmp_path / f"{complete}"], out)
        verdict = verify_trace(out)
        assert verdict.statuses[Property.LIVENESS] is status
        assert verdict.statuses[Property.CAUSAL] is Status.HELD


def test_a_violation_remains_if_a_node_is_missing(tmp_path: Path) -> None:
    events = history(processes=4, messages=30)
    swap_deliveries(events, process=2)
    paths = record_nodes(events, tmp_path / "nodes", skip=[3])
    merge_traces(paths, tmp_path / "merged")
    verdict = verify_trace(tmp_path / "merged")
    assert verdict.statuses[Property.FIFO] is Status.VIOLATED
    assert verdict.statuses[Property.LIVENESS] is Status.UNKNOWN


def test_a_peer_without_any_message_is_not_reported_missing(tmp_path: Path) -> None:
    events = history(processes=3, messages=5)
    paths = record_nodes(events, tmp_path / "nodes", skip=[0])
    node = Node(tmp_path / "0", 0)
    node.id_of(99)
    node.record(event for event in events if event.process == 0)
    node.trace.close(complete=True)
    merged = merge_traces([*paths, tmp_path / "0"], tmp_path / "merged")
    assert merged.missing == ()
    assert verify_trace(tmp_path / "merged").held


def test_a_delivery_without_a_send_in_a_closed_trace_is_a_violation(
    tmp_path: Path,
) -> None:
    events = history(processes=3, messages=5)
    invented = Event(process=1, kind=Kind.DELIVER, source=2, number=99, target=1)
    paths = record_nodes([*events, invented], tmp_path / "nodes")
    merged = merge_traces(paths, tmp_path / "merged")
    assert merged.missing == ()
    assert merged.notes == (f"1 deliveries of messages of {name_of(2)} lack their send",)
    verdict = verify_trace(tmp_path / "merged")
    assert verdict.statuses[Property.NO_CREATION] is Status.VIOLATED


def record_killed(events: list[Event], directory: Path, flushed: int, **o: object) -> None:
    """Record the events of process 0 as a node that is killed after a flush."""
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
    paths = record_nodes(events, tmp_path / "nodes", skip=[0])
    record_killed(events, tmp_path / "killed", flushed=30)
    merged = merge_traces([*paths, tmp_path / "killed"], tmp_path / "merged")
    trace = read_trace(tmp_path / "merged")
    expected = by_process(events)
    expected[0] = expected[0][:30]
    assert events_by_process(trace) == expected
    killed, lacking = merged.missing
    assert killed == (
        f"{name_of(0)} was killed: up to 4,096 events are missing at the end of"
        f" {tmp_path / 'killed'}"
    )
    assert "lack their send" in lacking
    assert set(verify_trace(trace).statuses.values()) == {Status.UNKNOWN}


def test_a_kill_without_visible_effects_is_not_reported_missing(tmp_path: Path) -> None:
    """A node that flushes before it transmits has lost no event that others saw."""
    events = history(processes=3, messages=20)
    own = [event for event in events if event.process == 0]
    paths = record_nodes(events, tmp_path / "nodes", skip=[0])
    options = {"write_ahead": True, "flush_rows": 1000}
    record_killed(events, tmp_path / "killed", flushed=len(own), **options)
    merged = merge_traces([*paths, tmp_path / "killed"], tmp_path / "merged")
    assert merged.missing == ()
    record_killed(events, tmp_path / "earlier", flushed=30, **options)
    merged = merge_traces([*paths, tmp_path / "earlier"], tmp_path / "broken")
    assert len(merged.missing) == 1, "the node broke its promise to write ahead"


def test_histories_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """Three processes each deliver a message that was sent only afterwards."""
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
    with pytest.raises(TraceError) as caught:
        merge_traces([tmp_path / str(process) for process in range(3)], tmp_path / "merged")
    one, two, three = (name_of(process) for process in (0, 1, 2))
    assert str(caught.value) == (
        f"the histories contradict each other: {one} delivered {two}:1, which {two} sent"
        f" only after it delivered {three}:1, which {three} sent only after it delivered"
        f" {one}:1, which {one} sent only afterwards"
    )


def test_an_arrival_before_its_release_is_noted(tmp_path: Path) -> None:
    """The order is then derived from sends and deliveries only."""
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
    assert merged.notes == ("by the histories, a copy arrived before it was transmitted",)
    assert verify_trace(tmp_path / "merged").held


def wrong_run(nodes: list[Path]) -> list[Path]:
    NodeTraceWriter(nodes[0].parent / "x", "x", run="other", protocol="hybrid").close()
    return [*nodes, nodes[0].parent / "x"]


def wrong_protocol(nodes: list[Path]) -> list[Path]:
    NodeTraceWriter(nodes[0].parent / "x", "x", run="test", protocol="cykas").close()
    return [*nodes, nodes[0].parent / "x"]


def twice(nodes: list[Path]) -> list[Path]:
    return [*nodes, nodes[0]]


def simulated(nodes: list[Path]) -> list[Path]:
    directory = nodes[0].parent / "simulated"
    verify_simulated(history(processes=3, messages=3), directory)
    return [*nodes, directory]


def without_name(nodes: list[Path]) -> list[Path]:
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
    index = table.schema.get_field_index(column)
    field = table.schema.field(index)
    table = table.set_column(index, field, [pa.array(values, field.type)])
    pq.write_table(table, part)
    return nodes


def other_process(nodes: list[Path]) -> list[Path]:
    return rewritten(nodes, "process", 1)


def equal_seq(nodes: list[Path]) -> list[Path]:
    return rewritten(nodes, "seq", 4)


def no_start(nodes: list[Path]) -> list[Path]:
    path = nodes[0] / "run.json"
    info = RunInfo.from_json(path.read_text())
    path.write_text(replace(info, more={"kind": "node", "name": "x"}).to_json())
    return nodes


def nothing(nodes: list[Path]) -> list[Path]:
    return []


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (wrong_run, TraceError, "has run 'test', .* has 'other'; merge only nodes of one"),
        (wrong_protocol, TraceError, "has protocol 'hybrid', .* has 'cykas'"),
        (twice, TraceError, "of the same incarnation of n.*; pass each trace once"),
        (simulated, TraceError, "simulated is not the trace of a node"),
        (without_name, TraceError, "has no name in run.json"),
        (renamed, TraceError, "process 0 must have the name of the node, 'n16-88'"),
        (other_process, TraceError, "all rows must be of process 0, the node itself"),
        (equal_seq, TraceError, "two rows have seq 4"),
        (no_start, TraceError, "lacks 'name' or 'started'"),
        (nothing, ConfigError, "no traces to merge"),
    ],
)  # fmt: skip
def test_invalid_traces_are_refused(
    change: object, error: type[AntecedeError], reason: str, tmp_path: Path
) -> None:
    assert callable(change)
    nodes = record_nodes(history(processes=3, messages=3), tmp_path / "nodes")
    with pytest.raises(error, match=reason) as caught:
        merge_traces(change(nodes), tmp_path / "merged")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "merged").exists()


def test_a_merged_trace_is_never_overwritten(tmp_path: Path) -> None:
    nodes = record_nodes(history(processes=3, messages=3), tmp_path / "nodes")
    merge_traces(nodes, tmp_path / "merged")
    with pytest.raises(ConfigError, match="already holds a trace"):
        merge_traces(nodes, tmp_path / "merged")


def test_nodes_without_events_are_merged_to_an_empty_trace(tmp_path: Path) -> None:
    for name in ("a", "b"):
        NodeTraceWriter(tmp_path / name, name).close(complete=True)
    merged = merge_traces([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert (merged.nodes, merged.events) == (2, 0)
    trace: Trace = read_trace(tmp_path / "merged")
    assert trace.rows == 0
    assert trace.info.names == {0: "a", 1: "b"}
