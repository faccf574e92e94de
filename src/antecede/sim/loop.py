"""Virtual time: real processes, a network and a workload, one happening after the other.

What happens at the same moment happens in the order in which it was scheduled, so a run
is a function of its parameters and its seed. The recorder sees everything in an order
that is a linear extension of happened-before.
"""

from math import inf
from typing import Final

from antecede.core.chance import begin, stir
from antecede.core.contract import Delivery, ProcessBase, ProcessId, Transmit
from antecede.core.encoding import Frame
from antecede.core.frames import Message
from antecede.sim.agenda import Agenda, Happening
from antecede.sim.network import Network, Wire
from antecede.sim.workload import Sending, Workload
from antecede.trace.event import Kind
from antecede.trace.recorder import Recorder

__all__ = ["Loop"]

ARRIVAL: Final = 0
SENDING: Final = 1
WAKE: Final = 2
REACTION: Final = 3
JOB: Final = 4
PAUSE: Final = 5
CRASH: Final = 6
RESUME: Final = 7

MESSAGES: Final = 1
CONTROLS: Final = 2
"""Tell the random numbers of messages from those of control frames."""


class Loop:
    """One run."""

    __slots__ = (
        "_agenda",
        "_busy",
        "_control_fates",
        "_crashed",
        "_flying",
        "_ids",
        "_message_fates",
        "_pauses",
        "_payloads",
        "_processes",
        "_recorder",
        "_repeats",
        "_services",
        "_troubled",
        "_waiting",
        "_wakes",
        "_wire",
        "_workload",
        "active_s",
        "arrived_s",
        "copies",
        "delivered_s",
        "events",
        "now",
        "released_s",
        "sent_s",
        "unfinished",
    )

    now: float
    """The virtual time."""
    active_s: float
    """When something happened last, timers that found nothing to do aside."""
    events: int
    """How many happenings there have been."""
    unfinished: bool
    """The run was cut short, or a crash left it without an end."""

    def __init__(
        self,
        processes: list[ProcessBase],
        network: Network,
        workload: Workload,
        recorder: Recorder,
        seed: int,
    ) -> None:
        """Put everything in its place; then call :meth:`run`."""
        self._processes = processes
        self._workload = workload
        self._recorder = recorder
        self._wire = Wire(network)
        state = begin(seed)
        self._message_fates = stir(state, MESSAGES)
        self._control_fates = stir(state, CONTROLS)
        self._agenda = Agenda()
        self._wakes: dict[int, float] = {}
        self._ids: dict[int, list[int]] = {}
        self._repeats: dict[tuple[int, int, int], int] = {}
        self._payloads: dict[int, bytes] = {0: b""}
        self._busy: dict[int, float] = {}
        self._crashed: set[int] = set()
        self._pauses: dict[int, float] = {}
        self._services: dict[int, float] = dict(network.service_s)
        self._troubled: set[int] = set(self._services)
        self._flying: set[tuple[int, int, int]] = set()
        self._waiting: dict[int, list[Happening]] = {}
        self.now = 0.0
        self.active_s = 0.0
        self.events = 0
        self.unfinished = False
        self.copies = 0
        self.sent_s = 0.0
        self.released_s = 0.0
        self.arrived_s = 0.0
        self.delivered_s = 0.0
        self._schedule_faults(network)
        for process in range(len(processes)):
            self._plan(process, workload.start(process))

    def run(self, until_s: float = inf, events_max: int = 1 << 62) -> bool:
        """Go on for ``events_max`` events; tell whether there is more to do.

        There is not when everything is at rest, or ``until_s`` has come.
        """
        agenda = self._agenda
        limit = self.events + events_max
        moment = agenda.next_moment()
        while moment <= until_s and moment < inf:
            if self.events >= limit:
                return True
            happening = agenda.take()
            self.now = moment
            self.events += 1
            process = happening.process
            if process in self._troubled:
                self._happen_troubled(happening, process)
            else:
                self._happen(happening, process)
                self._drain(process)
            moment = agenda.next_moment()
        if moment < inf:
            self.unfinished = True
        return False

    def _happen(self, happening: Happening, index: int) -> None:
        kind = happening.kind
        now = self.now
        process = self._processes[index]
        if kind != WAKE:
            self.active_s = now
        if kind == ARRIVAL:
            frame = happening.frame
            assert frame is not None
            source = happening.source
            if isinstance(frame, Message):
                flight = (source, index, frame.number)
                if flight in self._flying:
                    self._flying.remove(flight)
                    self.arrived_s += now
            self._recorder.arrived(index, source, frame, now)
            process.receive(ProcessId(source), frame, now)
        elif kind == SENDING:
            free = self._busy.get(index, 0.0)
            sending = happening.sending
            assert sending is not None
            if free > now:
                happening.moment = free  # The process is at a job.
                self._agenda.note(happening)
            else:
                self._send(index, sending)
        elif kind == WAKE:
            if self._wakes.get(index, inf) <= now:  # Else an earlier one took its place.
                del self._wakes[index]
                process.handle_timer(now)
        elif kind == REACTION:
            source = happening.source
            if happening.number > 0:
                self._recorder.happened(index, Kind.JOB_END, now, source, happening.number)
            # The answers are part of the job: they leave before the next one begins.
            self._plan(index, self._workload.delivered(index, source, happening.id), True)
        elif kind == JOB:
            source = happening.source
            self._recorder.happened(index, Kind.JOB_START, now, source, happening.number)
        elif kind == PAUSE:
            self._recorder.happened(index, Kind.FAULT, now)
        else:
            self._recorder.happened(index, Kind.CRASH, now)

    # The application.

    def _plan(self, index: int, sendings: list[Sending], answer: bool = False) -> None:
        for sending in sendings:
            if answer and sending.wait_s == 0:
                self._send(index, sending)
            else:
                happening = Happening(SENDING, index, self.now + sending.wait_s)
                happening.sending = sending
                self._agenda.note(happening)

    def _send(self, index: int, sending: Sending) -> None:
        size = sending.payload_bytes
        payload = self._payloads.get(size)
        if payload is None:
            payload = bytes(size)
            self._payloads[size] = payload
        targets = [ProcessId(target) for target in sending.targets]
        number = self._processes[index].send(targets, payload, self.now)
        self._recorder.sent(index, number, targets, self.now)
        for target in targets:
            if target != index:
                self.copies += 1
                self.sent_s += self.now
        if not self._workload.plain:
            self._ids.setdefault(index, []).append(sending.id)
        self._plan(index, self._workload.sent(index, sending))

    def _deliver(self, index: int, delivery: Delivery) -> None:
        now = self.now
        source = delivery.source
        number = delivery.number
        self._recorder.delivered(index, delivery, now)
        if source != index:
            self.delivered_s += now
        if self._workload.plain:
            return
        name = self._ids[source][number - 1]
        length = self._workload.job_s(index, source, name)
        begins = max(now, self._busy.get(index, 0.0))
        if length > 0:
            job = Happening(JOB, index, begins)
            job.source = source
            job.number = number
            self._agenda.note(job)
            self._busy[index] = begins + length
        if length > 0 or begins > now:
            reaction = Happening(REACTION, index, begins + length)
            reaction.source = source
            reaction.number = number if length > 0 else 0
            reaction.id = name
            self._agenda.note(reaction)
        else:
            self._plan(index, self._workload.delivered(index, source, name))

    # The network.

    def _drain(self, index: int) -> None:
        process = self._processes[index]
        for delivery in process.messages_to_deliver():
            self._deliver(index, delivery)
        for transmit in process.frames_to_transmit():
            self.active_s = self.now
            self._transmit(index, transmit)
        due = process.next_timer()
        if due is not None and due < self._wakes.get(index, inf):
            self._wakes[index] = due
            self._agenda.note(Happening(WAKE, index, due))

    def _transmit(self, index: int, transmit: Transmit) -> None:
        frame = transmit.frame
        target = transmit.target
        now = self.now
        self._recorder.transmitted(index, transmit, now)
        if isinstance(frame, Message) and not transmit.repeat:
            self.released_s += now
            self._flying.add((index, target, frame.number))
        wire = self._wire
        fate = self._fate(index, target, frame, transmit.repeat) if wire.chancy else 0
        arrives = wire.carry(index, target, frame.size(), fate, now)
        again = wire.again
        if arrives == inf:
            self._recorder.dropped(index, target, frame, now)
            return
        self._fly(arrives, index, target, frame)
        if again != inf:
            self._fly(again, index, target, frame)

    def _fly(self, moment: float, source: int, target: int, frame: Frame) -> None:
        happening = Happening(ARRIVAL, target, moment)
        happening.source = source
        happening.frame = frame
        self._agenda.note(happening)

    def _fate(self, source: int, target: int, frame: Frame, repeat: bool) -> int:
        """Return the random state of a transmission, the same under every protocol."""
        if isinstance(frame, Message):
            number = frame.number
            name = number if self._workload.plain else self._ids[source][number - 1]
            state = stir(stir(stir(self._message_fates, source), target), name)
            return stir(state, self._count(source, target, number) if repeat else 0)
        kind = -1 - frame.kind()
        state = stir(stir(stir(self._control_fates, source), target), frame.kind())
        return stir(state, self._count(source, target, kind))

    def _count(self, source: int, target: int, what: int) -> int:
        key = (source, target, what)
        count = self._repeats.get(key, 0) + 1
        self._repeats[key] = count
        return count

    # Faults.

    def _schedule_faults(self, network: Network) -> None:
        for pause in network.pauses:
            happening = Happening(PAUSE, pause.process, pause.start_s)
            happening.until = pause.end_s
            self._agenda.note(happening)
            self._troubled.add(pause.process)
        for process, moment in network.crashes:
            self._agenda.note(Happening(CRASH, process, moment))
            self._troubled.add(process)

    def _happen_troubled(self, happening: Happening, index: int) -> None:
        """Let something happen to a process that is paused, slow or dead at times."""
        kind = happening.kind
        if index in self._crashed:
            return
        if kind == PAUSE:
            self._pauses[index] = max(self._pauses.get(index, 0.0), happening.until)
            self._happen(happening, index)
        elif kind == CRASH:
            self._crashed.add(index)
            self.unfinished = True
            self._happen(happening, index)
        elif kind == RESUME:
            self._resume(index)
        else:
            waiting = self._waiting.setdefault(index, [])
            waiting.append(happening)
            if len(waiting) == 1:
                self._resume(index)

    def _resume(self, index: int) -> None:
        """Take what is waiting, one after the other, for as long as the process may."""
        waiting = self._waiting[index]
        taken = 0
        while taken < len(waiting) and self._pauses.get(index, 0.0) <= self.now:
            service = self._services.get(index, 0.0)
            if service > 0:
                self._pauses[index] = self.now + service
            self._happen(waiting[taken], index)
            self._drain(index)
            taken += 1
        del waiting[:taken]
        if waiting:
            self._agenda.note(Happening(RESUME, index, self._pauses[index]))
