"""Virtual time: real processes, a network and a workload, one happening after the other.

What happens at the same moment happens in the order in which it was scheduled, so a run
is a function of its parameters and its seed. The recorder sees everything in an order
that is a linear extension of happened-before.
"""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.process import NEVER, Delivery, ProcessBase, ProcessId, Transmit
from antecede.core.support.keyed_random import begin, stir
from antecede.sim.churn import Churn
from antecede.sim.event_queue import Agenda, Happening
from antecede.sim.latency import Waits
from antecede.sim.network import Network, Wire
from antecede.sim.workloads.synthetic import Sending, Workload
from antecede.trace.event import Kind
from antecede.trace.recorders import Tally

__all__ = ["Loop", "Member"]

ARRIVAL: Final = 0
SENDING: Final = 1
WAKE: Final = 2
REACTION: Final = 3
JOB: Final = 4
PAUSE: Final = 5
CRASH: Final = 6
RESUME: Final = 7
JOIN: Final = 8
LEAVE: Final = 9
CONNECT: Final = 10
DISCONNECT: Final = 11

MESSAGES: Final = 1
CONTROLS: Final = 2
"""Tell the random numbers of messages from those of control frames."""


class Member:
    """A process in the loop, and what the loop knows of it."""

    __slots__ = (
        "busy_until",
        "gone",
        "ids",
        "index",
        "paused_until",
        "process",
        "service_s",
        "troubled",
        "waiting",
        "wake",
    )

    def __init__(self, index: int, process: ProcessBase) -> None:
        """Start a process that is well and idle."""
        self.index = index
        self.process = process
        self.wake = NEVER  # When it is going to be woken for its timers.
        self.busy_until = 0.0  # The end of its last job.
        self.ids: list[int] = []  # The workload's names for its messages, by number - 1.
        self.troubled = False  # It is slow, or paused at times: see _happen_troubled.
        self.service_s = 0.0
        self.paused_until = 0.0
        self.waiting: list[Happening] = []
        self.gone = False  # It has crashed, or left, or has not joined yet.


class Loop:
    """One run."""

    __slots__ = (
        "_agenda",
        "_broadcasts",
        "_control_fates",
        "_members",
        "_message_fates",
        "_payloads",
        "_plain",
        "_recorder",
        "_repeats",
        "_wire",
        "_workload",
        "active_s",
        "events",
        "now",
        "unfinished",
        "waits",
    )

    now: float
    """The virtual time."""
    active_s: float
    """When something happened last, faults and timers that found nothing to do aside."""
    events: int
    """How many happenings there have been."""
    unfinished: bool
    """The run was cut short, or somebody crashed or left, and misses messages."""
    waits: Waits
    """How long messages waited, and where."""

    def __init__(
        self,
        processes: list[ProcessBase],
        network: Network,
        workload: Workload,
        recorder: Tally,
        seed: int,
        churn: Churn | None = None,
        relays: bool = False,
        broadcasts: bool = False,
    ) -> None:
        """Put everything in its place; then call :meth:`run`.

        Args:
            processes: Of one protocol, with ids from 0.
            network: What happens to frames and processes.
            workload: What the processes do.
            recorder: What gets to see every event.
            seed: What the network's random numbers depend on.
            churn: Who comes and goes.
            relays: Whether the protocol's messages travel by way of others.
            broadcasts: Whether it has broadcast; else everybody is named as a target.
        """
        self._members = [Member(i, processes[i]) for i in range(len(processes))]
        self._workload = workload
        self._plain = workload.plain
        self._broadcasts = broadcasts
        self._recorder = recorder
        self._wire = Wire(network)
        self.waits = Waits(self._wire.orderly, relays)
        state = begin(seed)
        self._message_fates = stir(state, MESSAGES)
        self._control_fates = stir(state, CONTROLS)
        self._agenda = Agenda()
        self._repeats: dict[tuple[int, int, int, int], int] = {}
        self._payloads: dict[int, bytes] = {0: b""}
        self.now = 0.0
        self.active_s = 0.0
        self.events = 0
        self.unfinished = False
        self._schedule_faults(network)
        if churn is not None:
            self._schedule_churn(churn)
        for member in self._members:
            if not member.gone:
                self._plan(member, workload.start(member.index))

    def run(self, until_s: float = NEVER, events_max: int = 1 << 62) -> bool:
        """Go on for ``events_max`` events; tell whether there is more to do.

        There is not when everything is at rest, or ``until_s`` has come.
        """
        agenda = self._agenda
        limit = self.events + events_max
        moment = agenda.next_moment()
        while moment <= until_s and moment < NEVER:
            if self.events >= limit:
                return True
            happening = agenda.take()
            self.now = moment
            self.events += 1
            member = self._members[happening.process]
            if member.troubled:
                self._happen_troubled(happening, member)
            elif happening.kind == ARRIVAL:
                self._arrive(happening, member)
                self._drain(member)
            else:
                self._happen(happening, member)
                self._drain(member)
            moment = agenda.next_moment()
        if moment < NEVER:
            self.unfinished = True
        return False

    def _arrive(self, happening: Happening, member: Member) -> None:
        frame = happening.frame
        assert frame is not None
        source = happening.source
        now = self.now
        self.active_s = now
        self.waits.arrived(source, member.index, frame, happening.number > 0, now)
        self._recorder.arrived(member.index, source, frame, now)
        member.process.receive(ProcessId(source), frame, now)

    def _happen(self, happening: Happening, member: Member) -> None:
        kind = happening.kind
        now = self.now
        index = member.index
        if kind == WAKE:
            if member.wake <= now:  # Else an earlier one took its place.
                member.wake = NEVER
                member.process.handle_timer(now)
            return
        if kind == PAUSE:
            self._recorder.happened(index, Kind.FAULT, now)
            return
        self.active_s = now
        if kind == ARRIVAL:
            self._arrive(happening, member)
        elif kind == SENDING:
            sending = happening.sending
            assert sending is not None
            if member.busy_until > now:
                happening.moment = member.busy_until  # The process is at a job.
                self._agenda.note(happening)
            else:
                self._send(member, sending)
        elif kind == REACTION:
            source = happening.source
            if happening.number > 0:
                self._recorder.happened(index, Kind.JOB_END, now, source, happening.number)
            # The answers are part of the job: they leave before the next one begins.
            self._plan(member, self._workload.delivered(index, source, happening.id), True)
        elif kind == JOB:
            source = happening.source
            self._recorder.happened(index, Kind.JOB_START, now, source, happening.number)
        elif kind == CONNECT:
            member.process.connect(ProcessId(happening.source), now)
        else:
            assert kind == DISCONNECT
            member.process.disconnect(ProcessId(happening.source), now)

    # The application.

    def _plan(self, member: Member, sendings: list[Sending], answer: bool = False) -> None:
        for sending in sendings:
            if answer and sending.wait_s == 0:
                self._send(member, sending)
            else:
                moment = self.now + sending.wait_s
                happening = Happening(SENDING, member.index, moment)
                happening.sending = sending
                self._agenda.note(happening)

    def _send(self, member: Member, sending: Sending) -> None:
        size = sending.payload_bytes
        payload = self._payloads.get(size)
        if payload is None:
            payload = bytes(size)
            self._payloads[size] = payload
        index = member.index
        now = self.now
        targets = sending.targets
        if not targets and not self._broadcasts:
            targets = [other for other in range(len(self._members)) if other != index]
        if targets:
            number = member.process.send([ProcessId(t) for t in targets], payload, now)
            self._recorder.sent(index, number, targets, now)
            others = len(targets) - (1 if index in targets else 0)
        else:
            number = member.process.broadcast(payload, now)
            self._recorder.sent(index, number, None, now)
            others = len(self._members) - 1
        self.waits.sent(index, number, others, now)
        if not self._plain:
            member.ids.append(sending.id)
        self._plan(member, self._workload.sent(index, sending))

    def _deliver(self, member: Member, delivery: Delivery) -> None:
        now = self.now
        index = member.index
        source = delivery.source
        number = delivery.number
        self._recorder.delivered(index, delivery, now)
        if source != index:
            self.waits.delivered(now)
        if self._plain:
            return
        name = self._members[source].ids[number - 1]
        length = self._workload.job_s(index, source, name)
        begins = max(now, member.busy_until)
        if length > 0:
            job = Happening(JOB, index, begins)
            job.source = source
            job.number = number
            self._agenda.note(job)
            member.busy_until = begins + length
        if length > 0 or begins > now:
            reaction = Happening(REACTION, index, begins + length)
            reaction.source = source
            reaction.number = number if length > 0 else 0
            reaction.id = name
            self._agenda.note(reaction)
        else:
            self._plan(member, self._workload.delivered(index, source, name))

    # The network.

    def _drain(self, member: Member) -> None:
        process = member.process
        for delivery in process.messages_to_deliver():
            self._deliver(member, delivery)
        for transmit in process.frames_to_transmit():
            self._transmit(member.index, transmit)
        due = process.next_timer()
        if due is not None and due < member.wake:
            due = max(due, self.now)  # Who has just joined may have slept through some.
            member.wake = due
            self._agenda.note(Happening(WAKE, member.index, due))

    def _transmit(self, index: int, transmit: Transmit) -> None:
        frame = transmit.frame
        target = transmit.target
        repeat = transmit.repeat
        now = self.now
        self.active_s = now
        self._recorder.transmitted(index, transmit, now)
        self.waits.transmitted(index, target, frame, repeat, now)
        wire = self._wire
        fate = self._fate(index, target, frame, repeat) if wire.chancy else 0
        size = frame.size() if wire.narrow else 0
        arrives = wire.carry(index, target, size, fate, now)
        again = wire.again
        if arrives == NEVER or self._members[target].gone:
            self._recorder.dropped(index, target, frame, now)
            return
        self._fly(arrives, index, target, frame, repeat)
        if again != NEVER:
            self._fly(again, index, target, frame, True)

    def _fly(
        self, moment: float, source: int, target: int, frame: Frame, repeat: bool
    ) -> None:
        happening = Happening(ARRIVAL, target, moment)
        happening.source = source
        happening.frame = frame
        happening.number = 1 if repeat else 0
        self._agenda.note(happening)

    def _fate(self, source: int, target: int, frame: Frame, repeat: bool) -> int:
        """Return the random state of a transmission, the same under every protocol."""
        number = frame.message_number()
        if number > 0:
            origin = frame.message_source()
            state = self._message_fates
            if origin >= 0 and origin != source:
                state = stir(state, origin)  # A hop of a relay.
            else:
                origin = source
            name = number if self._plain else self._members[origin].ids[number - 1]
            state = stir(stir(stir(state, source), target), name)
            return stir(state, self._count(source, target, origin, name) if repeat else 0)
        kind = frame.kind()
        state = stir(stir(stir(self._control_fates, source), target), kind)
        return stir(state, self._count(source, target, -1, kind))

    def _count(self, source: int, target: int, origin: int, what: int) -> int:
        key = (source, target, origin, what)
        count = self._repeats.get(key, 0) + 1
        self._repeats[key] = count
        return count

    # Faults and churn.

    def _schedule_faults(self, network: Network) -> None:
        for process, service_s in network.service_s:
            self._members[process].service_s = service_s
            self._members[process].troubled = True
        for pause in network.pauses:
            happening = Happening(PAUSE, pause.process, pause.start_s)
            happening.until = pause.end_s
            self._agenda.note(happening)
            self._members[pause.process].troubled = True
        for partition in network.partitions:
            for moment in (partition.start_s, partition.end_s):
                for group in partition.groups:
                    for process in group:  # A pause of no length, for the trace.
                        self._agenda.note(Happening(PAUSE, process, moment))
        for process, moment in network.crashes:
            self._agenda.note(Happening(CRASH, process, moment))
            self._members[process].troubled = True

    def _schedule_churn(self, churn: Churn) -> None:
        for join in churn.joins:
            member = self._members[join.process]
            member.troubled = True
            member.gone = True
            self._agenda.note(Happening(JOIN, join.process, join.at_s))
            for contact in join.contacts:
                self._schedule_link(CONNECT, join.process, contact, join.at_s)
                self._schedule_link(CONNECT, contact, join.process, join.at_s)
        for leave in churn.leaves:
            self._members[leave.process].troubled = True
            self._agenda.note(Happening(LEAVE, leave.process, leave.at_s))
        for change in churn.links:
            kind = CONNECT if change.up else DISCONNECT
            self._schedule_link(kind, change.source, change.target, change.at_s)

    def _schedule_link(self, kind: int, source: int, target: int, moment: float) -> None:
        happening = Happening(kind, source, moment)
        happening.source = target
        self._agenda.note(happening)

    def _happen_troubled(self, happening: Happening, member: Member) -> None:
        """Let something happen to a process that is paused, slow or away at times."""
        kind = happening.kind
        now = self.now
        if kind == JOIN:
            self.active_s = now
            member.gone = False
            self._recorder.happened(member.index, Kind.JOIN, now)
            self._plan(member, self._workload.start(member.index))
            return
        if member.gone:
            return
        if kind == PAUSE:
            member.paused_until = max(member.paused_until, happening.until)
            self._happen(happening, member)
        elif kind in (CRASH, LEAVE):
            self.active_s = now
            member.gone = True
            self.unfinished = True
            what = Kind.CRASH if kind == CRASH else Kind.LEAVE
            self._recorder.happened(member.index, what, now)
            if kind == LEAVE:
                for other in self._members:
                    if other is not member and not other.gone:
                        self._schedule_link(DISCONNECT, other.index, member.index, now)
        elif kind == RESUME:
            self._resume(member)
        else:
            member.waiting.append(happening)
            if len(member.waiting) == 1:
                self._resume(member)

    def _resume(self, member: Member) -> None:
        """Take what is waiting, one after the other, for as long as the process may."""
        waiting = member.waiting
        taken = 0
        while taken < len(waiting) and member.paused_until <= self.now:
            if member.service_s > 0:
                member.paused_until = self.now + member.service_s
            self._happen(waiting[taken], member)
            self._drain(member)
            taken += 1
        del waiting[:taken]
        if waiting:
            self._agenda.note(Happening(RESUME, member.index, member.paused_until))
