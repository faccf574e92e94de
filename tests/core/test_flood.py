"""``flood``: causal as long as no link is added (Figure 3)."""

from collections.abc import Iterable
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import decode, encode
from antecede.core.codec import Frame
from antecede.core.link import ReliableLink
from antecede.core.link_frames import Segment, read_link_frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.flood import Flood, RelayedMessage, read_flood
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.support.interval_set import IntervalSet
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster
from antecede.verify import Property
from tests.core.overlay_runs import (
    arrive,
    churn,
    explain,
    ids,
    in_flight,
    messages_to,
    random_links,
    ring,
    run_until_idle_fifo,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
A, B, C, D = range(4)


def flood_cluster(links: list[list[int]]) -> Cluster:
    return Cluster("flood", len(links), make=lambda own: Flood(own, ids(links[own])))


def linked_cluster(links: list[list[int]]) -> Cluster:
    return Cluster(
        "flood",
        len(links),
        make=lambda own: ReliableLink(Flood(own, ids(links[own])), True, POLICY),
    )


def test_figure_1_no_path_delivers_b_before_a() -> None:
    cluster = flood_cluster([[B, C], [A, C], [A, B]])
    cluster.broadcast(A, b"a")
    arrive(cluster, RelayedMessage, A, B)
    cluster.broadcast(B, b"b")
    assert cluster.delivered(B) == [(A, 1), (B, 1)]
    arrive(cluster, RelayedMessage, B, C)  # a, forwarded by B, before b
    arrive(cluster, RelayedMessage, B, C)
    assert cluster.delivered(C) == [(A, 1), (B, 1)]
    run_until_idle_fifo(cluster)
    assert cluster.verdict().held
    assert (
        len([e for e in cluster.history if e.kind.value in ("release", "transmit")]) == 12
    )


def test_figure_3_a_new_link_breaks_causal_order() -> None:
    """a takes the longer path through B, a' the new link; C is affected, too."""
    cluster = flood_cluster([[B], [D], [A], [C]])
    cluster.broadcast(A, b"a")
    cluster.connect(A, D)
    cluster.broadcast(A, b"a'")
    arrive(cluster, RelayedMessage, A, D)
    assert cluster.delivered(D) == [(A, 2)]
    run_until_idle_fifo(cluster)
    verdict = cluster.verdict()
    assert verdict.violated() == {Property.CAUSAL, Property.FIFO}
    assert {violation.process for violation in verdict.violations} == {C, D}


@pytest.mark.long
def test_on_a_static_overlay_it_is_causal_and_live() -> None:
    for seed in range(300):
        random = Random(seed)
        links = random_links(random, random.randint(2, 6))
        cluster = flood_cluster(links)
        churn(cluster, random, backbone=links, steps=80, add=False)
        run_until_idle_fifo(cluster, random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"


@pytest.mark.long
def test_lemma_1_removed_links_keep_causal_order() -> None:
    removed = 0
    for seed in range(300):
        random = Random(seed)
        processes = random.randint(3, 6)
        backbone = ring(processes)
        links = [
            [*backbone[i], *random_links(random, processes)[i]] for i in range(processes)
        ]
        cluster = flood_cluster(links)
        for _ in range(120):
            source = random.randrange(processes)
            if random.random() < 0.15:
                cluster.broadcast(source)
            elif random.random() < 0.1:
                for target in set(links[source]) - set(backbone[source]):
                    links[source].remove(target)
                    cluster.disconnect(source, target)
                    removed += 1
            elif cluster.in_flight:
                pairs = {(p.source, p.target): 0 for p in cluster.in_flight}
                arrive(cluster, RelayedMessage, *random.choice(sorted(pairs)))
        run_until_idle_fifo(cluster, random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"
    assert removed > 500


@pytest.mark.long
def test_links_added_at_random_violate_order_only() -> None:
    broken: set[Property] = set()
    runs = 0
    for seed in range(150):
        random = Random(seed)
        backbone = ring(5)
        cluster = flood_cluster(backbone)
        churn(cluster, random, backbone=backbone, steps=150)
        run_until_idle_fifo(cluster, random)
        found = cluster.verdict().violated()
        runs += bool(found)
        broken |= found
    assert broken == {Property.CAUSAL, Property.FIFO}
    assert runs > 30


@pytest.mark.long
def test_on_the_link_layer_it_is_causal_despite_faults() -> None:
    for seed in range(60):
        random = Random(seed)
        links = random_links(random, 4)
        cluster = linked_cluster(links)
        churn(
            cluster, random, backbone=links, steps=150, add=False, faults=True,
            seconds=(0.5, 2.0),
        )  # fmt: skip
        cluster.run_until_idle(random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {explain(verdict)}"


def test_without_fifo_links_it_is_not_causal() -> None:
    """The theorem requires FIFO links."""
    broken = 0
    for seed in range(30):
        random = Random(seed)
        links = random_links(random, 4)
        cluster = flood_cluster(links)
        for _ in range(6):
            cluster.broadcast(random.randrange(4))
        cluster.run_until_idle(random)
        broken += Property.CAUSAL in cluster.verdict().violated()
    assert broken > 10


class BrokenFlood:
    """A flood with one fault."""

    def __init__(self, id: ProcessId, links: list[ProcessId], fault: str) -> None:
        self.id = id
        self.links = links
        self.fault = fault
        self.clock = 0
        self.received: dict[int, set[int]] = {}
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        raise NotImplementedError

    def broadcast(self, payload: bytes, now: float) -> int:
        self.clock += 1
        self.accept(RelayedMessage(self.id, self.clock, payload), self.links)
        return self.clock

    def connect(self, peer: ProcessId, now: float) -> None:
        self.links.append(peer)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        self.links.remove(peer)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, RelayedMessage)
        seen = self.received.get(frame.source, set())
        old = frame.number in seen
        if self.fault == "highest":
            old = frame.number <= max(seen, default=0)
        if not old:
            silent = self.fault == "silent" and frame.number % 3 == 0
            self.accept(frame, [] if silent else self.links)

    def accept(self, message: RelayedMessage, links: list[ProcessId]) -> None:
        self.received.setdefault(message.source, set()).add(message.number)
        self.transmits += [Transmit(peer, message) for peer in links]
        self.deliveries.append(Delivery(message.source, message.number, message.payload))

    def handle_timer(self, now: float) -> None:
        pass

    def next_timer(self) -> float | None:
        return None

    def frames_to_transmit(self) -> list[Transmit]:
        frames, self.transmits = self.transmits, []
        return frames

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self.deliveries = self.deliveries, []
        return deliveries


@pytest.mark.parametrize(
    ("fault", "add", "expected"),
    [("none", False, False), ("highest", False, False), ("highest", True, True),
     ("silent", False, True)],
)  # fmt: skip
def test_mutants_lose_messages(fault: str, add: bool, expected: bool) -> None:
    """The highest number of each source suffices until a link is added."""
    lost = 0
    for seed in range(40):
        random = Random(seed)
        backbone = ring(5)
        cluster = Cluster(
            "broken",
            5,
            make=lambda i, links=backbone: BrokenFlood(i, ids(links[i]), fault),  # type: ignore[misc]
        )
        churn(cluster, random, backbone=backbone, steps=150, add=add)
        run_until_idle_fifo(cluster, random)
        lost += Property.LIVENESS in cluster.verdict().violated()
    assert (lost > 0) == expected


def test_a_message_is_transmitted_once_on_each_link() -> None:
    links = random_links(Random(3), 6)
    cluster = flood_cluster(links)
    cluster.broadcast(0, b"xyz")
    run_until_idle_fifo(cluster)
    hops = [(e.process, e.target) for e in cluster.history if e.metadata_bytes is not None]
    assert sorted(hops) == sorted((i, j) for i in range(6) for j in links[i])


def test_a_removed_link_carries_nothing_more() -> None:
    process = Flood(ProcessId(0), ids([1, 2]))
    process.broadcast(b"", 0.0)
    assert messages_to(process, 1) == [(0, 1)]
    process.disconnect(ProcessId(1), 0.0)
    process.disconnect(ProcessId(9), 0.0)  # there is no link
    process.broadcast(b"", 0.0)
    assert messages_to(process, 1) == []
    process.connect(ProcessId(1), 0.0)
    process.connect(ProcessId(1), 0.0)  # there is a link
    process.broadcast(b"", 0.0)
    assert messages_to(process, 1) == [(0, 3)]
    assert process.links == [2, 1]


def test_the_number_of_intervals_does_not_grow_with_the_messages() -> None:
    process = Flood(ProcessId(0))
    for number in range(1, 500):
        for source in (1, 2, 3):
            process.receive(
                ProcessId(1), RelayedMessage(ProcessId(source), number, b""), 0.0
            )
    assert process.intervals == 3
    process.receive(ProcessId(1), RelayedMessage(ProcessId(3), 600, b""), 0.0)
    assert process.intervals == 4
    assert len(process.messages_to_deliver()) == 3 * 499 + 1


def test_an_interval_set_is_a_set() -> None:
    for seed in range(200):
        random = Random(seed)
        runs = IntervalSet()
        model: set[int] = set()
        for _ in range(random.choice((5, 60))):
            number = random.randint(1, 40)
            assert (number in runs) == (number in model)
            assert runs.add(number) == (number not in model)
            model.add(number)
        gaps = sum(number + 1 not in model for number in model)
        assert len(runs) == gaps, f"seed {seed}"
        assert [n for n in range(1, 42) if n in runs] == sorted(model)


@pytest.mark.parametrize("number", [1, 255, 256, 2**40])
@pytest.mark.parametrize("source", [0, 127, 128, 70_000])
@pytest.mark.parametrize("payload", [b"", b"x" * 200])
def test_decoding_inverts_encoding(number: int, source: int, payload: bytes) -> None:
    frame = RelayedMessage(ProcessId(source), number, payload)
    encoded = encode([frame])
    assert len(encoded) == 1 + frame.size()
    (read,) = decode(encoded, read_flood)
    assert isinstance(read, RelayedMessage)
    assert (read.source, read.number, read.payload) == (source, number, payload)
    assert read.message_source() == source
    assert read.message_number() == number
    assert read.kind() == encoded[1] >> 4
    for cut in range(2, len(encoded)):
        with pytest.raises(PeerError):
            decode(encoded[:cut], read_flood)


def test_a_linked_frame_keeps_its_source() -> None:
    cluster = linked_cluster([[1], [0]])
    cluster.broadcast(0, b"abc")
    frame = cluster.in_flight[0].frame
    assert frame.message_source() == 0
    (read,) = decode(encode([frame]), lambda reader: read_link_frame(reader, read_flood))
    assert repr(read) == repr(frame)
    assert isinstance(read, Segment)
    assert repr(read.frame) == "RelayedMessage(number=1, payload=3 B, source=0)"


@pytest.mark.parametrize(
    "frame",
    [
        Permit(1),
        RelayedMessage(ProcessId(1), 0, b""),
        RelayedMessage(ProcessId(-1), 1, b""),
        RelayedMessage(ProcessId(0), 2, b""),  # its own message, not sent
    ],
)
def test_invalid_frames_are_refused(frame: Frame) -> None:
    process = Flood(ProcessId(0), ids([1]))
    process.broadcast(b"", 0.0)
    before = snapshot(process)
    with pytest.raises(PeerError):
        process.receive(ProcessId(1), frame, 0.0)
    assert snapshot(process) == before


def test_misuse_is_refused() -> None:
    process = Flood(ProcessId(0), ids([1]))
    before = snapshot(process)
    message = RelayedMessage(ProcessId(1), 1, b"")
    for misuse in (
        lambda: process.broadcast("text", 0.0),
        lambda: process.broadcast(b"", float("nan")),
        lambda: process.send(ids([1]), b"", 0.0),
        lambda: process.connect(ProcessId(0), 0.0),
        lambda: process.connect(ProcessId(-1), 0.0),
        lambda: process.disconnect(ProcessId(0), 0.0),
        lambda: process.disconnect(ProcessId(1), float("inf")),
        lambda: process.receive(ProcessId(0), message, 0.0),
        lambda: Flood(ProcessId(2), ids([2])),
    ):
        with pytest.raises(LocalError):
            misuse()
    assert snapshot(process) == before
    for bad in (b"\x01\x11", b"\x01\x20\x01"):
        with pytest.raises(PeerError):
            decode(bad, read_flood)


def test_a_bare_process_has_nothing_in_flight_after_its_only_message() -> None:
    cluster = flood_cluster([[]])
    assert cluster.broadcast(0) == 1
    assert cluster.delivered(0) == [(0, 1)]
    assert in_flight(cluster, RelayedMessage, 0, 0) == 0
    assert cluster.verdict().held
