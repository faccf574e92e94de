"""The ids of processes in the frames of ``bounded``, and their translation."""

from antecede.core.codec import Frame
from antecede.core.dependencies import IdTranslation
from antecede.core.process import NO_PROCESS
from antecede.core.protocols.hybrid.dependency_frames import (
    DependentMessage,
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.entry import Entry

__all__ = ["named_ids", "translate"]


def named_ids(frame: Frame) -> list[int]:
    """Return the ids of the processes that a frame names, some perhaps more than once."""
    if isinstance(frame, DependentMessage):
        ids = list(frame.wildcards)
        _add_ids(ids, frame.own)
        _add_ids(ids, frame.inherited)
        return ids
    notes = _notes_of(frame)
    ids = []
    if notes is not None:
        _add_ids(ids, notes.targets)
        _add_ids(ids, notes.entries)
        _add_ids(ids, notes.wildcards)
    return ids


def translate(frame: Frame, ids: IdTranslation) -> None:
    """Replace the ids in a frame that has arrived; raise PeerError if one is unknown."""
    if isinstance(frame, DependentMessage):
        frame.own = _translated(frame.own, ids)
        frame.inherited = _translated(frame.inherited, ids)
        frame.wildcards = [ids.target(target) for target in frame.wildcards]
        return
    notes = _notes_of(frame)
    if notes is not None:
        notes.targets = _translated(notes.targets, ids)
        notes.entries = _translated(notes.entries, ids)
        notes.wildcards = _translated(notes.wildcards, ids)


def _notes_of(frame: Frame) -> Notes | None:
    if isinstance(frame, (SettledAck, Settled, Query)):
        return frame.notes
    return None


def _add_ids(ids: list[int], entries: list[Entry]) -> None:
    for entry in entries:
        if entry.source != NO_PROCESS:
            ids.append(entry.source)
        ids.append(entry.target)


def _translated(entries: list[Entry], ids: IdTranslation) -> list[Entry]:
    return [
        Entry(
            NO_PROCESS if entry.source == NO_PROCESS else ids.source(entry.source),
            ids.target(entry.target),
            entry.number,
        )
        for entry in entries
    ]
