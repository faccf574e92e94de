"""The simulator: real processes, a network and a workload in virtual time.

Events of the same time are handled in the order in which they were scheduled, so a run is a
function of its parameters and its seed. The observer sees all events in an order that is a
linear extension of happened-before.
"""

from mypy_extensions import i64

from antecede.core.codec import Frame
from antecede.core.process import NEVER, Delivery, ProcessBase, ProcessId, Transmit
from antecede.sim.churn import Churn
from antecede.sim.event_queue import (
    ARRIVAL,
    CONNECT,
    CRASH,
    DISCONNECT,
    JOB_END,
    JOB_START,
    JOIN,
    LEAVE,
    PAUSE,
    RESUME,
    SEND,
    TIMER,
    EventQueue,
    ScheduledEvent,
)
from antecede.sim.latency import LatencySums
from antecede.sim.network import Network, NetworkState
from antecede.sim.sim_process import (
    SimProcess,
    schedule_churn,
    schedule_faults,
    schedule_link,
)
from antecede.sim.transmission_keys import TransmissionKeys
from antecede.sim.workloads.workload import PlannedSend, Workload
from antecede.trace.event import Kind
from antecede.trace.recorders import EventCounter

__all__ = ["Simulator"]


class Simulator:
    """One run."""

    __slots__ = (
        "_broadcasts",
        "_is_counted_only",
        "_is_open_loop",
        "_keys",
        "_network",
        "_observer",
        "_payloads",
        "_processes",
        "_queue",
        "_workload",
        "active_s",
        "events",
        "latencies",
        "now",
        "unfinished",
    )

    now: float
    """The virtual time."""
    active_s: float
    """The time of the last event, except faults and timers without effect."""
    events: int
    """The number of events handled."""
    unfinished: bool
    """Whether the run was stopped early, or a process crashed or left: messages may be
    missing."""
    latencies: LatencySums
    """The sums of the waiting times of messages."""

    def __init__(
        self,
        processes: list[ProcessBase],
        network: Network,
        workload: Workload,
        observer: EventCounter,
        seed: int,
        churn: Churn | None = None,
        relays: bool = False,
        broadcasts: bool = False,
    ) -> None:
        """Prepare a run; then call :meth:`run`.

        Args:
            processes: Processes of one protocol, with ids from 0.
            network: The behaviour of the network, and the faults of processes.
            workload: The messages to send.
            observer: Is passed every event.
            seed: The seed of the network's random numbers.
            churn: The joins, leaves and changes of links.
            relays: Whether the protocol forwards messages through other processes.
            broadcasts: Whether the protocol has broadcast; without it, a broadcast of the
                workload names every process as a target.
        """
        self._processes = [SimProcess(i, processes[i]) for i in range(len(processes))]
        self._workload = workload
        self._is_open_loop = workload.is_open_loop
        self._broadcasts = broadcasts
        self._observer = observer
        self._is_counted_only = not observer.is_recording
        self._network = NetworkState(network)
        self.latencies = LatencySums(self._network.preserves_order, relays)
        self._keys = TransmissionKeys(seed)
        self._queue = EventQueue()
        self._payloads: dict[int, bytes] = {0: b""}
        self.now = 0.0
        self.active_s = 0.0
        self.events = 0
        self.unfinished = False
        schedule_faults(network, self._processes, self._queue)
        if churn is not None:
            schedule_churn(churn, self._processes, self._queue)
        for process in self._processes:
            if not process.gone:
                self._plan(process, workload.start(process.index))

    def run(self, until_s: float = NEVER, events_max: int = 1 << 62) -> bool:
        """Handle at most ``events_max`` events; return whether more are due."""
        queue = self._queue
        limit = self.events + events_max
        time = queue.next_time()
        while time <= until_s and time < NEVER:
            if self.events >= limit:
                return True
            event = queue.pop()
            self.now = time
            self.events += 1
            process = self._processes[event.process]
            if process.impaired:
                self._handle_impaired(event, process)
            else:
                if event.kind == ARRIVAL:
                    self._arrive(event, process)
                    self._drain(process)
                    queue.recycle(event)
                elif self._handle(event, process):
                    self._drain(process)
                    queue.recycle(event)
            time = queue.next_time()
        if time < NEVER:
            self.unfinished = True
        return False

    def _arrive(self, event: ScheduledEvent, process: SimProcess) -> None:
        frame = event.frame
        assert frame is not None
        source = event.source
        now = self.now
        self.active_s = now
        number = frame.message_number()
        if number > 0:
            self.latencies.arrived(source, process.index, number, event.number > 0, now)
            if not self._is_counted_only:
                self._observer.arrived(process.index, source, frame, now)
        process.protocol.receive(ProcessId(source), frame, now)

    def _handle(self, event: ScheduledEvent, process: SimProcess) -> bool:
        """Handle an event; return False if it was scheduled again instead."""
        kind = event.kind
        now = self.now
        index = process.index
        if kind == TIMER:
            if process.wake <= now:  # Else an earlier timer event replaced this one.
                process.wake = NEVER
                process.protocol.handle_timer(now)
            return True
        if kind == PAUSE:
            self._observer.happened(index, Kind.FAULT, now)
            return True
        self.active_s = now
        if kind == ARRIVAL:
            self._arrive(event, process)
        elif kind == SEND:
            planned = event.planned
            assert planned is not None
            if process.busy_until > now:
                event.time = process.busy_until  # The process is busy with a job.
                self._queue.push(event)
                return False
            self._send(process, planned)
        elif kind == JOB_END:
            source = event.source
            if event.number > 0:
                self._observer.happened(index, Kind.JOB_END, now, source, event.number)
            # The replies are part of the job: they are sent before the next job starts.
            replies = self._workload.delivered(index, source, event.id)
            self._plan(process, replies, True)
        elif kind == JOB_START:
            source = event.source
            self._observer.happened(index, Kind.JOB_START, now, source, event.number)
        elif kind == CONNECT:
            process.protocol.connect(ProcessId(event.source), now)
        else:
            assert kind == DISCONNECT
            process.protocol.disconnect(ProcessId(event.source), now)
        return True

    # The application.

    def _plan(
        self, process: SimProcess, sends: list[PlannedSend], at_once: bool = False
    ) -> None:
        """Schedule sends; if ``at_once``, send those without a wait now."""
        for planned in sends:
            if at_once and planned.wait_s == 0:
                self._send(process, planned)
            else:
                time = self.now + planned.wait_s
                event = self._queue.make(SEND, process.index, time)
                event.planned = planned
                self._queue.push(event)

    def _send(self, process: SimProcess, planned: PlannedSend) -> None:
        size = planned.payload_bytes
        payload = self._payloads.get(size)
        if payload is None:
            payload = bytes(size)
            self._payloads[size] = payload
        index = process.index
        now = self.now
        targets = planned.targets
        if not targets and not self._broadcasts:
            targets = [other for other in range(len(self._processes)) if other != index]
        if targets:
            number = process.protocol.send([ProcessId(t) for t in targets], payload, now)
            if not self._is_counted_only:
                self._observer.sent(index, number, targets, now)
            others = len(targets) - (1 if index in targets else 0)
        else:
            number = process.protocol.broadcast(payload, now)
            if not self._is_counted_only:
                self._observer.sent(index, number, None, now)
            others = len(self._processes) - 1
        self.latencies.sent(index, number, others, now)
        if not self._is_open_loop:
            process.ids.append(planned.id)
        self._plan(process, self._workload.sent(index, planned))

    def _deliver(self, process: SimProcess, delivery: Delivery) -> None:
        now = self.now
        index = process.index
        source = delivery.source
        number = delivery.number
        if not self._is_counted_only:
            self._observer.delivered(index, delivery, now)
        if source != index:
            self.latencies.delivered(now)
        if self._is_open_loop:
            return
        message_id = self._processes[source].ids[number - 1]
        service_s = self._workload.service_time_s(index, source, message_id)
        start = max(now, process.busy_until)
        if service_s > 0:
            event = self._queue.make(JOB_START, index, start)
            event.source = source
            event.number = number
            self._queue.push(event)
            process.busy_until = start + service_s
        if service_s > 0 or start > now:
            event = self._queue.make(JOB_END, index, start + service_s)
            event.source = source
            event.number = number if service_s > 0 else 0
            event.id = message_id
            self._queue.push(event)
        else:
            self._plan(process, self._workload.delivered(index, source, message_id))

    # The network.

    def _drain(self, process: SimProcess) -> None:
        # The loop of antecede.core.driver.drain, inline: see there.
        protocol = process.protocol
        for delivery in protocol.messages_to_deliver():
            self._deliver(process, delivery)
        for transmit in protocol.frames_to_transmit():
            self._transmit(process.index, transmit)
        due = protocol.next_wake()
        if due < process.wake:
            due = max(due, self.now)  # A process that just joined may have missed timers.
            process.wake = due
            self._queue.push(self._queue.make(TIMER, process.index, due))

    def _transmit(self, index: int, transmit: Transmit) -> None:
        frame = transmit.frame
        target = transmit.target
        is_retransmission = transmit.is_retransmission
        now = self.now
        self.active_s = now
        self._observer.transmitted(index, transmit, now)
        if not is_retransmission:
            number = frame.message_number()
            if number > 0:
                origin = frame.message_source()
                self.latencies.released(index, target, number, origin, now)
        network = self._network
        if network.fixed_s >= 0 and not self._processes[target].gone:
            arrival = now + network.fixed_s
            self._schedule_arrival(arrival, index, target, frame, is_retransmission)
            return
        key = self._key(index, target, frame, is_retransmission) if network.is_random else 0
        size = frame.size() if network.is_bandwidth_limited else 0
        arrival = network.transmit(index, target, size, key, now)
        duplicate = network.duplicate_arrival
        if arrival == NEVER or self._processes[target].gone:
            self._observer.dropped(index, target, frame, now)
            return
        self._schedule_arrival(arrival, index, target, frame, is_retransmission)
        if duplicate != NEVER:
            self._schedule_arrival(duplicate, index, target, frame, True)

    def _schedule_arrival(
        self, time: float, source: i64, target: i64, frame: Frame, is_retransmission: bool
    ) -> None:
        event = self._queue.make(ARRIVAL, target, time)
        event.source = source
        event.frame = frame
        event.number = 1 if is_retransmission else 0
        self._queue.push(event)

    def _key(self, source: int, target: int, frame: Frame, is_retransmission: bool) -> int:
        number = frame.message_number()
        if number == 0:
            return self._keys.control(source, target, frame)
        origin = frame.message_source()
        if origin < 0:
            origin = source
        message_id = (
            number if self._is_open_loop else self._processes[origin].ids[number - 1]
        )
        return self._keys.message(source, target, origin, message_id, is_retransmission)

    # Faults and churn.

    def _handle_impaired(self, event: ScheduledEvent, process: SimProcess) -> None:
        """Handle an event at a process that is slow, paused or absent at times."""
        kind = event.kind
        now = self.now
        if kind == JOIN:
            self.active_s = now
            process.gone = False
            self._observer.happened(process.index, Kind.JOIN, now)
            self._plan(process, self._workload.start(process.index))
            return
        if process.gone:
            return
        if kind == PAUSE:
            process.paused_until = max(process.paused_until, event.until)
            self._handle(event, process)
        elif kind in (CRASH, LEAVE):
            self.active_s = now
            process.gone = True
            self.unfinished = True
            recorded = Kind.CRASH if kind == CRASH else Kind.LEAVE
            self._observer.happened(process.index, recorded, now)
            if kind == LEAVE:
                for other in self._processes:
                    if other is not process and not other.gone:
                        index = process.index
                        schedule_link(self._queue, DISCONNECT, other.index, index, now)
        elif kind == RESUME:
            self._resume(process)
        else:
            process.deferred.append(event)
            if len(process.deferred) == 1:
                self._resume(process)

    def _resume(self, process: SimProcess) -> None:
        """Handle the deferred events until the process pauses again."""
        deferred = process.deferred
        handled = 0
        while handled < len(deferred) and process.paused_until <= self.now:
            if process.processing_s > 0:
                process.paused_until = self.now + process.processing_s
            self._handle(deferred[handled], process)
            self._drain(process)
            handled += 1
        del deferred[:handled]
        if deferred:
            self._queue.push(ScheduledEvent(RESUME, process.index, process.paused_until))
