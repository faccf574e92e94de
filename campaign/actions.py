"""The faults and changes of a scenario, and how each is done."""

from dataclasses import replace
from functools import partial

from antecede.engine.history_number import is_later
from antecede.net.faults import Faults
from campaign.application import Member, run_intruder
from campaign.cluster import Cluster
from campaign.scenario import Action

__all__ = ["Actions"]

LATE_S = (0.3, 0.6, 1.2, 2.5, 4.0)
"""How long late datagrams take; the lease is 2 seconds."""
QUIET_S = 30.0
"""How long no datagram must be transmitted before weeks pass."""


class Actions:
    """Performs the actions of a scenario on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.simulation = cluster.simulation

    def perform(self, action: Action) -> None:
        """Perform an action, if it is possible now."""
        member = self.cluster.members[action.node]
        is_running = self.simulation.is_running(action.node) and member.node is not None
        if action.kind == "send":
            if is_running:
                data = bytes([3]) + bytes(action.size - 1)
                self.simulation.spawn(action.node, member.send(action.targets, data))
            return
        handle = getattr(self, f"do_{action.kind}")
        if handle(action, member, is_running):
            self.cluster.log.count(action.kind)

    def do_loss(self, action: Action, member: Member, is_running: bool) -> bool:
        worse = Faults(loss=0.9, delay_s=0.05, jitter_s=0.5, bytes_per_s=20_000)
        self._set_links(action, worse)
        return True

    def do_delay(self, action: Action, member: Member, is_running: bool) -> bool:
        """Let datagrams take about a lease, in order, or in any order and some twice."""
        delay_s = LATE_S[action.size % len(LATE_S)]
        if action.size // len(LATE_S) % 2:
            self._set_links(action, Faults(delay_s=delay_s))
        else:
            self._set_links(action, Faults(jitter_s=2 * delay_s, duplicate=0.5))
        return True

    def _set_links(self, action: Action, faults: Faults) -> None:
        """Let the links from a node to its targets have other faults for a while."""
        links = [(action.node, target) for target in action.targets]
        self.simulation.set_faults(faults, links)
        self.cluster.later(
            action.seconds, self.simulation.set_faults, self.cluster.faults, links
        )

    def do_partition(self, action: Action, member: Member, is_running: bool) -> bool:
        self.simulation.partition([action.node], action.targets)
        self.cluster.later(action.seconds, self.simulation.heal)
        return True

    def do_one_way(self, action: Action, member: Member, is_running: bool) -> bool:
        self.simulation.block(action.node, action.targets[0])
        self.cluster.later(action.seconds, self.simulation.heal)
        return True

    def do_pause(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.pause(action.node)
        self.cluster.later(action.seconds, self.cluster.resume, action.node)
        return True

    def do_kill(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.cluster.send_before_end(member, action.targets[0])
        self.simulation.kill(action.node)
        self.cluster.history_ends(member, keeps=member.plan.journal)
        self.cluster.later(action.seconds, self.cluster.restart, member)
        return True

    def do_power_off(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.cluster.send_before_end(member, action.targets[0])
        self.simulation.power_off(action.node)
        keeps = member.plan.journal and member.plan.sync
        self.cluster.history_ends(member, keeps=keeps)
        if member.plan.journal and not member.plan.sync:
            member.has_forked = True
        self.cluster.later(action.seconds, self.cluster.restart, member)
        return True

    def do_stop(self, action: Action, member: Member, is_running: bool) -> bool:
        """Stop a process for good; one of the same name starts without its journal."""
        if not is_running:
            return False
        self.cluster.send_before_end(member, action.targets[0])
        self.simulation.kill(action.node)
        self.cluster.history_ends(member, keeps=False)
        if member.plan.journal:
            self.simulation.disk(action.node).erase()
        self.cluster.notice_stop(member)
        self.cluster.later(max(action.seconds, 5.0), self.cluster.restart, member)
        return True

    def do_remove(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        peer = action.targets[0]
        self.simulation.spawn(action.node, member.send((peer,), b"\x03"))
        self.simulation.spawn(action.node, self.cluster.remove(member, peer, False))
        return True

    def do_leave(self, action: Action, member: Member, is_running: bool) -> bool:
        """Close a node; it is started again later."""
        if not is_running or member.node is None:
            return False
        self.cluster.history_ends(member, keeps=member.plan.journal)

        self.simulation.spawn(action.node, self.cluster.leave(member, member.node))
        self.cluster.later(3.0 + action.seconds, self.cluster.restart, member)
        return True

    def do_depart(self, action: Action, member: Member, is_running: bool) -> bool:
        """End a process for good, with or without a BYE."""
        if not is_running or member.node is None or len(self.cluster.living) < 3:
            return False
        member.is_gone = True
        self.cluster.send_before_end(member, action.targets[0])

        if action.size % 2:
            # Permits are lost; BYE is retransmitted.
            others = tuple(name for name in self.cluster.members if name != action.node)
            worse = replace(self.cluster.faults, loss=0.5)
            self._set_links(replace(action, targets=others, seconds=3.0), worse)
            self.simulation.spawn(action.node, self.cluster.leave(member, member.node))
            self.cluster.later(5.0, self.cluster.remove_stopped, member)
        else:
            self.cluster.left(member)
            self.cluster.notice_stop(member)
        return True

    def do_move(self, action: Action, member: Member, is_running: bool) -> bool:
        if not is_running:
            return False
        self.simulation.move(action.node)
        self.cluster.moved.add(action.node)
        self.cluster.later(action.seconds, self.cluster.announce, action.node)
        return True

    def do_restore(self, action: Action, member: Member, is_running: bool) -> bool:
        """Restart a process from a backup of its journal, which is made the first time.

        A backup of a former journal is of no use: nobody knows which journal is later.
        """
        node = member.node
        if not member.plan.journal or not is_running or node is None:
            return False
        disk = self.simulation.disk(action.node)
        history = node.engine.history
        former, files = member.backup
        if not files or (former != history and not is_later(history, former)):
            member.backup = history, disk.backup()
            return True
        self.simulation.kill(action.node)
        disk.restore(files)
        self.cluster.history_ends(member, keeps=False)
        member.has_forked = True
        self.cluster.later(action.seconds, self.cluster.restart, member)
        return True

    def do_disk_full(self, action: Action, member: Member, is_running: bool) -> bool:
        if not member.plan.journal:
            return False
        disk = self.simulation.disk(action.node)
        disk.is_full = True
        self.cluster.later(action.seconds, self.cluster.free_disk, member)
        return True

    def do_slow(self, action: Action, member: Member, is_running: bool) -> bool:
        member.is_slow = True
        self.cluster.later(action.seconds, setattr, member, "is_slow", False)
        return True

    def do_hostile(self, action: Action, member: Member, is_running: bool) -> bool:
        """Inject datagrams: replayed, changed, or random; only replayed without a key."""
        network = self.simulation.network
        captured = list(network.captured)
        if not captured:
            return False
        for _ in range(5):
            source, target, datagram = self.cluster.random.choice(captured)
            how = self.cluster.random.randrange(3) if self.cluster.scenario.keyed else 0
            if how == 1:
                changed = bytearray(datagram)
                changed[self.cluster.random.randrange(len(changed))] ^= (
                    1 + self.cluster.random.randrange(255)
                )
                datagram = bytes(changed)
            elif how == 2:
                datagram = self.cluster.random.randbytes(self.cluster.random.randrange(200))
            network.inject(source, target, datagram)
        return True

    def do_intruder(self, action: Action, member: Member, is_running: bool) -> bool:
        """Run a node with the name of a member and another key for a while."""
        if not self.cluster.scenario.keyed or self.simulation.is_running("intruder"):
            return False
        main = partial(run_intruder, self.cluster.scenario, action.node)
        self.simulation.start("intruder", main, daemon=True)
        self.cluster.later(action.seconds, self.simulation.kill, "intruder")
        return True

    def do_idle(self, action: Action, member: Member, is_running: bool) -> bool:
        """Let weeks pass, if the nodes are quiet; retransmissions would take too long."""
        simulation = self.simulation
        simulation.run_for(QUIET_S)
        self.cluster.skipped += QUIET_S
        datagrams = self._datagrams()
        simulation.run_for(QUIET_S)
        self.cluster.skipped += QUIET_S
        if self._datagrams() != datagrams:
            return False
        simulation.run_for(action.seconds)
        self.cluster.skipped += action.seconds
        return True

    def _datagrams(self) -> int:
        """Return how many datagrams the running nodes have made, also to absent ones."""
        return sum(
            member.node.engine.stats().datagrams_out
            for member in self.cluster.members.values()
            if member.node is not None and self.simulation.is_running(member.name)
        )
