"""Random runs of ``bounded``, and what its processes keep."""

import os
from collections import Counter
from collections.abc import Callable
from random import Random

from antecede.core import ProcessConfig, RetransmissionPolicy
from antecede.core.codec import Frame
from antecede.core.process import UNBOUNDED, Process
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.hybrid.ledger import Ledger
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.testing import Cluster, Packet

__all__ = [
    "BUDGETS",
    "POLICY",
    "RUNS",
    "bounded_cluster",
    "hybrid_process",
    "kinds_of",
    "ledger_of",
    "left_over",
    "over_budget",
    "run_randomly",
    "without",
]

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
BUDGETS = (0, 5, 8, 16, 32, UNBOUNDED)
RUNS = 40 if "ANTECEDE_MUTANT" in os.environ else 100
"""Fewer for mutants, because the tests run for every mutant."""
SECONDS = (0.02, 0.25, 1.0, 4.0)


def bounded_cluster(
    processes: int, budget: int, policy: RetransmissionPolicy = POLICY
) -> Cluster:
    """Return a cluster of ``bounded``."""
    config = ProcessConfig(processes=processes, policy=policy, budget_bytes=budget)
    return Cluster("bounded", processes, config=config)


def hybrid_process(process: Process) -> HybridProcess:
    """Return a process as what it is."""
    assert isinstance(process, HybridProcess)
    return process


def ledger_of(process: Process) -> Ledger:
    """Return the ledger of a process of ``bounded``."""
    ledger = hybrid_process(process)._algorithm.ledger
    assert ledger is not None
    return ledger


def left_over(process: Process) -> list[str]:
    """Return the names of the parts that should be empty in an idle process."""
    ledger = ledger_of(process)
    state = hybrid_process(process)._algorithm.state
    parts: dict[str, object] = {
        "open": ledger.open,
        "queued": ledger.copies.queued,
        "unacked": ledger.unacked,
        "pairs by source": ledger.table.sources,
        "pairs by target": ledger.table.targets,
        "waiting": ledger.waiting,
        "repairs": ledger.repairs.missing,
        "received wildcards": ledger.wildcards.received,
        "sent wildcards": ledger.wildcards.sent,
        "notes": any(ledger.notes.has_notes(peer) for peer in state.peers),
        "missing permits": state.permits.first < state.permits.next,
        "copies": process.retained() if isinstance(process, HybridProcess) else 0,
    }
    for part in ledger.peers.values():
        parts[f"unsettled of {part.id}"] = part.unsettled
        parts[f"wildcards of {part.id}"] = part.received
        parts[f"cleared of {part.id}"] = part.cleared
        parts[f"notes to {part.id}"] = part.pending_pairs or part.pending_clears
        parts[f"queue to {part.id}"] = len(part.queue)
    return [name for name, part in parts.items() if part]


def over_budget(frame: Frame, budget: int) -> bool:
    """Return whether a message has more metadata than under ``hybrid`` and the budget."""
    if not isinstance(frame, DependentMessage):
        return False
    plain = MessageFrame(frame.number, frame.predecessor, frame.permitted, frame.payload)
    return frame.metadata_size() - plain.metadata_size() > budget


def kinds_of(frame: Frame) -> list[str]:
    """Return what a frame is, and what it carries."""
    kinds = [type(frame).__name__]
    if isinstance(frame, DependentMessage):
        kinds += ["wildcard"] * bool(frame.wildcards)
        kinds += ["own"] * bool(frame.own)
        kinds += ["inherited"] * bool(frame.inherited)
        kinds += ["opaque with wildcard"] * (frame.is_opaque and bool(frame.wildcards))
        kinds += ["permitted with entries"] * frame.permitted
    elif isinstance(frame, MessageFrame) and not frame.permitted:
        kinds.append("opaque")
    return kinds


def without(cluster: Cluster, matches: Callable[[Packet], bool]) -> None:
    """Drop the packets in flight that match."""
    in_flight = cluster.in_flight
    for index in range(len(in_flight) - 1, -1, -1):
        if matches(in_flight[index]):
            cluster.drop(index)


def run_randomly(
    cluster: Cluster,
    random: Random,
    *,
    faults: bool,
    steps: int = 120,
    targets_max: int = 3,
    budget: int | None = None,
    pace_s: float | None = None,
) -> Counter[str]:
    """Send, pass on packets and let time pass at random; count the kinds of frames.

    With a ``budget``, check that no frame exceeds it. Each step takes ``pace_s``.
    """
    processes = len(cluster.processes)
    if pace_s is None:
        pace_s = random.choice((0.0, 0.02))
    sends = random.choice((0.15, 0.3))
    kinds: Counter[str] = Counter()
    seen: set[int] = set()
    packets: list[Packet] = []  # Keeps them alive, so that their ids are unique.
    for _ in range(steps):
        draw = random.random()
        if pace_s > 0:
            cluster.pass_time(pace_s)
        if draw < sends:
            source = random.randrange(processes)
            others = [peer for peer in range(processes) if peer != source]
            count = random.randint(1, min(targets_max, processes - 1))
            cluster.send(source, random.sample(others, count))
        elif draw < 0.4 and faults and cluster.in_flight:
            index = random.randrange(len(cluster.in_flight))
            change = cluster.drop if random.random() < 0.5 else cluster.duplicate
            change(index)
        elif draw < 0.9 and cluster.in_flight:
            cluster.arrive(random.randrange(len(cluster.in_flight)))
        else:
            cluster.pass_time(random.choice(SECONDS))
        for packet in cluster.in_flight:
            if id(packet) not in seen:
                seen.add(id(packet))
                packets.append(packet)
                kinds.update(kinds_of(packet.frame))
                assert budget is None or not over_budget(packet.frame, budget), packet
    return kinds
