"""The view of one node: the roster, and the answers to sponsors about its peers."""

from antecede.group.effects import AddMember, MemberChanged, RemoveMember
from antecede.group.frames import Added, MemberState, RosterEntry
from antecede.group.member import Member
from antecede.group.outputs import Outputs
from antecede.group.roster import Roster

__all__ = ["View"]


class View:
    """Applies statements about other nodes, and answers sponsors.

    A member confirms to a sponsor that it has added a newcomer only when its messages
    reach the newcomer's present incarnation: messages to an earlier incarnation would be
    lost, and the snapshot need not contain them.
    """

    __slots__ = ("_out", "_pending", "_ready", "roster")

    def __init__(self, out: Outputs) -> None:
        self._out = out
        self.roster = Roster()
        self._ready: dict[str, int] = {}
        self._pending: dict[str, dict[str, int]] = {}

    def apply(self, entry: RosterEntry, by: str) -> bool:
        """Apply a statement of ``by`` about another node; return whether it was new."""
        if not self.roster.is_news(entry):
            return False
        name = entry.member.name
        known = self.roster.get(name)
        was_peer = name in self.roster
        was_member = known is not None and known.state is MemberState.JOINED
        self.roster.update(entry)
        if entry.state is MemberState.GONE:
            self._ready.pop(name, None)
            self._pending.pop(name, None)
            if was_peer:
                self._out.append(RemoveMember(name, by == name))
            if was_member:
                change = "left" if by == name else "removed"
                self._out.append(MemberChanged(name, change, by))
            return True
        if not was_peer or known is None or known.member != entry.member:
            self._ready.pop(name, None)
            self._out.append(AddMember(entry.member))
        if entry.state is MemberState.JOINED:
            self._out.append(MemberChanged(name, "joined", name))
        return True

    def set_state(self, name: str, admission: int, state: MemberState, by: str) -> bool:
        """Move an admission of a known node to ``state``; return whether it changed."""
        known = self.roster.get(name)
        if known is None or known.member.admission != admission:
            return False
        return self.apply(RosterEntry(known.member, state), by)

    def is_ready(self, member: Member) -> bool:
        """Return whether messages from now on reach this incarnation of a peer."""
        return self._ready.get(member.name) == member.incarnation

    def unready_peers(self) -> list[str]:
        """Return the members and newcomers that messages from now on do not reach."""
        return [each.name for each in self.roster.peers() if not self.is_ready(each)]

    def confirm(self, sponsor: str, member: Member) -> None:
        """Answer a sponsor as soon as messages reach the newcomer."""
        if self.is_ready(member):
            self._out.in_room(sponsor, Added(member.name, member.admission))
        else:
            self._pending.setdefault(member.name, {})[sponsor] = member.admission

    def added(self, name: str, incarnation: int) -> bool:
        """Note that messages reach this incarnation, and answer the sponsors that wait.

        Return False if the roster names another incarnation.
        """
        entry = self.roster.get(name)
        if entry is None or entry.state is MemberState.GONE:
            return False
        if entry.member.incarnation != incarnation:
            return False
        self._ready[name] = incarnation
        for sponsor, admission in self._pending.pop(name, {}).items():
            if admission == entry.member.admission and sponsor in self.roster:
                self._out.in_room(sponsor, Added(name, admission))
        return True
