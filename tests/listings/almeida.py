"""Algorithms 1, 2 and 3 of Almeida's hybrid-buffering paper, line by line.

The names and the numbers at the ends of lines are the paper's (arXiv:2601.11487). A
listing runs as printed unless a `Repair` is enabled; each repairs one erratum of
docs/explanation/errata.md. The module shares no code with antecede.core. Where the
indentation of a listing and its description in §5.4, §5.6 or §5.7 disagree, the module
follows the description.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from antecede.errors import LocalError
from tests.listings import Packet, Per, SlidingArray, SlidingMap


class Repair(Enum):
    """The repairs, in the order and with the numbers of docs/explanation/errata.md."""

    NUMBER_FROM_ONE = "1"
    ACK_THE_DUPLICATE = "2"
    REMEMBER_EARLY_PERMITS = "3"
    SEPARATE_FLAG = "4"
    ADVANCE_U2 = "5"
    CLAMP_M2 = "6"
    PERMIT_ONCE = "7"
    SEPARATE_REQUEST = "8"
    PREDECESSOR_PER_RECEIVER = "9, first part"
    PERMIT_THE_LAST_UNACKED = "9, second part"
    FRESH_FLAG = "10"
    MOVE_M2_WHEN_EMPTY = "11"
    REFUSE_EMPTY_TARGETS = "12"


def before(repair: Repair) -> frozenset[Repair]:
    """Return the repairs of all earlier errata."""
    repairs = list(Repair)
    return frozenset(repairs[: repairs.index(repair)])


class Flag(Enum):
    """The booleans of ``per : N + B``; like those, they do not compare with integers."""

    NO = False
    YES = True


@dataclass(slots=True)
class Msg:
    rcv: frozenset[int]
    mid: int
    pids: dict[int, int]  # pid, as sent to each receiver.
    per: int | Flag
    pl: str | None = "payload"
    unack: set[int] = field(default_factory=set)
    sent: bool = False
    flag: Flag = Flag.NO  # The value of per after the send, with repair 4.
    granted: set[int] = field(
        default_factory=set
    )  # The receivers of a permit, with repairs 7 and 9.

    @property
    def to(self) -> int:
        (receiver,) = self.rcv
        return receiver


class Algorithm1:
    """The basic algorithm (lines 20 to 79)."""

    def __init__(self, i: int, repairs: Iterable[Repair] = ()) -> None:
        self.i = i
        self.repairs = frozenset(repairs)
        self.base = int(Repair.NUMBER_FROM_ONE in self.repairs)
        self.ck = self.base  # 21
        self.u: SlidingArray[Msg] = SlidingArray(self.base)  # 22
        self.p = SlidingMap()  # 23
        self.ls: defaultdict[int, int] = defaultdict(int)  # 24
        self.ld: defaultdict[int, int] = defaultdict(int)  # 25
        self.sb: list[Msg] = []  # 26
        self.rb: defaultdict[int, dict[int, Packet]] = defaultdict(dict)  # 27
        self.highest: defaultdict[int, int] = defaultdict(lambda: -1)  # Repair 3.
        self.outbox: list[Packet] = []
        self.delivered: list[Per] = []

    def send(self, j: int, kind: str, n: int) -> None:
        self.outbox.append(Packet(kind, self.i, j, n))

    def send_msg(self, j: int, m: Msg) -> None:
        per = self.flag_of(m) is Flag.YES
        self.outbox.append(Packet("MSG", self.i, j, m.mid, m.pids[j], per))

    def flag_of(self, m: Msg) -> int | Flag:
        return m.per

    def try_send(self) -> None:
        while self.sb:  # 29
            m = self.sb[0]  # 30
            assert isinstance(m.per, int)
            if self.p.first < m.per:  # 31
                return  # 32
            self.sb.pop(0)  # 33
            m.per = Flag(self.u.size > 0)  # 34
            self.u.add(m)  # 35
            self.send_msg(m.to, m)  # 36

    def causal_send(self, receivers: frozenset[int]) -> None:
        (j,) = receivers
        m = Msg(receivers, self.ck, {j: self.ls[j]}, self.p.next)  # 38, 39
        self.ls[j] = self.ck  # 40
        self.ck += 1  # 41
        self.sb.append(m)  # 42
        self.try_send()  # 43

    def receive_msg(self, j: int, m: Packet) -> None:
        if m.number <= self.ld[j]:  # 45
            is_repaired = Repair.ACK_THE_DUPLICATE in self.repairs
            n = m.number if is_repaired else b.number  # type: ignore[has-type]  # noqa: F821
            self.send(j, "ACK", n)  # 46
            return  # 47
        e = self.rb[j]  # 48
        e[m.pid] = m  # 49
        while self.ld[j] in e:  # 50
            b = e.pop(self.ld[j])  # 51
            self.ld[j] = b.number  # 52
            if b.per and b.number > self.highest[j]:  # 53
                self.p.add(Per(j, b.number))  # 54
            self.send(j, "ACK", b.number)  # 55
            self.delivered.append(Per(j, b.number))  # 56

    def receive_ack(self, j: int, n: int) -> None:
        if n < self.u.first:  # 58
            self.send(j, "PERMIT", n)  # 59
            return  # 60
        self.u[n].pl = None  # 61
        if n == self.u.first:  # 62
            self.u.remove()  # 63
            while self.u.size > 0:  # 64
                m = self.u.peek  # 65
                if m.per is Flag.YES:  # 66
                    self.send(m.to, "PERMIT", m.mid)  # 67
                if m.pl is not None:  # 68
                    return  # 69
                self.u.remove()  # 70

    def receive_permit(self, j: int, n: int) -> None:
        for each in self.permitted(j, n):
            self.p.remove(each)  # 72
            self.try_send()  # 73

    def permitted(self, j: int, n: int) -> list[Per]:
        """Return the permits that n covers: its own, or all earlier ones with repair 8."""
        if Repair.REMEMBER_EARLY_PERMITS in self.repairs:
            self.highest[j] = max(self.highest[j], n)
        if Repair.SEPARATE_REQUEST not in self.repairs:
            return [Per(j, n)]
        return [per for per in self.p if per.snd == j and per.mid <= n]

    def periodically(self) -> None:
        for m in self.u:  # 75
            if m.pl is not None:  # 76
                if Repair.FRESH_FLAG in self.repairs:
                    m.per = Flag(m.mid > self.frontier(m.to))
                self.send_msg(m.to, m)  # 77
        self.ask()

    def ask(self) -> None:
        if Repair.SEPARATE_REQUEST not in self.repairs:
            self.ask_by_ack()
            return
        lowest = {per.snd: per.mid for per in reversed(list(self.p))}
        for snd, mid in lowest.items():
            self.send(snd, "REQUEST", mid)

    def ask_by_ack(self) -> None:
        for p in self.p:  # 78
            self.send(p.snd, "ACK", p.mid)  # 79

    def receive_request(self, j: int, n: int) -> None:
        if n <= self.frontier(j):
            self.send(j, "PERMIT", self.frontier(j))

    def frontier(self, j: int) -> int:
        """Return the highest id whose permit can be sent to j (repairs 8 and 10)."""
        if self.u.size == 0:
            return self.u.next - 1
        return self.u.peek.mid - (self.u.peek.to != j)


class Algorithm2(Algorithm1):
    """The SPS-optimal algorithm (lines 1 to 100)."""

    def __init__(self, i: int, repairs: Iterable[Repair] = ()) -> None:
        super().__init__(i, repairs)
        self.p2 = 0  # 8
        self.m1 = self.m2 = self.u2 = self.base  # 9, 10, 11
        self.visits = 0  # The number of messages that send_interval has visited.

    def flag_of(self, m: Msg) -> int | Flag:
        return m.flag if Repair.SEPARATE_FLAG in self.repairs else m.per

    def set_flag(self, m: Msg, value: bool) -> None:
        if Repair.SEPARATE_FLAG in self.repairs:
            m.flag = Flag(value)
        else:
            m.per = Flag(value)

    def causal_send(self, receivers: frozenset[int]) -> None:
        (j,) = receivers
        m = Msg(receivers, self.ck, {j: self.ls[j]}, self.p.next)  # 13, 14
        self.ls[j] = self.ck  # 15
        self.ck += 1  # 16
        self.u.add(m)  # 17
        if Repair.ADVANCE_U2 in self.repairs:
            at_end = self.u2 == self.u.next - 1
            self.u2 += at_end and self.u.peek.rcv == m.rcv
        self.send_interval(self.u.next - 1, self.p2)  # 18

    def periodically(self) -> None:
        for m in self.u:  # 20
            if m.sent and m.pl is not None:  # 21
                if Repair.FRESH_FLAG in self.repairs:
                    self.set_flag(m, m.mid > self.frontier(m.to))
                self.send_msg(m.to, m)  # 22
        self.ask()  # 23, 24

    def frontier(self, j: int) -> int:
        others = [m.mid for m in self.u if m.pl is not None and m.to != j]
        return min(others, default=self.u.next) - 1

    def send_interval(self, k: int, p: int) -> None:
        p1 = self.p.first  # 26
        first = self.p[p1]
        s = first.snd if first is not None else None  # 27
        r = self.u.peek.to if self.u.size > 0 else None  # 28
        if Repair.CLAMP_M2 in self.repairs:
            k = max(k, self.u.first)
        while k < self.u.next and self.u[k].per <= p:  # type: ignore[operator]  # 29
            self.visits += 1
            m = self.u[k]  # 30
            if not m.sent and (m.per <= p1 or m.to == s):  # type: ignore[operator]  # 31
                m.sent = True  # 32
                self.set_flag(m, self.u2 < k or m.to != r)  # 33
                self.send_msg(m.to, m)  # 34
            k += 1  # 35
        while self.m1 < self.u.next and self.u[self.m1].sent:  # 36
            self.m1 += 1  # 37

    def update_p2_m2(self) -> None:
        p1 = self.p.first  # 39
        if p1 == self.p.next:  # 40
            if Repair.MOVE_M2_WHEN_EMPTY in self.repairs:
                self.m2 = self.u.next
            return  # 41
        first = self.p[p1]
        while self.p2 < self.p.next and (  # 43
            (second := self.p[self.p2]) is None
            or (first is not None and second.snd == first.snd)  # 42, 44
        ):
            self.p2 += 1  # 45
        if Repair.CLAMP_M2 in self.repairs:
            self.m2 = max(self.m2, self.u.first)
        while self.m2 < self.u.next:  # 46, where "per" is "perm"
            if self.u[self.m2].per > self.p2:  # type: ignore[operator]
                break
            self.m2 += 1  # 47

    def permit(self, m: Msg) -> None:
        if Repair.PERMIT_ONCE not in self.repairs or not m.granted:
            self.send(m.to, "PERMIT", m.mid)
        m.granted.add(m.to)

    def receive_ack(self, j: int, n: int) -> None:
        if n < self.u.first:  # 49
            self.send(j, "PERMIT", n)  # 50
            return  # 51
        self.u[n].pl = None  # 52
        if n == self.u.first:  # 53
            self.u.remove()  # 54
            while self.u.size > 0:  # 55
                m = self.u.peek  # 56
                if m.sent and self.flag_of(m) is Flag.YES and m.to != j:  # 57
                    self.permit(m)  # 58
                if m.pl is not None:  # 59
                    break  # 60
                self.u.remove()  # 61
            n = self.u.first  # 62
        if n == self.u2 < self.u.next:  # 63
            r = self.u.peek.to  # 64
            while self.u2 < self.u.next:  # 65
                m = self.u[self.u2]  # 66
                if m.pl is not None and m.to != r:  # 67
                    break  # 68
                if m.sent and self.flag_of(m) is Flag.YES and m.to == r:  # 69
                    self.permit(m)  # 70
                self.u2 += 1  # 71

    def receive_msg(self, j: int, m: Packet) -> None:
        if m.number <= self.ld[j]:  # 73
            is_repaired = Repair.ACK_THE_DUPLICATE in self.repairs
            n = m.number if is_repaired else b.number  # type: ignore[name-defined]  # noqa: F821
            self.send(j, "ACK", n)  # 74
            return  # 75
        e = self.rb[j]  # 76
        e[m.pid] = m  # 77
        while self.ld[j] in e:  # 78
            r = e.pop(self.ld[j])  # 79
            self.ld[j] = r.number  # 80
            if r.per and r.number > self.highest[j]:  # 81
                k = self.p.next  # 82
                self.p.add(Per(j, r.number))  # 83
                first = self.p[self.p.first]
                if self.p2 == k and first is not None and first.snd == j:  # 84
                    self.p2 = k + 1  # 85
            self.send(j, "ACK", r.number)  # 86
            self.delivered.append(Per(j, r.number))  # 87

    def receive_permit(self, j: int, n: int) -> None:
        for each in self.permitted(j, n):
            k = self.p.index(each)  # 89
            if k is None:  # 90
                return  # 91
            p1 = self.p.first  # 92
            self.p.remove(each)  # 93
            if k == p1:  # 94
                k = self.p.first  # 95
                self.send_interval(self.m1, k)  # 96
            if k == self.p2:  # 97
                m2 = self.m2  # 98
                self.update_p2_m2()  # 99
                self.send_interval(m2, self.p2)  # 100


class Algorithm3(Algorithm1):
    """The multicast variant of Algorithm 1 (lines 7 to 45)."""

    pick_pid: Literal["highest", "lowest"] = "highest"
    """The predecessor that line 18 means, which the listing does not specify."""

    def try_send(self) -> None:
        while self.sb:  # 8
            m = self.sb[0]  # 9
            assert isinstance(m.per, int)
            if self.p.first < m.per:  # 10
                return  # 11
            self.sb.pop(0)  # 12
            m.per = Flag(self.u.size > 0 or len(m.rcv) > 1)  # 13
            self.u.add(m)  # 14
            for j in sorted(m.rcv):  # 15
                self.send_msg(j, m)  # 16

    def causal_send(self, receivers: frozenset[int]) -> None:
        if Repair.REFUSE_EMPTY_TARGETS in self.repairs and not receivers:
            raise LocalError("a message needs at least one receiver")
        pids = {j: self.ls[j] for j in receivers}
        if Repair.PREDECESSOR_PER_RECEIVER not in self.repairs and receivers:
            pid = (max if self.pick_pid == "highest" else min)(pids.values())
            pids = dict.fromkeys(receivers, pid)
        m = Msg(receivers, self.ck, pids, self.p.next, unack=set(receivers))  # 18
        for j in receivers:  # 19
            self.ls[j] = self.ck  # 20
        self.ck += 1  # 21
        self.sb.append(m)  # 22
        self.try_send()  # 23

    def receive_ack(self, j: int, n: int) -> None:
        if n < self.u.first:  # 25
            self.send(j, "PERMIT", n)  # 26
            return  # 27
        self.u[n].unack.discard(j)  # 28
        if not self.u[n].unack:  # 29
            self.u[n].pl = None  # 30
        if n == self.u.first:  # 31
            while self.u.size > 0:  # 32
                m = self.u.peek  # 33
                if Repair.PERMIT_THE_LAST_UNACKED in self.repairs and len(m.unack) == 1:
                    self.permit(m, m.unack)
                if m.pl is not None:  # 34
                    return  # 35
                if m.per is Flag.YES:  # 36
                    self.permit(m, m.rcv)  # 37, 38
                self.u.remove()  # 39

    def frontier(self, j: int) -> int:
        if self.u.size == 0:
            return self.u.next - 1
        return self.u.peek.mid - (self.u.peek.unack != {j})

    def permit(self, m: Msg, receivers: Iterable[int]) -> None:
        for j in sorted(set(receivers) - m.granted):
            self.send(j, "PERMIT", m.mid)
            m.granted.add(j)

    def periodically(self) -> None:
        for m in self.u:  # 41
            for j in sorted(m.unack):  # 42
                self.send_msg(j, m)  # 43
        self.ask()  # 44, 45
