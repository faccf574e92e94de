"""Nodes as processes of their own, and nodes that are killed and come back."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from antecede.net.proxy import Faults, Proxy, open_proxy
from tests.net.member import Options
from tests.net.running import run
from tests.net.troupe import Account, Player, close_all, reckon

KILLS = 50
ROUNDS = int(os.environ.get("ANTECEDE_SOAK", "1"))
"""How often the test with kills is repeated, with other kills each time."""
LIMIT_S = 300.0
"""After this a run with kills has hung."""


def make_players(
    directory: Path, names: Sequence[str], *, journal: bool = False, **fields: object
) -> list[Player]:
    players = []
    for name in names:
        options = Options(
            name=name,
            log=str(directory / f"{name}.log"),
            others=[other for other in names if other != name],
            journal=str(directory / f"{name}.journal") if journal else None,
            seed=1,
            **fields,  # type: ignore[arg-type]
        )
        players.append(Player(options))
    return players


def test_processes_exchange_messages_in_causal_order(tmp_path: Path) -> None:
    players = make_players(tmp_path, ["a", "b", "c", "d"], messages=60, key="17" * 32)

    async def main() -> None:
        try:
            where = [await player.start() for player in players]
            for player in players:
                peers = {
                    other.name: at
                    for other, at in zip(players, where, strict=True)
                    if other is not player
                }
                await player.meet(json.dumps(peers))
            await asyncio.gather(*(player.has_sent(60) for player in players))
            await close_all(players)
        finally:
            for player in players:
                await player.end()

    pytest.importorskip("cryptography")
    run(main)
    account = reckon(players)
    assert account.right, account
    assert account.accepted == 240
    assert account.again == 0


async def killer(
    player: Player, proxy: Proxy, kills: int, random: Random, synced: float
) -> None:
    """Kill a member again and again in the middle of traffic, and start it at once."""
    for _ in range(kills):
        await player.busy(random.randint(3, 25))
        await player.kill()
        player.options = replace(player.options, sync=random.random() < synced)
        await proxy.add(player.name, await player.start(proxy.others(player.name)))


def run_with_kills(players: Sequence[Player], kills: int, seed: int) -> Account:
    """Let members be killed so often in all while they exchange messages."""

    async def main() -> None:
        faults = Faults(loss=0.05, duplicate=0.05, jitter_s=0.02)
        async with open_proxy(faults, seed) as proxy:
            try:
                for player in players:
                    await proxy.add(player.name, await player.start())
                for player in players:
                    await player.meet(json.dumps(proxy.others(player.name)))
                share, rest = divmod(kills, len(players))
                await asyncio.gather(
                    *(
                        killer(
                            player,
                            proxy,
                            share + (place < rest),
                            Random(f"{seed} {player.name}"),
                            0.2,
                        )
                        for place, player in enumerate(players)
                    )
                )
                await close_all(players)
            finally:
                for player in players:
                    await player.end()

    run(main, limit_s=LIMIT_S)
    return reckon(players)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_journaled_nodes_that_are_killed_lose_nothing_and_repeat_nothing(
    tmp_path: Path, seed: int
) -> None:
    players = make_players(tmp_path, ["a", "b", "c"], journal=True, pause_s=0.05)
    account = run_with_kills(players, KILLS, seed)
    assert account.right, account
    assert sum(player.kills for player in players) == KILLS
    assert account.accepted > 4 * KILLS
    assert account.again > 0  # Some were not done when their node was killed.


def test_the_same_kills_without_a_journal_are_found_out(tmp_path: Path) -> None:
    players = make_players(tmp_path, ["a", "b", "c"], pause_s=0.05, lease_s=0.5)
    account = run_with_kills(players, 6, seed=2)
    assert account.lost
    assert not account.right
