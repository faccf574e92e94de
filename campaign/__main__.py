"""Run random scenarios of whole nodes on all cores, and print what was found.

``python -m campaign --seconds 60`` runs for 60 seconds, ``--seeds 1000`` runs 1,000 seeds,
and ``--seed 4711`` runs one seed again, shortens it if it fails, and prints its actions.
``--rooms`` runs scenarios of rooms instead.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from campaign.room_run import RoomRun, run_room_batch, run_room_scenario
from campaign.room_scenario import draw_room_scenario
from campaign.run import Outcome, Run, run_batch, run_scenario
from campaign.scenario import draw_scenario
from campaign.shrink import shrink

BATCH = 20
"""Seeds that a worker runs before it reports."""

RunBatch = Callable[[int, int], list[Outcome]]


def outcomes(
    first: int, seeds: int, seconds: float, workers: int, run: RunBatch
) -> Iterator[Outcome]:
    """Yield the outcomes of seeds, until there are enough or the time is over."""
    ends = time.monotonic() + seconds
    with ProcessPoolExecutor(workers) as pool:
        next_seed, end_seed = first, first + seeds
        running: set[Future[list[Outcome]]] = set()
        while True:
            while (
                len(running) < 2 * workers
                and next_seed < end_seed
                and time.monotonic() < ends
            ):
                count = min(BATCH, end_seed - next_seed)
                running.add(pool.submit(run, next_seed, count))
                next_seed += count
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()


class Totals:
    """The sums over all runs."""

    def __init__(self) -> None:
        self.runs = self.messages = self.deliveries = self.state_max = 0
        self.virtual_s = 0.0
        self.counts: Counter[str] = Counter()
        self.failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a run."""
        self.runs += 1
        self.messages += outcome.messages
        self.deliveries += outcome.deliveries
        self.virtual_s += outcome.virtual_s
        self.state_max = max(self.state_max, outcome.state_max)
        self.counts.update(outcome.counts)
        if outcome.failed:
            self.failed.append(outcome)

    def lines(self) -> list[str]:
        """Return the table of a campaign."""
        violations = sum(bool(outcome.violations) for outcome in self.failed)
        stuck = sum(bool(outcome.stuck) for outcome in self.failed)
        rows = [
            ("runs", self.runs),
            ("virtual hours", round(self.virtual_s / 3600)),
            ("messages", self.messages),
            ("deliveries", self.deliveries),
            *((f"fault: {kind}", count) for kind, count in sorted(self.counts.items())),
            ("peak state (records of one node)", self.state_max),
            ("runs with violations", violations),
            ("stuck runs", stuck),
        ]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {value:>12,}" for name, value in rows]


def run_campaign(
    first: int, seeds: int, seconds: float, workers: int, *, rooms: bool
) -> int:
    """Run many seeds, and print the table; return the exit code."""
    totals = Totals()
    shown_at = time.monotonic()
    option = "--rooms " if rooms else ""
    batch = run_room_batch if rooms else run_batch
    for outcome in outcomes(first, seeds, seconds, workers, batch):
        totals.add(outcome)
        if outcome.failed:
            what = (outcome.violations + outcome.stuck)[0]
            print(
                f"failed: {what[:200]}\n"
                f"  replay: python -m campaign {option}--seed {outcome.seed}"
            )
        if time.monotonic() - shown_at > 5:
            shown_at = time.monotonic()
            print(
                f"{totals.runs:,} runs, {totals.messages:,} messages,"
                f" {len(totals.failed)} failed",
                file=sys.stderr,
            )
    print("\n".join(totals.lines()))
    return 1 if totals.failed else 0


def replay(seed: int, trace: Path | None) -> int:
    """Run one seed again; shorten it and print its actions if it fails."""
    scenario = draw_scenario(seed)
    outcome = run_scenario(scenario)
    if outcome.failed:
        scenario = shrink(scenario, lambda shorter: run_scenario(shorter).failed)
        outcome = run_scenario(scenario)
    for node in scenario.nodes:
        print(node)
    for action in scenario.actions:
        print(action)
    for line in outcome.violations + outcome.stuck:
        print(line)
    if trace is not None:
        run = Run(scenario)
        run.execute()
        run.simulation.write_trace(trace, run=f"campaign-{seed}")
        print(f"trace: antecede show {trace}")
    print("failed" if outcome.failed else "held")
    return 1 if outcome.failed else 0


def replay_rooms(seed: int, trace: Path | None) -> int:
    """Run one seed of rooms again; shorten it and print its actions if it fails."""
    scenario = draw_room_scenario(seed)
    outcome = run_room_scenario(scenario)
    if outcome.failed:
        scenario = shrink(scenario, lambda shorter: run_room_scenario(shorter).failed)
        outcome = run_room_scenario(scenario)
    print(scenario.with_actions([]))
    for line in (*scenario.actions, *outcome.violations, *outcome.stuck):
        print(line)
    if trace is not None:
        run = RoomRun(scenario)
        run.execute()
        run.simulation.write_trace(trace, run=f"rooms-{seed}")
        print(f"trace: antecede show {trace}")
    print("failed" if outcome.failed else "held")
    return 1 if outcome.failed else 0


def main() -> int:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="the maximum number of seconds"
    )
    parser.add_argument(
        "--seeds", type=int, default=1 << 40, help="the maximum number of runs"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="the number of processes"
    )
    parser.add_argument("--seed", type=int, help="run this seed only, and show it")
    parser.add_argument(
        "--rooms", action="store_true", help="nodes that join and leave rooms"
    )
    parser.add_argument("--trace", type=Path, help="write the trace of --seed here")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        again = replay_rooms if arguments.rooms else replay
        return again(arguments.seed, arguments.trace)
    return run_campaign(
        arguments.first,
        arguments.seeds,
        arguments.seconds,
        arguments.workers,
        rooms=arguments.rooms,
    )


if __name__ == "__main__":
    sys.exit(main())
