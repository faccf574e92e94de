"""Users may subclass workloads, recorders and observers, compiled or not."""

from collections import Counter
from collections.abc import Sequence

from antecede.core.observer import Observer
from antecede.core.process import Delivery, Transmit
from antecede.engine import Engine
from antecede.sim import Network, Scenario, run, simulate
from antecede.sim.workloads.synthetic import Broadcast, Pace
from antecede.sim.workloads.workload import PlannedSend, Workload
from antecede.trace import Kind
from antecede.trace.recorders import KINDS, EventCounter, Recorder


class Token(Workload):
    """A token that goes around a ring of processes: each one passes it on after a job."""

    def __init__(self, processes: int, rounds: int) -> None:
        super().__init__(processes)
        self.hops = processes * rounds
        self.visits: list[int] = []

    def start(self, process: int) -> list[PlannedSend]:
        return [self._pass_on(process, 1)] if process == 0 else []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        self.visits.append(process)
        return [self._pass_on(process, id + 1)] if id < self.hops else []

    def service_time_s(self, process: int, source: int, id: int) -> float:
        return 0.25

    def _pass_on(self, process: int, id: int) -> PlannedSend:
        return PlannedSend([(process + 1) % self.processes], id)


class Echo(Workload):
    """One broadcast, which every other process answers with a broadcast."""

    @property
    def broadcast(self) -> bool:
        return True

    def start(self, process: int) -> list[PlannedSend]:
        return [PlannedSend([], 1)] if process == 0 else []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        return [PlannedSend([], 2)] if process != 0 and source == 0 else []


def test_a_simulation_runs_a_workload_of_the_user() -> None:
    workload = Token(processes=3, rounds=2)
    result = simulate(Scenario(processes=3), workload=workload)
    assert workload.visits == [1, 2, 0, 1, 2, 0]
    assert result.verdict.held
    assert result.summary.copies == 6
    assert result.summary.duration_s >= 6 * 0.25


def test_a_workload_of_the_user_may_broadcast() -> None:
    result = simulate(Scenario(protocol="vector", processes=4), workload=Echo(4))
    assert result.verdict.held
    assert result.summary.copies == 4 * 3


class Counting(Recorder):
    """Counts the events of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[Kind] = Counter()

    def record(
        self,
        process: int,
        now: float,
        kind: int,
        source: int,
        number: int,
        target: int,
        payload_bytes: int,
        metadata_bytes: int,
        targets: Sequence[int] | None,
    ) -> None:
        self.kinds[KINDS[kind]] += 1


def test_a_simulation_passes_its_events_to_a_recorder_of_the_user() -> None:
    recorder = Counting()
    run("vector", Broadcast(3, 5, Pace()), Network(), EventCounter(recorder))
    assert recorder.kinds[Kind.SEND] == 15
    assert recorder.kinds[Kind.DELIVER] == 45


class Watching(Observer):
    """Keeps what a node delivers and transmits."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def delivered(self, process: int, delivery: Delivery, now: float) -> None:
        self.seen.append(f"delivered {delivery.number}")

    def transmitted(self, process: int, transmit: Transmit, now: float) -> None:
        self.seen.append(f"transmitted to {transmit.target}")


def test_an_engine_reports_to_an_observer_of_the_user() -> None:
    observer = Watching()
    engine = Engine("ann", 1, protocol_name="fifo", observer=observer)
    engine.add_peer("bob", "bob", 0.0)
    engine.send(["ann"], b"x", 0.0)
    engine.send(["bob"], b"x", 0.0)
    bob = engine.sessions["bob"].id
    assert observer.seen == ["delivered 1", f"transmitted to {bob}"]
