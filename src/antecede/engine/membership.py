"""Who is in the group: peers that come, lose their history, fall silent and go.

The half of an engine that knows the peers: it meets them, lets go of them once their lease
has run out, tells their lives apart, says goodbye, and keeps the journal that lets a node
take up where it was stopped. docs/removal.md argues why this keeps causal order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from antecede.core.codec import NUMBER_MAX
from antecede.core.config import Setting
from antecede.core.process import NEVER, ProcessBase, ProcessId
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.registry import ProtocolInfo, protocol
from antecede.engine.datagram import BYE, FAREWELL, protocol_tag, tag_of
from antecede.engine.journal import JournalKeeper, SavedCopy, SavedDelivery, SavedPair
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE, GONE, LEAVING, LEFT, Remote
from antecede.engine.session_layer import READING_S, Accepted, Gate, Sealing
from antecede.errors import ConfigError, LocalError

__all__ = ["Group"]

ITSELF: Final = ProcessId(0)
"""Its own id, where ids mean nothing to others."""


class Group:
    """The peers of one node; :class:`antecede.engine.engine.Engine` is the rest of it."""

    __slots__ = (
        "_by_id",
        "_done",
        "_fixed",
        "_gate",
        "_info",
        "_journal",
        "_limits",
        "_look_at",
        "_met",
        "_next_id",
        "_process",
        "_remotes",
        "_touched",
        "_waives",
    )

    def __init__(
        self,
        name: str,
        incarnation: int,
        protocol_name: str,
        members: Sequence[str],
        limits: Limits,
        seal: Sealing | None,
        life: int,
    ) -> None:
        """Start with no peers, or with the members where those are fixed."""
        info = protocol(protocol_name)
        if not info.capabilities.unicast:
            raise ConfigError(f"{protocol_name} has no unicast; choose another protocol")
        self._limits = limits
        self._info = info
        self._fixed = not info.capabilities.dynamic
        names = sorted({*members, name})
        own = ProcessId(names.index(name)) if self._fixed else ITSELF
        setting = Setting(
            processes=len(names) if self._fixed else 0,
            policy=limits.policy,
            early_max=limits.early,
        )
        self._process: ProcessBase = info.make(own, setting)
        if limits.give_up_s < NEVER and not isinstance(self._process, HybridBasic):
            raise ConfigError(
                f"{protocol_name} cannot let go of a peer; leave give_up_s out"
            )
        self._gate = Gate(
            name,
            tag_of(name),
            incarnation,
            life if life else incarnation,
            protocol_tag([protocol_name, *(names if self._fixed else ())]),
            limits,
            seal,
        )
        self._remotes: dict[str, Remote] = {}
        self._by_id: dict[ProcessId, Remote] = {}
        self._next_id = len(names) if self._fixed else 1
        self._look_at = -NEVER  # When to look for silent peers, if they are given up.
        self._waives: list[tuple[float, ProcessId]] = []
        self._touched: dict[str, Remote] = {}
        self._journal: JournalKeeper | None = None
        self._done: Callable[[str, int, int], None] | None = None
        self._met: Callable[[int, str, int], None] | None = None
        if self._fixed:
            for member in names:
                if member != name:
                    self._add(member, ProcessId(names.index(member)), None)

    @property
    def name(self) -> str:
        """The node's name."""
        return self._gate.name

    @property
    def incarnation(self) -> int:
        """Which start of the node this is."""
        return self._gate.incarnation

    @property
    def info(self) -> ProtocolInfo:
        """The protocol."""
        return self._info

    @property
    def process(self) -> ProcessBase:
        """The protocol's process."""
        return self._process

    @property
    def remotes(self) -> dict[str, Remote]:
        """All peers by name, those that have gone included."""
        return self._remotes

    def peers(self) -> list[str]:
        """Return the names of the peers of the moment."""
        return [name for name, remote in self._remotes.items() if remote.state == ACTIVE]

    def name_of(self, id: ProcessId) -> str:
        """Return the name behind a process id, for those who look into the process."""
        remote = self._by_id.get(id)
        return remote.name if remote is not None else self._gate.name

    def _collect(self, now: float) -> None:
        """Take what the process wants to transmit and to deliver."""
        raise TypeError("a bare Group carries nothing")

    # Coming and going.

    def add_peer(self, name: str, address: object, now: float) -> None:
        """Speak with ``name`` at ``address`` from now on; if it was removed, anew.

        Raise ConfigError if it is the node itself, is being removed, or the protocol's
        membership is fixed.
        """
        if name == self._gate.name:
            raise ConfigError(f"{name} is this node itself; name its peers only")
        remote = self._remotes.get(name)
        if remote is None:
            if self._fixed:
                raise ConfigError(
                    f"the members of {self._info.name} are fixed; name {name} at the start"
                )
            remote = self._add(name, self._new_id(), address)
        elif remote.state == LEAVING:
            raise ConfigError(f"{name} is being removed; wait until its lease has run out")
        remote.state = ACTIVE
        remote.stopped = False
        self._gate.unwatch(remote)
        remote.address = address
        self._gate.want_hello(remote, now)

    def _new_id(self) -> ProcessId:
        id = ProcessId(self._next_id)  # noqa: A001 (the word for it)
        self._next_id += 1
        return id

    def _add(self, name: str, id: ProcessId, address: object) -> Remote:
        remote = Remote(name, tag_of(name), id, address)
        for other in self._remotes.values():
            if other.tag == remote.tag:
                raise ConfigError(f"{name} and {other.name} have one tag; rename one")
        self._remotes[name] = remote
        self._by_id[id] = remote
        self._gate.add(remote)
        return remote

    def remove_peer(self, name: str, now: float, *, stopped: bool = False) -> float:
        """Let go of a peer, and return when its unacked messages will be abandoned.

        That is when the peer's lease on what was transmitted to it has run out. Say
        ``stopped`` only of a process that has stopped for good: then nobody here waits
        for its permits either (docs/removal.md). Raise LocalError for an unknown peer.
        """
        remote = self._remotes.get(name)
        if remote is None or remote.state == GONE:
            raise LocalError(f"{name} is not a peer")
        if not isinstance(self._process, HybridBasic):
            raise LocalError(f"{self._info.name} cannot let go of a peer; use hybrid")
        ends = self._lease_end(remote, now)
        if stopped and not remote.stopped:  # What it transmitted to others is under way.
            ends = now + self._lease_s
        elif remote.state == LEAVING:
            ends = remote.lease_ends
        remote.stopped = remote.stopped or stopped
        remote.state = LEAVING
        remote.take()
        remote.lease_ends = ends
        self._gate.watch(remote)
        return ends

    @property
    def _lease_s(self) -> float:
        """After how long, by our clock, another's lease has run out by its own."""
        return self._limits.lease_s * (1 + self._limits.drift) + READING_S

    def _lease_end(self, remote: Remote, now: float) -> float:
        """Tell when the peer will refuse all that was transmitted to it so far."""
        return max(now, max(remote.echo_at, remote.former_at) + self._lease_s)

    def _end_lease(self, remote: Remote, now: float) -> None:
        """Abandon what a peer that goes has not acked: it refuses all of it by now."""
        self._process.abandon(remote.id, now)
        if remote.stopped:
            self._process.waive(remote.id, now)
        if remote.state == LEAVING:  # Else it left by itself, and may come back so.
            remote.state = GONE
        remote.lease_ends = NEVER
        remote.epoch_out += 1
        remote.drop_parts()
        self._note_abandoned(remote)
        self._collect(now)

    def _begin_life(self, accepted: Accepted, now: float) -> bool:
        """Take in a peer that has lost its history, or has just been met."""
        remote = accepted.remote
        if accepted.previous != 0:
            if not isinstance(self._process, HybridBasic):
                remote.state = GONE  # The protocol has no way on without its history.
                return False
            former = remote.id
            remote.id = self._new_id()
            self._by_id[remote.id] = remote
            remote.take()
            # Its former incarnation accepts nothing any more, so this is safe now; what
            # that one transmitted to others may still be on its way for a lease.
            self._process.abandon(former, now)
            self._waives.append((now + self._lease_s, former))
            self._note_abandoned(remote)
            self._collect(now)
        remote.epoch_in = accepted.epoch
        remote.drop_parts()
        if self._met is not None:
            self._met(remote.id, remote.name, remote.life)
        return True

    def tell_lives(self, met: Callable[[int, str, int], None]) -> None:
        """Call ``met`` with id, name and life of every peer that is, or will be, known.

        A peer that comes back without its history gets a new id.
        """
        self._met = met
        for remote in self._remotes.values():
            if remote.life:
                met(remote.id, remote.name, remote.life)

    def bye(self, now: float) -> list[tuple[object, bytes]]:
        """Return the goodbyes to transmit; call it once ``backlog`` is 0, and again.

        A peer that has answered gets none; when there are none, everybody has.
        """
        out: list[tuple[object, bytes]] = []
        for remote in self._remotes.values():
            if remote.state == ACTIVE and self._gate.ready(remote, now):
                body = self._gate.prefix(remote, now)
                out.append((remote.address, self._gate.close(BYE, remote, body)))
        return out

    def _hear_bye(self, remote: Remote, now: float) -> None:
        """Let a peer go whose messages have all been delivered: no permit is missing.

        What it has not acked is abandoned when its lease has run out, unless it is back
        by then.
        """
        if remote.address is None:
            return
        body = self._gate.prefix(remote, now)
        answer = self._gate.close(FAREWELL, remote, body)
        self._gate.answers.append((remote.address, answer))
        process = self._process
        if remote.state == ACTIVE and isinstance(process, HybridBasic):
            for peer, number, _ in process.missing_permits(NUMBER_MAX):
                if peer == remote.id:
                    process.receive(peer, Permit(number), now)
            remote.state = LEFT
            remote.take()
            self._gate.stop_asking(remote)
            remote.lease_ends = self._lease_end(remote, now)
            self._gate.watch(remote)
            self._collect(now)

    # How much is under way.

    def has_room(self, targets: Iterable[str]) -> bool:
        """Tell whether the windows of all ``targets`` are open.

        Those of a peer that goes are: posting to it is refused, which nobody waits for.
        """
        if self._process.retained() >= self._limits.retained:
            return False
        for name in targets:
            remote = self._remotes.get(name)
            if remote is not None and remote.state == ACTIVE and not self._is_open(remote):
                return False
        return True

    def _is_open(self, remote: Remote) -> bool:
        """Tell whether a peer's window is open."""
        process = self._process
        limits = self._limits
        return (
            process.backlog(remote.id) < limits.window
            and process.backlog_bytes(remote.id) < limits.window_bytes
        )

    def is_lone(self, targets: Sequence[str]) -> bool:
        """Tell whether the one copy that was just sent is the only one for its target."""
        if len(targets) != 1:
            return False
        remote = self._remotes.get(targets[0])
        return remote is not None and self._process.backlog(remote.id) == 1

    @property
    def backlog(self) -> int:
        """How many copies are not known to have been delivered.

        Those to peers that have gone or left are not among them: they never will be.
        """
        process = self._process
        return sum(
            process.backlog(remote.id)
            for remote in self._remotes.values()
            if remote.state in (ACTIVE, LEAVING)
        )

    # Time.

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        earliest = NEVER
        timer = self._process.next_timer()
        if timer is not None:
            earliest = timer
        asked = self._gate.next_deadline()
        if asked < earliest:
            earliest = asked
        if self._waives and self._waives[0][0] < earliest:
            earliest = self._waives[0][0]
        if self._limits.give_up_s < NEVER and self._look_at < earliest:
            earliest = self._look_at
        return earliest if earliest < NEVER else None

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``; flush afterwards. Calling early is harmless."""
        due = self._process.next_timer()
        if due is not None and due <= now:
            self._process.handle_timer(now)
            self._collect(now)
        while self._waives and self._waives[0][0] <= now:
            _, former = self._waives.pop(0)
            self._process.waive(former, now)
            self._by_id.pop(former, None)
            self._collect(now)
        for remote in self._gate.ended_leases(now):
            self._end_lease(remote, now)
        if self._limits.give_up_s < NEVER and self._look_at <= now:
            self._look_at = now + self._limits.give_up_s / 4
            self._give_up(now)

    def _give_up(self, now: float) -> None:
        """Remove the peers that copies have waited for in silence for too long."""
        for name, remote in self._remotes.items():
            if remote.state != ACTIVE or not self._process.backlog(remote.id):
                remote.waiting_since = NEVER
            elif remote.waiting_since == NEVER:
                remote.waiting_since = now
            else:
                since = max(remote.waiting_since, remote.heard_at)
                if now - since >= self._limits.give_up_s:
                    self.remove_peer(name, now)

    # Keeping a journal.

    def keep(
        self,
        journal: JournalKeeper,
        done: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Tell a journal everything from now on; ``done`` is what messages call."""
        if not isinstance(self._process, HybridBasic):
            raise ConfigError(f"{self._info.name} cannot keep a journal; use hybrid")
        self._journal = journal
        self._done = done

    def write_journal(self) -> None:
        """Make everything durable that has happened so far."""
        journal = self._journal
        process = self._process
        if journal is None or not isinstance(process, HybridBasic):
            return
        for remote in self._touched.values():
            journal.pair(remote, process.numbers(remote.id))
        self._touched.clear()
        journal.commit()

    def _note_abandoned(self, remote: Remote) -> None:
        if self._journal is not None:
            self._journal.abandoned(remote.name)
            self._touched[remote.name] = remote

    def restore(
        self,
        clock: int,
        pairs: Sequence[SavedPair],
        copies: Sequence[SavedCopy],
        deliveries: Sequence[SavedDelivery],
        now: float,
    ) -> None:
        """Take up where the node was stopped; add peers, and :meth:`keep`, afterwards."""
        process = self._process
        if not isinstance(process, HybridBasic):
            raise ConfigError(f"{self._info.name} cannot keep a journal; use hybrid")
        numbers: list[tuple[ProcessId, int, int, int]] = []
        permitted: dict[tuple[str, int], int] = {(self.name, self._gate.life): 1 << 62}
        ids: dict[tuple[str, int], ProcessId] = {}
        for pair in pairs:
            remote = self._add(pair.name, self._new_id(), None)
            remote.former_at = now
            remote.life = pair.life
            remote.epoch_in = pair.epoch_in
            remote.epoch_out = pair.epoch_out
            numbers.append((remote.id, pair.sent, pair.delivered, pair.permitted))
            permitted[pair.name, pair.life] = pair.permitted
            ids[pair.name, pair.life] = remote.id
        missing: list[tuple[ProcessId, int]] = []
        seqs: list[int] = []
        for delivery in deliveries:
            key = (delivery.source, delivery.life)
            if delivery.number <= permitted.get(key, 0):
                continue
            if key not in ids:  # A life that has ended; its lease may not have.
                ids[key] = self._new_id()
                numbers.append((ids[key], 0, delivery.number, 0))
                self._waives.append((now + self._lease_s, ids[key]))
            missing.append((ids[key], delivery.number))
            seqs.append(delivery.seq)
        unacked: list[tuple[ProcessId, int, int, int, bytes]] = []
        for copy in copies:
            depends = sum(1 for seq in seqs if seq < copy.seq)
            target = self._remotes.get(copy.target)
            if target is None:  # It was sent before anything was heard of the peer.
                target = self._add(copy.target, self._new_id(), None)
                target.former_at = now
            unacked.append(
                (target.id, copy.number, copy.predecessor, depends, copy.payload)
            )
        numbers = _with_last_sent(numbers, unacked)
        process.restore(clock, numbers, missing, unacked, now)
        self._collect(now)


def _with_last_sent(
    numbers: list[tuple[ProcessId, int, int, int]],
    copies: list[tuple[ProcessId, int, int, int, bytes]],
) -> list[tuple[ProcessId, int, int, int]]:
    """Correct what was last sent by the copies, which are written earlier than pairs."""
    last = {target: number for target, number, _, _, _ in copies}
    known = {entry[0] for entry in numbers}
    corrected = [
        (peer, max(sent, last.get(peer, 0)), delivered, permitted)
        for peer, sent, delivered, permitted in numbers
    ]
    fresh = [(peer, sent, 0, 0) for peer, sent in last.items() if peer not in known]
    return corrected + fresh
