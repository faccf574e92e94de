"""Schedules of ``bounded`` in which a rule of docs/explanation/bounded.md matters."""

from collections.abc import Callable

from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.testing import Cluster, Packet


def cluster(processes: int, budget_bytes: int) -> Cluster:
    config = ProcessConfig(processes=processes, budget_bytes=budget_bytes)
    return Cluster("bounded", processes, config=config)


def is_message(packet: Packet, source: int, target: int) -> bool:
    return (
        packet.source == source
        and packet.target == target
        and isinstance(packet.frame, MessageFrame)
    )


def arrive(run: Cluster, source: int, target: int, number: int = 0) -> None:
    """Let the first packet of a pair arrive, or that with a message of this number."""
    for index, packet in enumerate(run.in_flight):
        if packet.source == source and packet.target == target:
            frame = packet.frame
            if number == 0 or (isinstance(frame, MessageFrame) and frame.number == number):
                run.arrive(index)
                return
    raise AssertionError(f"no packet from {source} to {target}")


def arrive_all(
    run: Cluster,
    slow: Callable[[Packet], bool] = lambda _: False,
    lost: Callable[[Packet], bool] = lambda _: False,
) -> None:
    """Let all packets arrive, except slow ones and lost ones."""
    index = 0
    while index < len(run.in_flight):
        packet = run.in_flight[index]
        if lost(packet):
            run.drop(index)
        elif slow(packet):
            index += 1
        else:
            run.arrive(index)
            index = 0


def queue_copy(run: Cluster) -> None:
    """Let process 2 have the entry (0, 3, 1) of process 1, and send 2:2 to process 4.

    2:2 is queued, because the copy of 2:1 to process 5 is not acked.
    """

    def slow(packet: Packet) -> bool:
        return 3 in (packet.source, packet.target)

    run.send(0, [3])
    run.send(0, [1])
    arrive_all(run, slow)
    run.send(1, [2])
    arrive_all(run, slow)
    run.send(2, [5])
    run.send(2, [4])
    assert not any(packet.target == 4 for packet in run.in_flight)


def test_an_ack_makes_room_for_a_queued_copy() -> None:
    run = cluster(6, 5)
    queue_copy(run)
    arrive_all(run, lambda packet: 3 in (packet.source, packet.target))
    assert run.delivered(4) == [(2, 2)]


def test_an_entry_that_absence_settles_releases_a_queued_copy() -> None:
    run = cluster(6, 5)
    queue_copy(run)
    arrive_all(run, lost=lambda packet: (packet.source, packet.target) == (1, 2))
    run.in_flight.clear()
    run.send(1, [2])
    run.run_until_idle()
    assert run.delivered(4) == [(2, 2)]


def entries_for(run: Cluster, target: int, process: int, sources: tuple[int, ...]) -> None:
    """Let a process have an entry for a target from each source."""
    for source in sources:
        run.send(source, [target])
        run.send(source, [process])


def test_a_wildcard_stays_if_the_peer_omits_what_it_was_told_later() -> None:
    # Process 1 puts a wildcard for 5 on 1:1 to process 0, which sends 0:1 to 5. Then 2
    # tells 0 the entries, and 0 tells 1, so that 1 does not list them on 1:2 to 0.
    def slow(packet: Packet) -> bool:
        return any(is_message(packet, *pair) for pair in ((3, 5), (4, 5), (8, 6), (9, 7)))

    run = cluster(10, 12)
    entries_for(run, 5, 1, (3, 4))
    run.send(3, [2])
    run.send(4, [2])
    entries_for(run, 6, 1, (8,))
    entries_for(run, 7, 1, (9,))
    arrive_all(run, slow)
    run.now = 4.0  # Four timeouts, so that the entries are replaced.
    run.send(1, [0])
    arrive_all(run, slow)
    run.send(0, [5])
    for source, target in ((2, 0), (0, 1), (1, 0), (0, 9)):
        run.send(source, [target])
        arrive_all(run, slow)
    assert run.delivered(5) == []
    run.run_until_idle()
    assert run.verdict().held


def with_wildcard() -> tuple[Cluster, Callable[[Packet], bool]]:
    """Let process 1 have a wildcard for process 2, on 0:1."""

    def slow(packet: Packet) -> bool:
        return any(is_message(packet, *pair) for pair in ((3, 2), (4, 2), (5, 6)))

    run = cluster(8, 8)
    entries_for(run, 2, 0, (3, 4))
    entries_for(run, 6, 0, (5,))
    arrive_all(run, slow)
    run.now = 4.0  # Four timeouts, so that the entries are replaced.
    run.send(0, [1])
    arrive_all(run, slow)
    return run, slow


def test_an_answer_does_not_clear_the_wildcard_of_a_queued_copy() -> None:
    run, slow = with_wildcard()
    arrive_all(run, lost=lambda packet: (packet.source, packet.target) == (0, 1))
    run.send(0, [7])
    run.now += 0.5  # A round trip, so that younger entries are not replaced.
    arrive_all(run, slow)
    entries_for(run, 2, 0, (3, 4))
    entries_for(run, 6, 0, (5,))
    arrive_all(run, slow)
    run.send(0, [1])
    run.fire(1)  # The query about 0:1.
    arrive_all(run, slow)
    run.pass_time(10.0)  # 0:3 leaves with a wildcard.
    arrive_all(run, slow)
    run.send(1, [2])
    arrive_all(run, slow)
    assert run.delivered(2) == [(3, 1), (4, 1)]
    run.run_until_idle()
    assert run.verdict().held


def test_a_forgotten_peer_is_not_told_that_its_wildcards_are_cleared() -> None:
    run, slow = with_wildcard()
    process = run.processes[0]
    assert isinstance(process, ProcessBase)
    assert process.recovery is not None
    assert process.recovery.forget(ProcessId(1))
    run.pass_time(5.0)
    arrive_all(run, slow)
    run.send(1, [2])
    arrive_all(run, slow)
    assert run.delivered(2) == []
    run.run_until_idle()
    assert run.verdict().held


def test_a_held_message_of_a_stopped_process_is_dropped() -> None:
    for has_sent in (False, True):
        run = cluster(4, 32)
        if has_sent:
            run.send(1, [0])
            arrive_all(run)
        run.send(2, [1])
        run.send(2, [0])
        arrive(run, 2, 0)
        run.send(0, [1])
        arrive(run, 0, 1, 1)  # It is held for 2:1.
        run.in_flight = [each for each in run.in_flight if each.source != 0]
        run.forgo_permits(1, 0)
        arrive(run, 2, 1)
        assert run.delivered(1) == [(2, 1)]
