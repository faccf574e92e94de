"""What is going to happen, handed out in the order of time.

A calendar queue: time is cut into days, a happening is noted under its day, and a day is
sorted when it comes. That costs the same however much is noted, where a heap would take
longer and longer ways through memory. The length of a day follows what is found in it.

What is noted for the same moment comes in the order in which it was noted: a day is a
list, sorting is stable, and the same moment is always in the same day.
"""

from bisect import insort
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame
from antecede.core.process import NEVER
from antecede.sim.workloads.synthetic import Sending

__all__ = ["Agenda", "Happening"]

CROWDED: Final = 256
"""A day with more happenings is too long."""
LONELY: Final = 4
"""Days with fewer happenings, on average, are too short."""
DAYS_JUDGED: Final = 64
"""The average is over so many days, fewer if they were very crowded."""
CHANGE: Final = 8.0
"""How much longer or shorter days become at a time."""
DAY_S: Final = 1e-3
"""How long a day is at first."""
TAKEN_MAX: Final = 1 << 16
"""So many happenings of a day are let go of before it ends."""
DAYS_MAX: Final = 1 << 52
"""Where a day has no number any more, everything is on the last one."""
DAYS_FINE: Final = 1 << 40
"""Days become no shorter once there have been so many, or they would run out of numbers."""
DAYS_FAR: Final = 1 << 46
"""Days become longer once there have been so many, for the same reason."""

_moment: Final = attrgetter("moment")


@mypyc_attr(acyclic=True)
class Happening:
    """Something that is going to happen to a process."""

    __slots__ = (
        "frame",
        "id",
        "kind",
        "moment",
        "number",
        "process",
        "sending",
        "source",
        "until",
    )

    def __init__(self, kind: int, process: int, moment: float) -> None:
        """Say what, where and when; set the rest as the kind needs."""
        self.kind = kind
        self.process = process
        self.moment = moment
        self.source = 0
        self.number = 0
        self.id = 0
        self.until = 0.0
        self.frame: Frame | None = None
        self.sending: Sending | None = None


class Agenda:
    """All happenings that are noted and have not been taken."""

    __slots__ = (
        "_day",
        "_days",
        "_days_judged",
        "_length_s",
        "_noted",
        "_place",
        "_seen",
        "_today",
    )

    def __init__(self) -> None:
        """Start with nothing."""
        self._length_s = DAY_S
        self._noted: dict[int, list[Happening]] = {}
        self._days: list[int] = []  # A heap of the days in `_noted`.
        self._day = -1
        self._today: list[Happening] = []
        self._place = 0
        self._days_judged = 0
        self._seen = 0

    @property
    def day_s(self) -> float:
        """How long a day is at present."""
        return self._length_s

    def note(self, happening: Happening) -> None:
        """Add something, not earlier than what was taken last."""
        day = self._day_of(happening.moment)
        if day <= self._day:
            insort(self._today, happening, lo=self._place, key=_moment)
            return
        noted = self._noted.get(day)
        if noted is None:
            self._noted[day] = [happening]
            heappush(self._days, day)
        else:
            noted.append(happening)

    def next_moment(self) -> float:
        """Tell when the next happening is, infinite if there is none."""
        if self._place == len(self._today) and not self._turn():
            return NEVER
        return self._today[self._place].moment

    def take(self) -> Happening:
        """Remove and return the next happening; raise IndexError if there is none."""
        if self._place == len(self._today) and not self._turn():
            raise IndexError("take from an empty agenda")
        happening = self._today[self._place]
        self._place += 1
        if self._place == TAKEN_MAX:
            self._forget()
        return happening

    def _day_of(self, moment: float) -> int:
        days = moment / self._length_s
        return int(days) if days < DAYS_MAX else DAYS_MAX

    def _turn(self) -> bool:
        """Turn to the next day on which anything happens; tell whether there is one."""
        if not self._days:
            return False
        self._seen += len(self._today)
        self._days_judged += 1
        self._judge()
        self._day = heappop(self._days)
        today = self._noted.pop(self._day)
        if len(today) > 1:
            today.sort(key=_moment)
        self._today = today
        self._place = 0
        return True

    def _forget(self) -> None:
        """Let go of what was taken today."""
        del self._today[: self._place]
        self._seen += self._place
        self._place = 0

    def _judge(self) -> None:
        """Change the length of a day if the last ones were too crowded, or too lonely."""
        if self._days[0] > DAYS_FAR:
            self._rewrite(self._length_s * CHANGE)
            return
        if self._days_judged < DAYS_JUDGED and self._seen < DAYS_JUDGED * CROWDED:
            return
        average = self._seen / self._days_judged
        self._days_judged = 0
        self._seen = 0
        if average > CROWDED:
            self._shorten()
        elif average < LONELY and len(self._days) > LONELY:
            self._rewrite(self._length_s * CHANGE)

    def _shorten(self) -> None:
        """Make days shorter, unless that would part nothing: all is at one moment."""
        length_s = self._length_s / CHANGE
        today = self._today
        if today and today[0].moment < today[-1].moment < DAYS_FINE * length_s:
            self._rewrite(length_s)

    def _rewrite(self, length_s: float) -> None:
        old = self._noted
        self._length_s = length_s
        self._noted = {}
        for noted in old.values():
            for happening in noted:
                self._noted.setdefault(self._day_of(happening.moment), []).append(happening)
        self._days = list(self._noted)
        heapify(self._days)
