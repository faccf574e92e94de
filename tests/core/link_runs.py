"""Random runs of the link layer against a model of what each process knows."""

from collections import defaultdict
from random import Random
from typing import Any

from antecede.core.link import TIMEOUTS_MAX
from tests.core.link_variants import Variant

__all__ = ["LinkRun", "disconnected_run", "random_run"]

MINIMUM_S = 0.5
SECONDS = (0.0, 0.125, 0.25, 1.0, 4.0)
REST_STEPS_MAX = 5000


class Direction:
    """The segments from one process to another."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.delivered: list[bytes] = []
        self.transmitted_at: dict[int, float] = {}  # By segment, the last time.
        self.arrived: set[int] = set()
        # The knowledge of the sender.
        self.told_acked = 0
        self.told_acked_at = 0.0
        self.told_arrived: set[int] = set()

    @property
    def transmitted(self) -> int:
        """The number of segments."""
        return len(self.transmitted_at)

    @property
    def received(self) -> int:
        """The number up to which all segments have arrived."""
        number = 0
        while number + 1 in self.arrived:
            number += 1
        return number

    def receive_ack(self, acked: int, arrived: int, now: float) -> None:
        """Update the knowledge of the sender by an ack."""
        if acked > self.told_acked:
            self.told_acked = acked
            self.told_acked_at = now
        self.told_arrived.add(arrived)


class LinkRun:
    """A few processes on links, and a network with arbitrary faults.

    Every output is checked as it comes: hand-over, numbers, acks, repetitions, timers.
    """

    def __init__(
        self, variant: Variant, *, processes: int, fifo: bool, answering: bool
    ) -> None:
        self.variant = variant
        self.fifo = fifo
        bare = variant.baseline
        if answering:
            bare = variant.buffer_fifo if fifo else variant.buffer
        policy = variant.policy(initial_s=1.0, minimum_s=MINIMUM_S, maximum_s=8.0)
        self.ends = [variant.linked(bare(i), fifo, policy) for i in range(processes)]
        self.in_flight: list[tuple[int, int, Any]] = []
        self.ways: defaultdict[tuple[int, int], Direction] = defaultdict(Direction)
        self.now = 0.0
        self.repetitions = 0
        self.acks = 0

    def send(self, source: int, target: int) -> None:
        """Send a message with a unique payload."""
        sent = self.ways[source, target].sent
        sent.append(f"{source}-{target}-{len(sent)}".encode())
        self.ends[source].send([target], sent[-1], self.now)
        self._drain(source)

    def arrive(self, index: int) -> None:
        """Pass a packet to its target."""
        source, target, frame = self.in_flight.pop(index)
        self.ends[target].receive(source, frame, self.now)
        back = self.ways[target, source]
        if isinstance(frame, self.variant.segment):
            self.ways[source, target].arrived.add(frame.number)
            if frame.acked:
                back.receive_ack(frame.acked, frame.acked, self.now)
            self._drain(target, answering=(source, frame.number))
        else:
            back.receive_ack(frame.acked, frame.arrived, self.now)
            self._drain(target)

    def pass_time(self, seconds: float) -> None:
        """Advance the time, and handle the timers."""
        self.now += seconds
        for index, end in enumerate(self.ends):
            due = end.next_timer()
            end.handle_timer(self.now)  # Early calls must be harmless.
            self._drain(index, timer=True, due=due is not None and due <= self.now)

    def run_until_idle(self, random: Random) -> None:
        """Deliver all packets and advance the time until the links are idle."""
        for _ in range(REST_STEPS_MAX):
            if self.in_flight:
                self.arrive(random.randrange(len(self.in_flight)))
                continue
            timers = [end.next_timer() for end in self.ends]
            due = [timer for timer in timers if timer is not None]
            if not due:
                break
            assert min(due) > self.now, "a timer that was handled is due again"
            self.pass_time(min(due) - self.now)
        else:
            raise AssertionError("never at rest")
        for pair, way in self.ways.items():
            if self.fifo:
                assert way.delivered == way.sent, pair
            else:
                assert sorted(way.delivered) == sorted(way.sent), pair
            assert way.received == way.told_acked == way.transmitted, pair

    def _drain(
        self,
        index: int,
        *,
        answering: tuple[int, int] | None = None,
        timer: bool = False,
        due: bool = False,
    ) -> None:
        for delivery in self.ends[index].messages_to_deliver():
            self._check_delivery((delivery.source, index), delivery.payload)
        told = False
        acks = 0
        segments = 0
        repetitions = 0
        for transmit in self.ends[index].frames_to_transmit():
            target, frame = transmit.target, transmit.frame
            assert frame.acked == self.ways[target, index].received, frame
            if isinstance(frame, self.variant.segment):
                again = self._check_segment((index, target), frame.number)
                assert transmit.is_retransmission == again, transmit
                repetitions += again
                if answering is not None and answering[0] == target:
                    segments += 1
                    told = told or answering[1] <= frame.acked
            else:
                assert answering == (target, frame.arrived), f"{frame} unasked"
                assert not transmit.is_retransmission
                acks += 1
            self.in_flight.append((index, target, frame))
        assert acks <= 1
        if answering is not None:
            assert told or acks, f"{answering} is left unanswered"
            assert not (told and acks), f"{answering} is answered twice"
        assert repetitions == 0 or timer, "retransmitted before the timeout"
        assert repetitions > 0 or not due, "a timeout repeats nothing"
        self.repetitions += repetitions
        self.acks += acks
        waiting = any(
            way.told_acked < way.transmitted
            for (source, _), way in self.ways.items()
            if source == index
        )
        assert (self.ends[index].next_timer() is not None) == waiting, "timer"

    def _check_segment(self, pair: tuple[int, int], number: int) -> bool:
        """Check a transmitted segment; return whether it is a retransmission."""
        way = self.ways[pair]
        is_retransmission = number <= way.transmitted
        if is_retransmission:
            assert number > way.told_acked, f"{number} was acked"
            since = way.transmitted_at[number]
            if number == way.told_acked + 1:
                since = max(since, way.told_acked_at)
            else:
                assert number not in way.told_arrived, f"{number} is known to be there"
            assert self.now - since >= MINIMUM_S, f"{number} is retransmitted too early"
        else:
            assert number == way.transmitted + 1, f"{number} leaves a gap"
        way.transmitted_at[number] = self.now
        return is_retransmission

    def _check_delivery(self, pair: tuple[int, int], payload: bytes) -> None:
        way = self.ways[pair]
        assert payload in way.sent, f"{payload!r} from nowhere"
        assert payload not in way.delivered, f"{payload!r} twice"
        if self.fifo:
            assert payload == way.sent[len(way.delivered)], f"{payload!r} out of order"
        way.delivered.append(payload)


def random_run(variant: Variant, seed: int) -> LinkRun:
    """Run until idle on a network with random loss, duplication and reordering."""
    random = Random(seed)
    run = LinkRun(
        variant,
        processes=random.choice((2, 2, 3)),
        fifo=random.random() < 0.5,
        answering=random.random() < 0.4,
    )
    loss, duplication = random.choice(((0.0, 0.0), (0.1, 0.1), (0.3, 0.1), (0.1, 0.3)))
    everyone = range(len(run.ends))
    for _ in range(random.choice((20, 60))):
        draw = random.random()
        if draw < 0.35:
            source, target = random.sample(everyone, 2)
            run.send(source, target)
        elif draw < 0.45:
            run.pass_time(random.choice(SECONDS))
        elif run.in_flight:
            index = random.randrange(len(run.in_flight))
            fate = random.random()
            if fate < loss:
                run.in_flight.pop(index)
            elif fate < loss + duplication:
                run.in_flight.append(run.in_flight[index])
            else:
                run.arrive(index)
    run.run_until_idle(random)
    return run


class DisconnectedRun:
    """Two processes whose links are removed and added again, while the network is silent.

    Message n of a process is its segment n. The variant must be a copy, because its
    protocol gets a subclass.
    """

    def __init__(self, variant: Variant, random: Random) -> None:
        class Overlaid(variant.baseline):  # type: ignore[misc, name-defined]
            def connect(self, peer: int, now: float) -> None: ...

            def disconnect(self, peer: int, now: float) -> None: ...

        self.random = random
        self.fifo = random.random() < 0.5
        policy = variant.policy(initial_s=1.0, minimum_s=MINIMUM_S, maximum_s=8.0)
        self.ends = [variant.linked(Overlaid(i), self.fifo, policy) for i in (0, 1)]
        self.variant = variant
        self.now = 0.0
        self.loss = 0.1
        self.in_flight: list[tuple[int, Any]] = []  # The source, and the frame.
        self.sent = [0, 0]
        self.delivered: list[list[int]] = [[], []]  # By source.
        self.dropped: list[list[range]] = [[], []]  # By source.
        self.connected = [True, True]
        self.timeouts = [0, 0]  # In a row without an ack, since the disconnection.

    def send(self, source: int) -> None:
        """Send a message."""
        self.sent[source] += 1
        self.ends[source].send([1 - source], b"", self.now)
        self._drain(source)

    def connect(self, source: int, *, up: bool) -> None:
        """Add or remove a link."""
        change = self.ends[source].connect if up else self.ends[source].disconnect
        change(1 - source, self.now)
        self.connected[source] = up
        self.timeouts[source] = 0
        self._drain(source)

    def arrive(self) -> None:
        """Let a packet arrive, or arrive and stay in flight, or be lost."""
        index = self.random.randrange(len(self.in_flight))
        source, frame = self.in_flight[index]
        if self.random.random() > 0.1:
            del self.in_flight[index]
        if self.random.random() < self.loss:
            return
        target = 1 - source
        self.ends[target].receive(source, frame, self.now)
        if frame.acked or isinstance(frame, self.variant.link_ack):
            self.timeouts[target] = 0
        self._drain(target)

    def expire(self) -> bool:
        """Let the next timer expire; return False if none runs."""
        timers = [end.next_timer() for end in self.ends]
        due = [timer for timer in timers if timer is not None]
        if not due:
            return False
        self.now = max(self.now, min(due))
        for source, timer in enumerate(timers):
            if timer is not None and timer <= self.now:
                self.timeouts[source] += not self.connected[source]
                before = self.ends[source].backlog(1 - source)
                self.ends[source].handle_timer(self.now)
                drops = self.timeouts[source] == TIMEOUTS_MAX
                assert (self.ends[source].backlog(1 - source) == 0) == drops
                if drops:
                    last = self.sent[source]
                    self.dropped[source].append(range(last - before + 1, last + 1))
                    self.timeouts[source] = 0
                self._drain(source)
        return True

    def run_until_idle(self) -> None:
        """Connect the processes, and deliver everything that was not dropped."""
        self.loss = 0.0
        for source in (0, 1):
            self.connect(source, up=True)
            self.send(source)
        for _ in range(REST_STEPS_MAX):
            if self.in_flight:
                self.arrive()
            elif not self.expire():
                break
        else:
            raise AssertionError("never at rest")
        for source in (0, 1):
            self._check(source)

    def _drain(self, index: int) -> None:
        for delivery in self.ends[index].messages_to_deliver():
            self.delivered[1 - index].append(delivery.number)
        for transmit in self.ends[index].frames_to_transmit():
            self.in_flight.append((index, transmit.frame))

    def _check(self, source: int) -> None:
        assert self.ends[source].backlog(1 - source) == 0
        assert self.ends[source]._channels[1 - source].reorder_buffer == {}
        numbers = self.delivered[source]
        delivered = set(numbers)
        assert len(delivered) == len(numbers), "delivered twice"
        if self.fifo:
            assert numbers == sorted(numbers), "out of order"
        lost = set(range(1, self.sent[source] + 1)) - delivered
        assert delivered | lost == set(range(1, self.sent[source] + 1)), "from nowhere"
        may_be_lost = {number for batch in self.dropped[source] for number in batch}
        assert lost <= may_be_lost, "lost, though it was not dropped"
        if self.fifo:
            for batch in self.dropped[source]:
                arrived = [number for number in batch if number in delivered]
                assert arrived == list(batch)[: len(arrived)], "passed on after a gap"


def disconnected_run(variant: Variant, seed: int) -> DisconnectedRun:
    """Disconnect processes at random, mostly while they do not hear each other."""
    random = Random(seed)
    run = DisconnectedRun(variant, random)
    for _ in range(random.choice((2, 6))):
        run.loss = random.choice((0.0, 0.1, 0.3))
        for _ in range(random.randrange(20)):
            if random.random() < 0.4:
                run.send(random.randrange(2))
            elif run.in_flight:
                run.arrive()
        source = random.randrange(2)
        run.connect(source, up=False)
        run.loss = random.choice((0.3, 1.0))
        for _ in range(random.randrange(2 * TIMEOUTS_MAX)):
            for _ in range(random.randrange(3)):
                if run.in_flight:
                    run.arrive()
            run.expire()
        if random.random() < 0.7:
            run.connect(source, up=True)
    run.run_until_idle()
    return run
