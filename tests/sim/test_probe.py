"""Samples of the state of processes."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.core.overlay.graphs import ring
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.matrix import Matrix
from antecede.errors import ConfigError
from antecede.sim import Scenario, simulate
from antecede.sim.churn import Churn, Leave
from antecede.sim.probe import Probe, Sample, count_numbers, mean_path, parse_probe
from antecede.sim.simulate import simulate_to
from antecede.verify.verifier import verify_trace

LIVE = Scenario(
    protocol="pc-broadcast",
    processes=40,
    messages=1,
    workload="broadcast:senders=1",
    delay="1",
    reliable=True,
    overlay="spray:exchange_s=20,until_s=90,linger_s=8",
    probe="links:60,10,3",
)


def values(samples: tuple[Sample, ...], measure: str) -> list[float]:
    return [sample.value for sample in samples if sample.measure == measure]


def test_the_mean_path_of_a_ring_is_known() -> None:
    # From anywhere: two at each distance of 1 to 4.
    assert mean_path(ring(9), range(9)) == (2.5, 0.0)
    assert mean_path(ring(9, both_ways=False), [4]) == (4.5, 0.0)


def test_unreached_processes_are_counted_and_not_averaged() -> None:
    links = [[1], [0], [3], [2]]
    hops, unreached = mean_path(links, [0, 2])
    assert hops == 1
    assert unreached == pytest.approx(2 / 3)
    assert mean_path([[], []], [0]) == (0.0, 1.0)


def test_safe_and_unsafe_links_are_counted_at_the_given_times() -> None:
    run = simulate(LIVE)
    assert run.verdict.held
    assert [s.time for s in run.samples if s.measure == "links"] == [60, 70, 80]
    unsafe = values(run.samples, "unsafe_links")
    links = values(run.samples, "links")
    assert all(0 < few < all_ for few, all_ in zip(unsafe, links, strict=True))
    assert values(run.samples, "unreached") == [0, 0, 0]
    # Links that linger are not in a view, and make paths shorter.
    in_views = values(run.samples, "view_links")
    assert all(some < all_ for some, all_ in zip(in_views, links, strict=True))
    longer = values(run.samples, "view_mean_path")
    shorter = values(run.samples, "mean_path")
    assert all(some > other for some, other in zip(longer, shorter, strict=True))


def test_flood_has_the_same_overlay_and_no_unsafe_links() -> None:
    flood = simulate(replace(LIVE, protocol="flood"))
    assert values(flood.samples, "unsafe_links") == [0, 0, 0]
    pc_broadcast = simulate(LIVE)
    assert values(flood.samples, "links") == values(pc_broadcast.samples, "links")
    pairs = zip(
        values(flood.samples, "mean_path"),
        values(pc_broadcast.samples, "mean_path"),
        strict=True,
    )
    assert all(some < other for some, other in pairs)


@pytest.mark.long
def test_sampling_changes_nothing_in_a_run() -> None:
    for probe in ("links:10,7,9", "state:5,5,5+work", "work"):
        assert simulate(replace(LIVE, probe=probe)).history == simulate(LIVE).history
    complete = simulate(replace(LIVE, probe="state:1,1,1")).summary
    assert complete.complete
    cut = simulate(replace(LIVE, until_s=65)).samples
    assert {sample.time for sample in cut} == {60}


class _Cycle:
    __slots__ = ("me", "missing", "payload", "rows")

    def __init__(self) -> None:
        self.me = self
        self.rows = [(1, 2, 3)] * 4
        self.payload = b"a" * 1000


def test_numbers_are_counted_wherever_they_are() -> None:
    assert count_numbers({1: [2, 3.5], 4: None, 5: (b"abc", "d", True)}) == 5
    shared = [1, 2, 3]
    assert count_numbers([shared, shared]) == 6
    assert (
        count_numbers(_Cycle()) == 12
    )  # The cycle counts once, the unset attribute not at all.


def test_a_process_of_matrix_stores_a_square_matrix() -> None:
    small, large = (count_numbers(Matrix(ProcessId(0), n)) for n in (10, 20))
    square = [n * n + 2 * n for n in (10, 20)]  # The matrix, and two vectors.
    assert large - small >= square[1] - square[0]
    assert large - small <= 2 * (square[1] - square[0])


def test_state_is_sampled_and_grows_with_queued_messages() -> None:
    busy = simulate(
        protocol="buffer",
        processes=4,
        messages=30,
        gap="0.001",
        delay="0.1",
        reliable=True,
        probe="state:0.03,1,1+state:0.03,1,1",
    )
    idle = simulate(
        protocol="buffer",
        processes=4,
        messages=30,
        gap="0.001",
        delay="0.1",
        reliable=True,
        probe="state:50,1,1",
    )
    most = values(busy.samples, "state_numbers_max")[0]
    assert most >= values(busy.samples, "state_numbers_mean")[0]
    assert values(idle.samples, "state_numbers_max")[0] + 20 < most


def test_work_is_timed_at_both_ends() -> None:
    run = simulate(processes=5, messages=20, probe="work")
    assert {sample.measure for sample in run.samples} == {
        "sender_work_us",
        "receiver_work_us",
    }
    quiet = simulate(
        protocol="vector", processes=2, messages=0, workload="broadcast", probe="work"
    )
    assert quiet.samples == ()


def test_samples_are_written_beside_the_events(tmp_path: Path) -> None:
    simulate_to(tmp_path, LIVE, name="live")
    found = pq.read_table(tmp_path / "samples.parquet").to_pylist()
    expected = simulate(LIVE).samples
    assert [
        Sample(**{k: v for k, v in row.items() if k != "run"}) for row in found
    ] == list(expected)
    assert {row["run"] for row in found} == {"live"}
    assert verify_trace(tmp_path).held


@pytest.mark.parametrize(
    "text", ["links", "links:1,2", "links:1,1,-1", "state:1,1,0.5", "size:1,1,1", "work:1"]
)
def test_an_invalid_probe_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_probe(text)


def test_an_empty_text_is_no_probe() -> None:
    assert parse_probe("") is None
    both = parse_probe("links:1,2,3+state:2,1,2")
    assert both is not None
    assert both.times == [1, 2, 3, 5]


def test_links_of_a_protocol_without_links_are_refused() -> None:
    with pytest.raises(ConfigError, match="only flood and pc-broadcast"):
        simulate(protocol="vector", workload="broadcast", probe="links:0,1,1")


def test_a_probe_is_refused_in_a_run_with_leaves() -> None:
    leaving = Churn(leaves=(Leave(process=1, at_s=1.0),))
    with pytest.raises(ConfigError, match="a probe cannot be used"):
        simulate(LIVE, churn=leaving)


def test_a_command_has_the_probe_and_the_overlay() -> None:
    command = LIVE.command()
    assert "--overlay spray:exchange_s=20,until_s=90,linger_s=8" in command
    assert "--probe links:60,10,3" in command


def test_a_probe_without_work_does_not_wrap_processes() -> None:
    processes: list[ProcessBase] = [Matrix(ProcessId(0), 2)]
    assert Probe().wrap(processes) is processes
    assert Probe(work=True).wrap(processes)[0] is not processes[0]
