"""The return of a live member that other members have removed.

A member that removes another one notifies it outside the room. The removed member then
joins again and gets another snapshot. Two parts of a room that could not reach each other
have removed each other: the part with more members stays, or, of equal parts, the part
whose first name comes first in alphabetical order. A member that stays although others have
removed it removes these.
"""

from antecede.core.process import NEVER
from antecede.group.effects import Rejoining
from antecede.group.frames import Excluded
from antecede.group.joining import SPONSORED, Joining, Phase
from antecede.group.outputs import Outputs
from antecede.group.view import View

__all__ = ["Exclusions"]

NEWCOMER = (*SPONSORED, Phase.SEARCHING, Phase.RESTORING)
"""The phases of a node that is not a member yet."""


class Exclusions:
    """The members that have removed this node, and the notices to removed nodes."""

    __slots__ = ("_contested", "_excluders", "_joining", "_out", "_view", "_wait_s")

    def __init__(self, joining: Joining, view: View, out: Outputs, wait_s: float) -> None:
        self._joining = joining
        self._view = view
        self._out = out
        self._wait_s = wait_s
        self._excluders: set[str] = set()
        self._contested: dict[str, float] = {}

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
        if joining.phase in NEWCOMER and own.admission >= frame.admission >= joining.first:
            self._rejoin(source, now)
            return True
        if frame.admission not in (own.admission, 0) or joining.phase is not Phase.MEMBER:
            return False
        roster = self._view.roster
        self._excluders &= set(roster.members())
        self._excluders.add(source)
        names = [name for name in self.members() if name not in self._excluders]
        if (-frame.members, frame.least) > (-len(names), names[0]):
            if source not in roster:
                self.tell(source, roster.admission(source))
            else:
                self._contested.setdefault(source, now + self._wait_s)
            return False
        self._rejoin(source, now)
        return True

    def _rejoin(self, source: str, now: float) -> None:
        known = self._view.roster.get(source)
        self._excluders.clear()
        self._contested.clear()
        self._out.append(Rejoining(source))
        address = "" if known is None else known.member.address
        self._joining.rejoin(source, address, now)

    def next_timer(self) -> float:
        """Return the time at which :meth:`due` returns a name next; infinite for never."""
        return min(self._contested.values(), default=NEVER)

    def due(self, now: float) -> list[str]:
        """Return the members that have removed this node, which stays, some time ago.

        By then, the other members would have notified this node, too.
        """
        names = [name for name, at in self._contested.items() if at <= now]
        for name in names:
            del self._contested[name]
        return names
