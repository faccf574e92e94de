"""The events of a process that wait for their predecessors."""

from bisect import bisect_left, insort

from antecede.verify.online.records import ProcessState, Segment
from antecede.verify.online.status import Counters

__all__ = ["insert_segment", "oldest_stamp", "skip_gap"]


def oldest_stamp(process: ProcessState) -> float:
    """Return the time of the first arrival among the waiting events."""
    return min(segment.stamp for segment in process.segments)


def insert_segment(process: ProcessState, segment: Segment, counters: Counters) -> None:
    """Add a segment to the events of its process, without the events that are there.

    Count the events as new, repeated, or late.
    """
    segments = process.segments
    last = segments[-1].end if segments else process.next_seq
    if segment.first >= last:
        counters.events += segment.end - segment.first
        segments.append(segment)
        return
    _count_passed(process, segment, counters)
    pieces = [segment]
    for first, end in [(0, process.next_seq), *((s.first, s.end) for s in segments)]:
        pieces = [piece for each in pieces for piece in _without(each, first, end)]
    kept = 0
    for piece in pieces:
        counters.events += piece.end - piece.first
        kept += piece.end - piece.first
        insort(segments, piece, key=lambda each: each.first)
    passed = max(0, min(segment.end, process.next_seq) - segment.first)
    counters.repeated += segment.end - segment.first - kept - passed


def _count_passed(process: ProcessState, segment: Segment, counters: Counters) -> None:
    """Count the events of a segment that the history has passed."""
    end = min(segment.end, process.next_seq)
    passed = max(0, end - segment.first)
    late = sum(
        max(0, min(end, gap_end) - max(segment.first, gap_first))
        for gap_first, gap_end, _ in process.given_up
    )
    counters.late += late
    counters.repeated += passed - late


def _without(segment: Segment, first: int, end: int) -> list[Segment]:
    """Return the parts of a segment outside of a range of seq."""
    if segment.end <= first or end <= segment.first:
        return [segment]
    parts = []
    for start, stop in ((segment.first, first), (end, segment.end)):
        if start < stop:
            low = bisect_left(segment.seqs, start)
            high = bisect_left(segment.seqs, stop)
            parts.append(
                Segment(
                    start,
                    stop,
                    segment.stamp,
                    segment.seqs[low:high],
                    segment.events[low:high],
                )
            )
    return parts


def skip_gap(process: ProcessState, now: float, counters: Counters) -> None:
    """Continue the history of a process after the missing events."""
    first, end = process.next_seq, process.segments[0].first
    counters.missing += end - first
    process.given_up.append((first, end, now))
    process.next_seq = end
