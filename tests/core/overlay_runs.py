"""Random runs on overlays with changing links, for the tests of broadcasts."""

from collections.abc import Iterable, Sequence
from random import Random

from antecede.core.codec import Frame
from antecede.core.link_frames import Segment
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.flood import RelayedMessage
from antecede.testing import Cluster
from antecede.trace import Event, Kind
from antecede.verify import Verdict, verify_events

Links = Sequence[Sequence[int]]


def ids(numbers: Iterable[int]) -> list[ProcessId]:
    return [ProcessId(number) for number in numbers]


def ring(processes: int, *, both_ways: bool = False) -> list[list[int]]:
    """Link each process to the next one, and to the previous one if ``both_ways``."""
    return [
        list(
            dict.fromkeys(
                [(i + 1) % processes, *([(i - 1) % processes] if both_ways else [])]
            )
        )
        for i in range(processes)
    ]


def random_links(random: Random, processes: int) -> list[list[int]]:
    """Return a strongly connected overlay: a random ring and some chords."""
    order = list(range(processes))
    random.shuffle(order)
    links: list[list[int]] = [[] for _ in range(processes)]
    for index, member in enumerate(order):
        links[member].append(order[(index + 1) % processes])
    for member in range(processes):
        for _ in range(random.randrange(3)):
            peer = random.randrange(processes)
            if peer != member and peer not in links[member]:
                links[member].append(peer)
    return links


def first_of_each_pair(cluster: Cluster) -> list[int]:
    """Return the indexes of the packets that may arrive next on FIFO links."""
    pairs: dict[tuple[int, int], int] = {}
    for index, packet in enumerate(cluster.in_flight):
        pairs.setdefault((packet.source, packet.target), index)
    return list(pairs.values())


def arrive_random(cluster: Cluster, random: Random) -> None:
    """Pass on the first packet of a random pair."""
    if cluster.in_flight:
        cluster.arrive(random.choice(first_of_each_pair(cluster)))


def run_until_idle_fifo(
    cluster: Cluster, random: Random | None = None, crashed: Iterable[int] = ()
) -> None:
    """Pass on all packets, each pair in order, until the cluster is idle."""
    gone = set(crashed)
    for _ in range(100_000):
        cluster.in_flight[:] = [
            p for p in cluster.in_flight if p.source not in gone and p.target not in gone
        ]
        if cluster.in_flight:
            choices = first_of_each_pair(cluster)
            cluster.arrive(random.choice(choices) if random else choices[0])
            continue
        timers = [
            process.next_timer()
            for index, process in enumerate(cluster.processes)
            if index not in gone
        ]
        due = min((timer for timer in timers if timer is not None), default=None)
        if due is None:
            return
        cluster.paused = set(gone)
        cluster.pass_time(max(due - cluster.now, 0.0))
    raise AssertionError("not at rest")


def arrive(cluster: Cluster, kind: type[Frame], source: int, target: int) -> Frame:
    """Pass on the next packet of a pair, which must carry a frame of type ``kind``."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target) == (source, target):
            assert isinstance(packet.frame, kind), packet
            cluster.arrive(index)
            return packet.frame
    raise AssertionError(f"nothing from {source} to {target} in flight")


def in_flight(cluster: Cluster, kind: type[Frame], source: int, target: int) -> int:
    return sum(
        (p.source, p.target) == (source, target) and isinstance(p.frame, kind)
        for p in cluster.in_flight
    )


def messages_to(process: ProcessBase, target: int) -> list[tuple[int, int]]:
    """Drain a process; return the messages that it transmits to ``target``."""
    messages = []
    for transmit in process.frames_to_transmit():
        frame = transmit.frame
        if isinstance(frame, Segment):
            frame = frame.frame
        if transmit.target == target and isinstance(frame, RelayedMessage):
            messages.append((int(frame.source), frame.number))
    return messages


def churn(
    cluster: Cluster,
    random: Random,
    *,
    backbone: Links,
    steps: int,
    faults: bool = False,
    add: bool = True,
    seconds: Sequence[float] = (),
) -> None:
    """Broadcast, pass packets on, and add and remove links outside the backbone."""
    members = len(cluster.processes)
    linked = [set(peers) for peers in backbone]
    for _ in range(steps):
        draw = random.random()
        source = random.randrange(members)
        target = random.randrange(members)
        if draw < 0.12:
            cluster.broadcast(source)
        elif draw < 0.27:
            if target == source or target in backbone[source]:
                continue
            if target in linked[source]:
                linked[source].discard(target)
                cluster.disconnect(source, target)
            elif add:
                linked[source].add(target)
                cluster.connect(source, target)
        elif draw < 0.32 and seconds:
            cluster.pass_time(random.choice(seconds))
        elif not cluster.in_flight:
            continue
        elif faults:
            index = random.randrange(len(cluster.in_flight))
            random.choice((cluster.arrive,) * 6 + (cluster.drop, cluster.duplicate))(index)
        else:
            arrive_random(cluster, random)


def verify_with(cluster: Cluster, kind: Kind, members: Iterable[int]) -> Verdict:
    """Verify a run in which ``members`` joined, left or crashed."""
    changes = [Event(process=member, kind=kind) for member in members]
    return verify_events(changes + cluster.history, processes=len(cluster.processes))


def explain(verdict: Verdict) -> str:
    return "\n".join(str(violation) for violation in verdict.violations)
