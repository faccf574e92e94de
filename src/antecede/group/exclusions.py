"""The return of a live member that other members have removed.

A member that removes another one notifies it outside the room. The removed member then
joins again and gets another snapshot. Two parts of a room that could not reach each other
have removed each other: the part with more members stays, or, of equal ones, the part whose
first name comes first in alphabetical order.
"""

from antecede.group.effects import Rejoining
from antecede.group.frames import Excluded
from antecede.group.joining import SPONSORED, Joining, Phase
from antecede.group.outputs import Outputs
from antecede.group.view import View

__all__ = ["Exclusions"]


class Exclusions:
    """The members that have removed this node, and the notices to removed nodes."""

    __slots__ = ("_excluders", "_joining", "_out", "_view")

    def __init__(self, joining: Joining, view: View, out: Outputs) -> None:
        self._joining = joining
        self._view = view
        self._out = out
        self._excluders: set[str] = set()

    def members(self) -> list[str]:
        """Return the names of the members, sorted, with this node if it is a member."""
        names = self._view.roster.members()
        if self._joining.phase is Phase.MEMBER:
            names = sorted([*names, self._joining.own.name])
        return names

    def tell(self, name: str, admission: int) -> None:
        """Notify a node that it was removed."""
        names = self.members()
        if names:
            self._out.control(name, Excluded(admission, len(names), names[0]))

    def receive(self, source: str, frame: Excluded, now: float) -> bool:
        """Process the notice of a member; return whether this node joins again."""
        joining = self._joining
        own = joining.own
        if frame.admission not in (own.admission, 0):
            return False
        if joining.phase in SPONSORED and frame.admission == own.admission:
            joining.retry(now)
            return False
        if joining.phase is not Phase.MEMBER:
            return False
        roster = self._view.roster
        self._excluders &= set(roster.members())
        self._excluders.add(source)
        names = [name for name in self.members() if name not in self._excluders]
        if (-frame.members, frame.least) > (-len(names), names[0]):
            if source not in roster:
                self.tell(source, roster.admission(source))
            return False
        known = roster.get(source)
        self._excluders.clear()
        self._out.append(Rejoining(source))
        joining.rejoin(source, "" if known is None else known.member.address, now)
        return True
