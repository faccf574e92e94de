"""Nodes in OS processes, which are killed and restarted."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from antecede.net.faults import Faults
from antecede.net.proxy import Proxy, open_proxy
from tests.net.child_node import ChildOptions
from tests.net.harness import run
from tests.net.node_processes import LogVerdict, NodeProcess, finish_all, verify_logs

KILLS = 50
SYNC_PROBABILITY = 0.2
"""Share of restarts after which the journal waits for the disk."""
ROUNDS = int(os.environ.get("ANTECEDE_SOAK", "1"))
"""How often to repeat the test with kills, each time with another seed."""
KILL_TIMEOUT_S = 300.0
"""A run with kills that takes longer has hung."""


def make_processes(
    directory: Path, names: Sequence[str], *, journal: bool = False, **fields: object
) -> list[NodeProcess]:
    processes = []
    for name in names:
        options = ChildOptions(
            name=name,
            log=str(directory / f"{name}.log"),
            others=[other for other in names if other != name],
            journal=str(directory / f"{name}.journal") if journal else None,
            seed=1,
            **fields,  # type: ignore[arg-type]
        )
        processes.append(NodeProcess(options))
    return processes


def test_processes_exchange_messages_in_causal_order(tmp_path: Path) -> None:
    processes = make_processes(tmp_path, ["a", "b", "c", "d"], messages=60, key="17" * 32)

    async def main() -> None:
        try:
            addresses = [await process.start() for process in processes]
            for process in processes:
                peers = {
                    other.name: address
                    for other, address in zip(processes, addresses, strict=True)
                    if other is not process
                }
                await process.add_peers(json.dumps(peers))
            await asyncio.gather(*(process.wait_until_sent(60) for process in processes))
            await finish_all(processes)
        finally:
            for process in processes:
                await process.kill_if_running()

    pytest.importorskip("cryptography")
    run(main)
    verdict = verify_logs(processes)
    assert verdict.correct, verdict
    assert verdict.accepted == 240
    assert verdict.redelivered == 0


async def kill_repeatedly(
    process: NodeProcess, proxy: Proxy, kills: int, random: Random
) -> None:
    """Kill a node during traffic ``kills`` times, and restart it each time."""
    for _ in range(kills):
        await process.wait_for_activity(random.randint(3, 25))
        await process.kill()
        process.options = replace(process.options, sync=random.random() < SYNC_PROBABILITY)
        await proxy.add(process.name, await process.start(proxy.peers_of(process.name)))


def run_with_kills(processes: Sequence[NodeProcess], kills: int, seed: int) -> LogVerdict:
    """Kill nodes ``kills`` times in total while they exchange messages."""

    async def main() -> None:
        faults = Faults(loss=0.05, duplicate=0.05, jitter_s=0.02)
        async with open_proxy(faults, seed) as proxy:
            try:
                for process in processes:
                    await proxy.add(process.name, await process.start())
                for process in processes:
                    await process.add_peers(json.dumps(proxy.peers_of(process.name)))
                share, rest = divmod(kills, len(processes))
                await asyncio.gather(
                    *(
                        kill_repeatedly(
                            process,
                            proxy,
                            share + (index < rest),
                            Random(f"{seed} {process.name}"),
                        )
                        for index, process in enumerate(processes)
                    )
                )
                await finish_all(processes)
            finally:
                for process in processes:
                    await process.kill_if_running()

    run(main, limit_s=KILL_TIMEOUT_S)
    return verify_logs(processes)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_nodes_with_journals_lose_no_message_and_redeliver_no_committed_message(
    tmp_path: Path, seed: int
) -> None:
    processes = make_processes(tmp_path, ["a", "b", "c"], journal=True, pause_s=0.05)
    verdict = run_with_kills(processes, KILLS, seed)
    assert verdict.correct, verdict
    assert sum(process.kills for process in processes) == KILLS
    assert verdict.accepted > 4 * KILLS
    assert verdict.redelivered > 0  # Some were not committed when their node was killed.


def test_killed_nodes_without_journals_lose_messages(tmp_path: Path) -> None:
    processes = make_processes(tmp_path, ["a", "b", "c"], pause_s=0.05, lease_s=0.5)
    verdict = run_with_kills(processes, 6, seed=2)
    assert verdict.lost
    assert not verdict.correct
