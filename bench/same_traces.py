"""Compare the traces of two source trees: ``python -m bench.same_traces OTHER_SRC``.

Each tree simulates the same seeded runs, of several protocols, workloads and networks. The
program prints the runs whose traces or counts differ, and exits with 1 if any does. A
faster simulator or core must not change any byte of the traces.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from antecede.core.config import ProcessConfig
from antecede.core.registry import protocols
from antecede.sim.delay import parse_delay
from antecede.sim.distribution import parse_distribution
from antecede.sim.network import Network, Partition, Pause
from antecede.sim.runner import run
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.synthetic import Pace
from antecede.trace.recorders import BufferedRecorder, EventCounter

PROCESSES = 9
MESSAGES = 25
ROWS = 256
"""The rows of the recorder's buffer."""
NETWORKS = {
    "constant": Network(),
    "random": Network(delay=parse_delay("uniform:0.01,0.1")),
    "faulty": Network(
        delay=parse_delay("lognormal:0.02,0.8"), loss=0.1, duplicate=0.1, reorder=0.1
    ),
    "lossy": Network(loss=0.2),  # Timers and arrivals have the same times.
    "geographic": Network(delay=parse_delay("geographic:0.1,0.001"), bandwidth=5000.0),
    "faults": Network(
        delay=parse_delay("exponential:0.03,0.001"),
        partitions=(Partition(start_s=0.3, end_s=2.0, groups=((0, 1, 2), (3, 4))),),
        pauses=(Pause(process=1, start_s=0.2, end_s=1.0),),
        processing_s=((2, 0.004),),
    ),
    "crash": Network(delay=parse_delay("uniform:0.01,0.1"), crashes=((3, 0.6),)),
}
WORKLOADS = {
    "uniform:peers=3": Pace(gap=parse_distribution("exponential:0.02")),
    "uniform:fan_out=3": Pace(gap=parse_distribution("0.05")),
    "hotspot": Pace(
        gap=parse_distribution("exponential:0.05"), payload_bytes=parse_distribution("40")
    ),
    "conversation": Pace(
        gap=parse_distribution("exponential:0.05"),
        service_share=0.5,
        service_time=parse_distribution("uniform:0.001,0.02"),
    ),
    "microservices": Pace(gap=parse_distribution("exponential:0.05")),
}
BROADCAST_PACE = Pace(gap=parse_distribution("exponential:0.1"))


def runs() -> Iterator[tuple[str, str, str, int]]:
    """Yield protocol, workload, network and seed of each run."""
    for seed, network in enumerate(NETWORKS):
        for index, workload in enumerate(WORKLOADS):
            yield "hybrid", workload, network, seed + 10 * index
        yield "hybrid-basic", "uniform:peers=3", network, seed
        yield "bounded", "conversation", network, seed
    for seed, info in enumerate(protocols()):
        workload = "hotspot" if info.capabilities.unicast else "broadcast"
        for network in ("random", "faulty", "lossy"):
            yield info.name, workload, network, seed


def digest(name: str, workload: str, network: str, seed: int) -> str:
    """Return a hash of the trace and of the counts of a run."""
    found = hashlib.sha256()

    def write(rows: bytearray, count: int, targets: object) -> None:
        found.update(bytes(rows[: count * (len(rows) // ROWS)]))
        found.update(repr([each and list(each) for each in targets]).encode())  # type: ignore[attr-defined]

    recorder = BufferedRecorder(write, ROWS)
    pace = replace(WORKLOADS.get(workload, BROADCAST_PACE), seed=seed)
    summary = run(
        name,
        make_workload(workload, PROCESSES, MESSAGES, pace),
        NETWORKS[network],
        EventCounter(recorder),
        seed=seed,
        config=ProcessConfig(),
    )
    recorder.flush()
    # The number of events of the simulator includes timers without effect.
    found.update(repr(replace(summary, events=0)).encode())
    return found.hexdigest()


def digests() -> dict[str, str]:
    """Return the hash of each run, by its description."""
    found = {}
    for name, workload, network, seed in runs():
        title = f"{name}, {workload}, {network}, seed {seed}"
        try:
            found[title] = digest(name, workload, network, seed)
        except Exception as error:  # A protocol may refuse a run: equally in both trees.
            found[title] = f"{type(error).__name__}: {error}"
    return found


def digests_of(tree: Path) -> dict[str, str]:
    """Return the digests of another source tree, computed in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", "bench.same_traces"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    result: dict[str, str] = json.loads(child.stdout)
    return result


def main(trees: list[str]) -> int:
    """Print the digests of this tree, or compare them with those of another tree."""
    own = digests()
    if not trees:
        print(json.dumps(own))
        return 0
    other = digests_of(Path(trees[0]).absolute())
    differing = [title for title in own if own[title] != other.get(title)]
    for title in differing:
        print(f"differs: {title}")
    refused = sum(":" in value for value in own.values())
    print(f"{len(own) - refused} runs, {refused} refused, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
