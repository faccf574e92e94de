"""Simulations of programs that use nodes: virtual time, faults, and repeatability."""

import asyncio
import gc
import hashlib
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antecede import Node
from antecede.errors import ConfigError, LocalError, SimulationError, StorageError
from antecede.net.faults import Faults
from antecede.testing import Simulation

Main = Callable[[], Coroutine[Any, Any, None]]
FAULTY = Faults(delay_s=0.001, jitter_s=0.003, loss=0.1, duplicate=0.05)
NAMES = ("ann", "bob", "cid")
ADDRESSES = {name: f"{name}:9000" for name in NAMES}


def open_node(name: str, **options: Any) -> Node:  # noqa: ANN401 (options of Node)
    peers = {peer: address for peer, address in ADDRESSES.items() if peer != name}
    return Node(name, bind=ADDRESSES[name], peers=peers, insecure=True, **options)


def talker(name: str, messages: int = 20, journal: str | None = None) -> Main:
    """Return a process that broadcasts, and receives what the others broadcast."""

    async def main() -> None:
        async with open_node(name, journal=journal) as node:

            async def send() -> None:
                for index in range(messages):
                    await node.broadcast(b"%d" % index)
                    await asyncio.sleep(0.01)

            async def receive() -> None:
                for _ in range(messages * (len(NAMES) - 1)):
                    message = await node.receive()
                    message.commit()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(send())
                tasks.create_task(receive())
            await node.flush()
            await asyncio.sleep(5)  # Ack what others retransmit.

    return main


def fingerprint(seed: int, journal: str | None = None) -> str:
    """Return a hash of everything that happens in a run with faults."""
    with Simulation(seed, FAULTY) as simulation:
        for name in NAMES:
            simulation.start(name, talker(name, journal=journal))
        simulation.run()
        assert simulation.verdict().held
        return hashlib.sha256(repr(simulation.events()).encode()).hexdigest()


@pytest.mark.parametrize("journal", [None, "journal.db"])
def test_the_same_seed_gives_the_same_run(journal: str | None) -> None:
    assert fingerprint(1, journal) == fingerprint(1, journal)
    assert fingerprint(1, journal) != fingerprint(2, journal)


def test_the_run_does_not_depend_on_the_hashes_of_strings() -> None:
    program = (
        "from tests.testing.test_simulation import fingerprint\n"
        "print(fingerprint(3), fingerprint(3, 'journal.db'))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    }
    assert len(printed) == 1


def test_waiting_takes_no_time_and_clocks_agree() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.sleep(30 * 24 * 3600)
        assert loop.time() - start == pytest.approx(30 * 24 * 3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()

    with Simulation() as simulation:
        simulation.start("ann", main, clock_start_s=1e6)
        simulation.run(limit_s=1e9)
        assert simulation.now == pytest.approx(30 * 24 * 3600 + 5)


def test_a_clock_may_run_faster_than_the_time_of_the_simulation() -> None:
    with Simulation() as simulation:
        simulation.start("ann", lambda: asyncio.sleep(100), clock_rate=1.25)
        simulation.run()
        assert simulation.now == pytest.approx(80)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: asyncio.to_thread(print), "threads"),
        (lambda: asyncio.create_subprocess_exec("true"), "subprocesses"),
        (lambda: asyncio.open_connection("localhost", 1), "sockets"),
        (lambda: asyncio.get_running_loop().getaddrinfo("a", 1), "name look-ups"),
    ],
)
def test_what_cannot_be_simulated_raises_an_error_that_says_so(
    call: Callable[[], Coroutine[Any, Any, None]], what: str
) -> None:
    async def main() -> None:
        with pytest.raises(LocalError, match=rf"{what}.* cannot be simulated"):
            await call()

    with Simulation() as simulation:
        simulation.start("ann", main)
        simulation.run()


def test_an_error_of_a_process_names_the_process_and_the_seed() -> None:
    async def main() -> None:
        await asyncio.sleep(2)
        raise ValueError("wrong")

    with Simulation(seed=77) as simulation:
        simulation.start("ann", main)
        with pytest.raises(ValueError, match="wrong") as info:
            simulation.run()
    assert info.value.__notes__ == [
        "raised by the process ann after 2.000000 s of the simulation with seed 77"
    ]


def test_a_run_that_does_not_end_names_the_processes() -> None:
    with Simulation(seed=5) as simulation:
        simulation.start("ann", lambda: asyncio.sleep(7200))
        simulation.start("bob", lambda: asyncio.sleep(7200), daemon=True)
        with pytest.raises(
            SimulationError, match=r"processes ann have not ended after 60 s; .* seed 5"
        ):
            simulation.run(limit_s=60)
    with Simulation() as simulation:
        simulation.start("ann", lambda: asyncio.Event().wait())
        with pytest.raises(SimulationError, match="ann wait for something that cannot"):
            simulation.run()


def test_a_partition_stops_messages_until_it_heals() -> None:
    arrived_at: list[float] = []

    async def bob() -> None:
        async with open_node("bob") as node:
            await node.receive()
            arrived_at.append(simulation.now)

    async def ann() -> None:
        async with open_node("ann") as node:
            await asyncio.sleep(1)
            simulation.partition(["ann"], ["bob"])
            simulation.call_later(10, simulation.heal)
            await node.send("bob", b"1")
            await node.flush()

    with Simulation() as simulation:
        simulation.start("ann", ann)
        simulation.start("bob", bob)
        simulation.run()
    assert 11 <= arrived_at[0] <= 16


def test_a_process_that_is_paused_continues_where_it_was() -> None:
    ticks: list[float] = []

    async def ann() -> None:
        for _ in range(4):
            ticks.append(simulation.now)
            await asyncio.sleep(1)

    with Simulation() as simulation:
        simulation.start("ann", ann)
        simulation.call_later(1.5, lambda: simulation.pause("ann"))
        simulation.call_later(5.0, lambda: simulation.resume("ann"))
        simulation.run()
    assert ticks == pytest.approx([0, 1, 5, 6])


def test_a_killed_process_runs_no_further_code_and_frees_its_address() -> None:
    reached: list[str] = []

    async def ann() -> None:
        async with open_node("ann"):
            try:
                await asyncio.sleep(100)
            finally:
                if simulation.now < 50:
                    reached.append("finally")

    with Simulation() as simulation:
        simulation.start("ann", ann)
        simulation.run_for(1)
        simulation.kill("ann")
        assert not simulation.is_running("ann")
        simulation.restart("ann")
        simulation.run_for(1)
        assert simulation.is_running("ann")
        assert reached == []


@pytest.mark.parametrize("end", ["kill", "power_off"])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_accepted_survives_with_a_journal(seed: int, end: str) -> None:
    accepted: list[int] = []
    received: list[int] = []

    async def ann() -> None:
        node = open_node("ann", journal="ann.db")
        await node.open()
        while len(accepted) < 100:
            data = b"%d" % len(accepted)
            await node.send("bob", data)
            accepted.append(int(data))
        await node.flush()

    async def bob() -> None:
        async with open_node("bob") as node:
            while True:
                received.append(int((await node.receive()).data))

    with Simulation(seed) as simulation:
        simulation.start("ann", ann)
        simulation.start("bob", bob, daemon=True)
        for _ in range(3):
            simulation.run_for(simulation.random.uniform(0.01, 0.1))
            getattr(simulation, end)("ann")
            simulation.run_for(0.5)
            simulation.restart("ann")
        simulation.run()
        assert simulation.verdict().held
    assert set(accepted) <= set(received)


def test_an_interrupted_commit_is_lost_or_kept_as_a_whole() -> None:
    """A message that was not accepted may be delivered, but never twice."""
    outcomes: set[int] = set()

    async def ann() -> None:
        node = open_node("ann", journal="ann.db")
        await node.open()
        await node.send("bob", b"1")
        await asyncio.sleep(100)

    async def bob() -> None:
        async with open_node("bob") as node:
            while True:
                received.append((await node.receive()).number)

    for seed in range(40):
        received: list[int] = []
        with Simulation(seed) as simulation:
            simulation.start("ann", ann)
            simulation.start("bob", bob, daemon=True)
            simulation.run_for(simulation.random.uniform(0, 0.005))
            simulation.power_off("ann")
            simulation.restart("ann", lambda: asyncio.sleep(0))
            simulation.run_for(1)

            async def reopened() -> None:
                node = open_node("ann", journal="ann.db")
                await node.open()
                outcomes.add(node.engine.backlog)
                await node.flush()

            simulation.restart("ann", reopened)
            simulation.run()
            assert received in ([], [1])
            assert simulation.verdict().held
    assert outcomes == {0, 1}


def test_a_full_disk_closes_the_node() -> None:
    async def ann() -> None:
        node = open_node("ann", journal="ann.db")
        await node.open()
        await node.send("bob", b"1")
        simulation.disk("ann").is_full = True
        with pytest.raises(StorageError, match=r"cannot write the journal ann\.db"):
            await node.send("bob", bytes(10_000))
        await node.close()

    with Simulation() as simulation:
        simulation.start("ann", ann)
        simulation.run()


def test_a_machine_that_moves_is_not_reached_at_its_old_address() -> None:
    async def ann() -> None:
        async with open_node("ann") as node:
            await asyncio.sleep(1)
            address = simulation.move("bob")
            await node.send("bob", b"1")
            await asyncio.sleep(10)
            assert node.engine.backlog == 1
            node.add_peer("bob", (address, 9000))
            await node.flush()

    async def bob() -> None:
        async with open_node("bob") as node:
            await node.receive()
            await asyncio.sleep(5)

    with Simulation() as simulation:
        simulation.start("ann", ann)
        simulation.start("bob", bob)
        simulation.run()


def test_names_resolve_to_simulated_machines_only() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match=r"names in \.invalid do not resolve"):
            await Node("ann", bind="elsewhere.invalid:1").open()
        async with Node("ann", bind="127.0.0.1:7"):
            with pytest.raises(ConfigError, match="another node uses it"):
                await Node("bob", bind="127.0.0.1:7").open()

    with Simulation() as simulation:
        simulation.start("ann", main)
        simulation.run()


def test_the_trace_of_a_run_can_be_read(tmp_path: Path) -> None:
    from antecede.verify.verifier import verify_trace

    with Simulation(1, FAULTY) as simulation:
        for name in NAMES:
            simulation.start(name, talker(name, 5))
        simulation.run()
        simulation.write_trace(tmp_path / "trace")
    verdict = verify_trace(tmp_path / "trace")
    assert verdict.held
    assert verdict.messages == 15


def test_a_killed_node_with_messages_in_its_inbox_is_freed() -> None:
    nodes: list[weakref.ref[Node]] = []

    async def open_node(name: str, peer: str) -> None:
        node = Node(
            name,
            bind=f"{name}:9000",
            peers={peer: f"{peer}:9000"},
            journal=f"{name}.db",
            insecure=True,
        )
        nodes.append(weakref.ref(node))
        await node.open()
        await node.send(peer, b"never received")
        await asyncio.Event().wait()

    with Simulation(1) as simulation:
        simulation.start("ann", partial(open_node, "ann", "bob"), daemon=True)
        simulation.start("bob", partial(open_node, "bob", "ann"), daemon=True)
        simulation.run_for(1)
        assert all(len(node()._runtime.inbox) == 1 for node in nodes)  # type: ignore[union-attr]
        simulation.kill("ann")
    del simulation
    gc.collect()
    assert [node() for node in nodes] == [None, None]
