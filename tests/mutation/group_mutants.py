"""Faults in the membership of rooms."""

from tests.mutation.mutant import Mutant

__all__ = ["GROUP_MUTANTS"]

GROUP_MUTANTS = (
    Mutant(
        "a snapshot is taken before all members have answered",
        "group/sponsor",
        "if sponsorship.has_asked or sponsorship.waiting:",
        "if sponsorship.has_asked:",
    ),
    Mutant(
        "a sponsor waits for members that are gone",
        "group/sponsor",
        "{peer for peer in sponsorship.waiting if peer in roster}",
        "{peer for peer in sponsorship.waiting}",
    ),
    Mutant(
        "a sponsor takes a snapshot before it reaches the newcomer itself",
        "group/sponsor",
        "        if self._view.is_ready(member):\n",
        "        if True:\n",
    ),
    Mutant(
        "the notice of the cut is sent before the snapshot is taken",
        "group/sponsor",
        "            sponsorship.has_asked = True\n",
        "            sponsorship.has_asked = True\n"
        "            self._out.in_room(member.name, CutNotice(member.admission))\n",
    ),
    Mutant(
        "answers to an earlier attempt count",
        "group/sponsor",
        "        if sponsorship is None or sponsorship.member.admission != admission:\n",
        "        if sponsorship is None:\n",
    ),
    Mutant(
        "newcomers do not learn of others before their snapshots",
        "group/sponsor",
        "            if name != member.name:\n",
        "            if False:\n",
    ),
    Mutant(
        "a sponsor never gives up a newcomer",
        "group/sponsor",
        "            if now >= sponsorship.deadline:\n",
        "            if False:\n",
    ),
    Mutant(
        "a member answers before its messages reach the newcomer",
        "group/view",
        "        if self.is_ready(member):\n",
        "        if True:\n",
    ),
    Mutant(
        "a restarted newcomer is taken for its earlier incarnation",
        "group/view",
        "        if entry.member.incarnation != incarnation:\n",
        "        if False:\n",
    ),
    Mutant(
        "a statement about an earlier admission counts",
        "group/roster",
        "return _rank(entry) > _rank(known)",
        "return _rank(entry) != _rank(known)",
    ),
    Mutant(
        "a newcomer may be named as a target",
        "group/roster",
        "            if entry.state is MemberState.JOINED\n",
        "            if entry.state is not MemberState.GONE\n",
    ),
    Mutant(
        "the last message of the cut is delivered again",
        "group/held_messages",
        "        if message.number <= last:\n",
        "        if message.number < last:\n",
    ),
    Mutant(
        "the first message after the cut is dropped",
        "group/held_messages",
        "        if message.number <= last:\n",
        "        if message.number <= last + 1:\n",
    ),
    Mutant(
        "the cut applies to all histories of a member",
        "group/held_messages",
        "        key = (message.source, message.history)\n",
        "        key = next((k for k in self._numbers if k[0] == message.source), None)\n",
    ),
    Mutant(
        "held messages are not limited",
        "group/held_messages",
        "if len(self._messages) >= self._count_max or size > self._bytes_max:",
        "if False:",
    ),
    Mutant(
        "messages of the cut that arrive after the snapshot are delivered",
        "group/joining",
        "            self._out.broadcast(JoinedNotice(self.own.admission))\n",
        "            self.filter = CutFilter()\n"
        "            self._out.broadcast(JoinedNotice(self.own.admission))\n",
    ),
    Mutant(
        "a newcomer sends before the notice of the cut",
        "group/joining",
        "is_restored = self.phase is Phase.CONFIRMING and self._has_cut_notice",
        "is_restored = self.phase is Phase.CONFIRMING",
    ),
    Mutant(
        "a newcomer sends before it is restored",
        "group/joining",
        "is_restored = self.phase is Phase.CONFIRMING and self._has_cut_notice",
        "is_restored = self._has_cut_notice and self.phase is not Phase.MEMBER",
    ),
    Mutant(
        "a newcomer sends before it reaches all members",
        "group/joining",
        "if is_restored and not self._view.unready_peers():",
        "if is_restored:",
    ),
    Mutant(
        "a newcomer sends before it reaches other newcomers",
        "group/view",
        "for each in self.roster.peers() if not self.is_ready(each)]",
        "for each in self.roster.peers() if not self.is_ready(each)"
        " and each.name in self.roster.members()]",
    ),
    Mutant(
        "a newcomer does not know the newcomers of others",
        "group/joining",
        "            if entry.member.name != self.own.name:\n",
        "            if entry.member.name != self.own.name and entry.state:\n",
    ),
    Mutant(
        "the snapshot of an earlier attempt is restored",
        "group/joining",
        "            and admission == self.own.admission\n",
        "",
    ),
    Mutant(
        "the notice of an earlier attempt counts",
        "group/joining",
        "if source == self.sponsor and notice.admission == self.own.admission:",
        "if True:",
    ),
    Mutant(
        "a newcomer without success does not say goodbye",
        "group/joining",
        "        if self._was_offered:\n",
        "        if False:\n",
    ),
    Mutant(
        "a newcomer waits for a silent sponsor for ever",
        "group/joining",
        "        elif now >= self._silent_at:\n",
        "        elif False:\n",
    ),
    Mutant(
        "newcomers do not answer other sponsors",
        "group/membership",
        "        if member.name == self._own.name:\n",
        "        if member.name == self._own.name or not self.is_member:\n",
    ),
    Mutant(
        "a removal is not passed on",
        "group/membership",
        "            self._out.broadcast(Removing(name, admission))\n",
        "",
    ),
    Mutant(
        "the smaller part of a divided room stays",
        "group/exclusions",
        "(-frame.members, frame.least) > (-len(names), names[0])",
        "(-frame.members, frame.least) < (-len(names), names[0])",
    ),
    Mutant(
        "a newcomer that was removed goes on with its history",
        "group/exclusions",
        "        if joining.phase in NEWCOMER and"
        " own.admission >= frame.admission >= joining.first:\n",
        "        if False:\n",
    ),
    Mutant(
        "a member that stays waits for ever for those that have removed it",
        "group/exclusions",
        "                self._contested.setdefault(source, now + self._wait_s)\n",
        "                pass\n",
    ),
    Mutant(
        "a removed node is admitted while its removal is under way",
        "group/reception",
        "if not is_member or not self._settings.can_admit(source):",
        "if not is_member:",
    ),
    Mutant(
        "a slow sponsor is asked again and again",
        "group/joining",
        "            self._patience_s *= 2\n",
        "",
    ),
    Mutant(
        "two nodes that look for a room found one each",
        "group/search",
        "                if name < self._own_name:\n",
        "                if False:\n",
    ),
    Mutant(
        "a node founds a room while a seed is silent",
        "group/search",
        "            elif candidate.answer is not AnswerKind.ABSENT:\n",
        "            elif False:\n",
    ),
    Mutant(
        "all chunks of a snapshot are sent at once",
        "group/snapshot_transfer",
        "self._sent < self._acked + self._window",
        "True",
    ),
    Mutant(
        "the checksum of a snapshot is not compared",
        "group/snapshot_transfer",
        "        if digest_of(self._data) != self._digest:\n",
        "        if False:\n",
    ),
    Mutant(
        "a text of any length is accepted",
        "group/codec",
        "    if len(data) > bytes_max:\n",
        "    if False:\n",
    ),
)
"""The mutants: name, module and source change of each."""
