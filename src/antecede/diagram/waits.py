"""The waits of copies, at the source and at the target."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from antecede.diagram.timeline import Copy, CopyId, Timeline
from antecede.trace.event import Kind
from antecede.verify.oracle import MessageId

__all__ = ["Wait", "assign_lanes", "find_waits"]


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a copy at a process, from one x to another."""

    copy_id: CopyId
    process: int
    at_source: bool
    start: float
    end: float
    open: bool
    """The wait had not ended at the end of the run."""


def find_waits(
    timeline: Timeline,
    copies: Iterable[Copy],
    evidence: Collection[CopyId],
    x: Mapping[int, float],
    x_end: float,
) -> list[Wait]:
    """Return all waits; copies of a message released in one step share one wait.

    Args:
        timeline: The run.
        copies: The copies to draw.
        evidence: The copies that prove a violation; a shared wait belongs to one of them.
        x: For each event drawn, its x.
        x_end: The x at which a wait ends that had not ended at the end of the run.
    """
    waits: list[Wait] = []
    seen: set[tuple[MessageId, int | None]] = set()  # The step of the release.

    def add(copy: Copy, at_source: bool, start: int, end: int | None) -> None:
        if end is not None and timeline.steps[start] == timeline.steps[end]:
            return
        right = x_end if end is None else x[end]
        if right - x[start] > 0.5:
            process = copy.message.source if at_source else copy.target
            copy_id = (copy.message, copy.target)
            waits.append(Wait(copy_id, process, at_source, x[start], right, end is None))

    for copy in sorted(
        copies, key=lambda copy: (copy.message, copy.target) not in evidence
    ):
        if copy.message.source == copy.target:
            continue
        is_recorded = copy.release is not None or (
            not copy.transmissions
            and not copy.deliveries
            and Kind.RELEASE in timeline.kinds
        )
        step = None if copy.release is None else timeline.steps[copy.release]
        if copy.send is not None and is_recorded and (copy.message, step) not in seen:
            seen.add((copy.message, step))
            add(copy, True, copy.send, copy.release)
        if copy.arrive is not None and (copy.deliveries or Kind.DELIVER in timeline.kinds):
            add(copy, False, copy.arrive, copy.deliveries[0] if copy.deliveries else None)
    return waits


def assign_lanes(waits: Iterable[Wait], gap: float) -> dict[Wait, int]:
    """Return a lane for each wait: waits that overlap get different lanes."""
    ends: dict[tuple[int, bool], list[float]] = {}
    lanes: dict[Wait, int] = {}
    for wait in sorted(waits, key=lambda wait: (wait.start, wait.end, wait.copy_id)):
        taken = ends.setdefault((wait.process, wait.at_source), [])
        free = [lane for lane, end in enumerate(taken) if end + gap <= wait.start]
        if free:
            taken[free[0]] = wait.end
        else:
            taken.append(wait.end)
        lanes[wait] = free[0] if free else len(taken) - 1
    return lanes
