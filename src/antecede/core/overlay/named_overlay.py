"""An overlay whose processes share no process ids, as on nodes.

In the simulator all processes know each other by the same ids. Nodes do not: no node knows
all members, and each chooses its own ids (:mod:`.directory`). But the frames of a broadcast
on an overlay name third processes: a message names its source, which is not the sender,
and Spray hands over peers that the receiver must be able to reach.
:class:`NamedOverlay` is a layer between the overlay and the link layer. Rules:

1. A process writes its own ids into frames. The receiver replaces them by its own ids.
2. Before the first frame that names an id on a link, the process transmits a *definition*
   on this link: the name, the history and the address that belong to the id. The link is
   FIFO and reliable, so the definition arrives before the frame.
3. The id 0 is the sender itself, which the receiver knows by the session.
4. If the link layer drops frames to a peer, definitions may be among them, so all ids are
   defined again for this peer.
"""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.overlay.definition import Definition, named_ids, translated
from antecede.core.overlay.directory import OWN_ID, Directory
from antecede.core.overlay.spray_overlay import SprayOverlay
from antecede.core.overlay_links import OverlayLinks
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.errors import ConfigError, PeerError

__all__ = ["DEFINITIONS_MAX", "NamedOverlay", "with_names"]

DEFINITIONS_MAX: Final = 1 << 16
"""The maximum number of definitions that are accepted from one peer."""


class _Known:
    """The definitions of one peer, by its ids."""

    __slots__ = ("ids", "peer")

    def __init__(self, peer: ProcessId) -> None:
        self.peer = peer
        self.ids: dict[int, ProcessId] = {}

    def own(self, id: int) -> ProcessId:
        """Return the own id of a process; raise PeerError if it is not defined."""
        if id == OWN_ID:
            return self.peer
        own = self.ids.get(id)
        if own is None:
            raise PeerError(f"process {id} of peer {self.peer} is not defined")
        return own


class NamedOverlay(ProcessBase):
    """A process on an overlay that names other processes to its peers."""

    __slots__ = ("_defined", "_directory", "_inner", "_known", "_links")

    def __init__(self, inner: SprayOverlay, directory: Directory) -> None:
        """Wrap ``inner``, which has seen no input yet and has the id of the directory."""
        if inner.id != OWN_ID:
            raise ConfigError(f"process {inner.id} must have the id {OWN_ID}")
        super().__init__(inner.id)
        self._inner = inner
        self._directory = directory
        self._defined: dict[ProcessId, set[int]] = {}
        self._known: dict[ProcessId, _Known] = {}
        self._links = _Links(inner, directory)

    @property
    def inner(self) -> SprayOverlay:
        """The process of the overlay."""
        return self._inner

    @property
    def overlay(self) -> OverlayLinks | None:
        return self._links

    def broadcast(self, payload: object, now: float) -> int:
        return self._inner.broadcast(payload, now)

    def connect(self, peer: ProcessId, now: float) -> None:
        self._inner.connect(peer, now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        self._inner.disconnect(peer, now)

    def segments_dropped(self, peer: ProcessId, now: float) -> None:
        self._defined.pop(peer, None)
        self._inner.segments_dropped(peer, now)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Store a definition, or process a frame with own ids."""
        known = self._known.get(source)
        if known is None:
            known = _Known(source)
            self._known[source] = known
        if isinstance(frame, Definition):
            self._learn(known, frame)
        else:
            self._inner.receive(source, translated(frame, known.own), now)

    def _learn(self, known: _Known, definition: Definition) -> None:
        """Choose an own id for a process that a peer has defined."""
        id = definition.id  # noqa: A001 (the word for it)
        try:
            name = definition.name.decode()
        except UnicodeDecodeError:
            raise PeerError(f"the name of process {id} is not UTF-8") from None
        if id == OWN_ID or (len(known.ids) >= DEFINITIONS_MAX and id not in known.ids):
            raise PeerError(f"invalid or surplus {definition} of peer {known.peer}")
        directory = self._directory
        own = directory.id_of(name, definition.history)
        if definition.address and not directory.address(own):
            directory.set_address(own, definition.address)
        known.ids[id] = own

    def handle_timer(self, now: float) -> None:
        self._inner.handle_timer(now)

    def next_timer(self) -> float | None:
        return self._inner.next_timer()

    def messages_to_deliver(self) -> list[Delivery]:
        return self._inner.messages_to_deliver()

    def frames_to_transmit(self) -> list[Transmit]:
        """Return the frames of the overlay, each behind the definitions that it needs."""
        transmits: list[Transmit] = []
        for transmit in self._inner.frames_to_transmit():
            target = transmit.target
            defined = self._defined.get(target)
            if defined is None:
                defined = set()
                self._defined[target] = defined
            for id in named_ids(transmit.frame):  # noqa: A001 (the word for it)
                if id != OWN_ID and id not in defined:
                    defined.add(id)
                    transmits.append(Transmit(target, self._definition(id)))
            transmits.append(transmit)
        return transmits

    def _definition(self, id: int) -> Definition:
        name, history = self._directory.identity(id)
        return Definition(id, name.encode(), history, self._directory.address(id))


class _Links(OverlayLinks):
    """The links of a NamedOverlay."""

    __slots__ = ("_directory", "_inner")

    def __init__(self, inner: SprayOverlay, directory: Directory) -> None:
        self._inner = inner
        self._directory = directory

    @property
    def directory(self) -> Directory:
        return self._directory

    @property
    def is_newcomer(self) -> bool:
        broadcast = self._inner.inner
        return isinstance(broadcast, PcBroadcast) and broadcast.newcomer

    def peers(self) -> list[ProcessId]:
        return self._inner.links

    def unsafe_peers(self) -> list[ProcessId]:
        broadcast = self._inner.inner
        return broadcast.unsafe_links if isinstance(broadcast, PcBroadcast) else []


def with_names(process: ProcessBase, config: ProcessConfig) -> ProcessBase:
    """Return ``process``, in a NamedOverlay if the configuration has a directory."""
    if config.directory is None:
        return process
    if not isinstance(process, SprayOverlay):
        raise ConfigError("a directory needs an overlay with exchanges; set exchange_s")
    return NamedOverlay(process, config.directory)
