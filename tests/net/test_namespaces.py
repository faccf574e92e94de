"""Nodes on several hosts, which are network namespaces, with a bad network between them."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from tests.net.member import Options
from tests.net.namespaces import Hosts, NetemHosts, WiredHosts, open_hosts
from tests.net.running import run
from tests.net.troupe import Player, close_all, reckon

NAMES = ["a", "b", "c", "d"]
PARTITION_S = 10.0
MESSAGES = 60


@pytest.mark.parametrize("kind", [NetemHosts, WiredHosts])
def test_hosts_on_a_bad_network_get_everything_once_and_in_causal_order(
    kind: type[Hosts], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(open_hosts(kind, NAMES))
        except OSError as error:
            what = "netem in" if kind is NetemHosts else "devices in"
            pytest.skip(f"optional: network namespaces ({what} them: {error})")
        players = [
            Player(
                Options(
                    name=name,
                    log=str(tmp_path / f"{name}.log"),
                    others=[other for other in NAMES if other != name],
                    bind=f"{hosts.address[name]}:0",
                    key="17" * 32,
                    seed=1,
                    messages=MESSAGES,
                    pause_s=0.3,
                ),
                hosts.prefix(name),
            )
            for name in NAMES
        ]
        run(lambda: part_and_heal(hosts, players), limit_s=200.0)
    account = reckon(players)
    assert account.right, account
    assert account.accepted == len(NAMES) * MESSAGES
    assert account.again == 0


async def part_and_heal(hosts: Hosts, players: list[Player]) -> None:
    """Part the hosts in the middle of traffic, and heal them."""
    try:
        if isinstance(hosts, WiredHosts):
            hosts.carry()
        where = {player.name: await player.start() for player in players}
        for player in players:
            peers = {name: at for name, at in where.items() if name != player.name}
            await player.meet(json.dumps(peers))
        await asyncio.gather(*(player.has_sent(5) for player in players))
        hosts.part(NAMES[2:])
        await asyncio.sleep(PARTITION_S)
        hosts.heal()
        await asyncio.gather(*(player.has_sent(MESSAGES) for player in players))
        await close_all(players)
        if isinstance(hosts, WiredHosts):
            assert hosts.fate.counts["parted"] > 0
            assert hosts.fate.counts["lost"] > 0
            assert hosts.fate.counts["reordered"] > 0
    finally:
        for player in players:
            await player.end()
        if isinstance(hosts, WiredHosts):
            hosts.stop()
