"""Nodes on several hosts (network namespaces) that a faulty network connects."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from tests.net.child_node import ChildOptions
from tests.net.harness import run
from tests.net.namespaces import Hosts, NetemHosts, TunHosts, open_hosts
from tests.net.node_processes import NodeProcess, finish_all, verify_logs

NAMES = ["a", "b", "c", "d"]
PARTITION_S = 4.0
MESSAGES = 40


@pytest.mark.parametrize("kind", [NetemHosts, TunHosts])
def test_hosts_on_a_faulty_network_deliver_every_message_once_in_causal_order(
    kind: type[Hosts], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(open_hosts(kind, NAMES))
        except OSError as error:
            device = "netem" if kind is NetemHosts else "TUN"
            pytest.skip(f"optional: network namespaces with {device} ({error})")
        processes = [
            NodeProcess(
                ChildOptions(
                    name=name,
                    log=str(tmp_path / f"{name}.log"),
                    others=[other for other in NAMES if other != name],
                    bind=f"{hosts.address[name]}:0",
                    key="17" * 32,
                    seed=1,
                    messages=MESSAGES,
                    pause_s=0.2,
                ),
                hosts.prefix(name),
            )
            for name in NAMES
        ]
        run(lambda: partition_and_heal(hosts, processes), limit_s=200.0)
    verdict = verify_logs(processes)
    assert verdict.correct, verdict
    assert verdict.accepted == len(NAMES) * MESSAGES
    assert verdict.redelivered == 0


async def partition_and_heal(hosts: Hosts, processes: list[NodeProcess]) -> None:
    """Partition the hosts during traffic, and heal the partition."""
    try:
        if isinstance(hosts, TunHosts):
            hosts.forward()
        addresses = {process.name: await process.start() for process in processes}
        for process in processes:
            peers = {name: at for name, at in addresses.items() if name != process.name}
            await process.add_peers(json.dumps(peers))
        await asyncio.gather(*(process.wait_until_sent(5) for process in processes))
        hosts.partition(NAMES[2:])
        await asyncio.sleep(PARTITION_S)
        hosts.heal()
        await asyncio.gather(*(process.wait_until_sent(MESSAGES) for process in processes))
        await finish_all(processes)
        if isinstance(hosts, TunHosts):
            assert hosts.injector.counts["partitioned"] > 0
            assert hosts.injector.counts["lost"] > 0
            assert hosts.injector.counts["reordered"] > 0
    finally:
        for process in processes:
            await process.kill_if_running()
        if isinstance(hosts, TunHosts):
            hosts.stop()
