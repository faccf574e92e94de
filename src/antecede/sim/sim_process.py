"""A process in the simulator, and the events that faults and churn schedule for it."""

from antecede.core.process import NEVER, ProcessBase
from antecede.sim.churn import Churn
from antecede.sim.event_queue import (
    CONNECT,
    CRASH,
    DISCONNECT,
    JOIN,
    LEAVE,
    PAUSE,
    EventQueue,
    ScheduledEvent,
)
from antecede.sim.network import Network

__all__ = ["SimProcess", "schedule_churn", "schedule_faults", "schedule_link"]


class SimProcess:
    """A process of the protocol, and its state in the simulator."""

    __slots__ = (
        "busy_until",
        "deferred",
        "gone",
        "ids",
        "impaired",
        "index",
        "paused_until",
        "processing_s",
        "protocol",
        "wake",
    )

    protocol: ProcessBase
    """The process of the protocol."""
    wake: float
    """The time of the next timer event; infinite if none is scheduled."""
    busy_until: float
    """The end of its last job."""
    ids: list[int]
    """The workload's ids of its messages, in the order of their numbers."""
    impaired: bool
    """Whether it is ever slow, paused or absent."""
    processing_s: float
    """The time that it needs for every input."""
    deferred: list[ScheduledEvent]
    """The events that wait for the end of a pause."""
    gone: bool
    """Whether it has crashed or left, or has not joined yet."""

    def __init__(self, index: int, protocol: ProcessBase) -> None:
        self.index = index
        self.protocol = protocol
        self.wake = NEVER
        self.busy_until = 0.0
        self.ids = []
        self.impaired = False
        self.processing_s = 0.0
        self.paused_until = 0.0
        self.deferred = []
        self.gone = False


def schedule_faults(
    network: Network, processes: list[SimProcess], queue: EventQueue
) -> None:
    """Schedule pauses, partitions and crashes, and mark slow processes."""
    for process, processing_s in network.processing_s:
        processes[process].processing_s = processing_s
        processes[process].impaired = True
    for pause in network.pauses:
        event = ScheduledEvent(PAUSE, pause.process, pause.start_s)
        event.until = pause.end_s
        queue.push(event)
        processes[pause.process].impaired = True
    for partition in network.partitions:
        for time in (partition.start_s, partition.end_s):
            for group in partition.groups:
                for process in group:  # A pause of no length records the partition.
                    queue.push(ScheduledEvent(PAUSE, process, time))
    for process, time in network.crashes:
        queue.push(ScheduledEvent(CRASH, process, time))
        processes[process].impaired = True


def schedule_churn(churn: Churn, processes: list[SimProcess], queue: EventQueue) -> None:
    """Schedule joins, leaves and changes of links."""
    for join in churn.joins:
        process = processes[join.process]
        process.impaired = True
        process.gone = True
        queue.push(ScheduledEvent(JOIN, join.process, join.at_s))
        for contact in join.contacts:
            schedule_link(queue, CONNECT, join.process, contact, join.at_s)
            schedule_link(queue, CONNECT, contact, join.process, join.at_s)
    for leave in churn.leaves:
        processes[leave.process].impaired = True
        queue.push(ScheduledEvent(LEAVE, leave.process, leave.at_s))
    for change in churn.links:
        kind = CONNECT if change.up else DISCONNECT
        schedule_link(queue, kind, change.source, change.target, change.at_s)


def schedule_link(
    queue: EventQueue, kind: int, source: int, target: int, time: float
) -> None:
    """Schedule CONNECT or DISCONNECT of the link from ``source`` to ``target``."""
    event = ScheduledEvent(kind, source, time)
    event.source = target
    queue.push(event)
