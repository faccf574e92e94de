"""Checks of the inputs of a process, which every protocol makes."""

from collections.abc import Iterable

from antecede.core.process import ProcessId
from antecede.errors import LocalError

__all__ = ["checked_payload", "checked_peer", "checked_targets"]


def checked_targets(targets: Iterable[object]) -> list[ProcessId]:
    """Return ``targets`` as a list; raise LocalError unless they are process ids."""
    checked: list[ProcessId] = []
    if isinstance(targets, bytes) or isinstance(targets, str):  # noqa: SIM101 (faster)
        raise LocalError(f"targets are a collection of process ids, not {targets!r}")
    members: list[object] = targets if isinstance(targets, list) else _to_list(targets)
    for target in members:
        if not isinstance(target, int) or isinstance(target, bool) or target < 0:
            raise LocalError(f"a target is a process id of at least 0, not {target!r}")
        checked.append(ProcessId(target))
    if not checked:
        raise LocalError("a message needs at least one target")
    return checked


def _to_list(targets: Iterable[object]) -> list[object]:
    try:
        remaining = iter(targets)
    except TypeError:
        raise LocalError(
            f"targets are a collection of process ids, not {targets!r}"
        ) from None
    return list(remaining)


def checked_peer(id: ProcessId, peer: object) -> ProcessId:
    """Return ``peer``; raise LocalError unless process ``id`` can have a link to it."""
    if not isinstance(peer, int) or isinstance(peer, bool) or peer < 0 or peer == id:
        raise LocalError(f"a link must lead to the id of another process, got {peer!r}")
    return ProcessId(peer)


def checked_payload(payload: object) -> bytes:
    """Return ``payload``; raise LocalError unless it is bytes."""
    if not isinstance(payload, bytes):
        raise LocalError(f"payload must be bytes, not {type(payload).__name__}")
    return payload
