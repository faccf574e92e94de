"""A test of an application under faults: a customer pays, and the shop delivers.

The customer tells the bank to pay, and then orders at the shop. The shop withdraws the
money. If the order overtakes the payment, the bank has nothing to withdraw.

Run it with pytest, or as a program.
"""

from functools import partial

from antecede import Node
from antecede.testing import Faults, Simulation

ADDRESSES = {
    "customer": "127.0.0.1:9301",
    "bank": "127.0.0.1:9302",
    "shop": "127.0.0.1:9303",
}
FAULTY = Faults(loss=0.2, duplicate=0.05, delay_s=0.01, jitter_s=0.2)


def make_node(name: str, protocol: str) -> Node:
    """Return a node whose peers are the other two."""
    peers = {peer: address for peer, address in ADDRESSES.items() if peer != name}
    return Node(name, bind=ADDRESSES[name], peers=peers, protocol=protocol)


async def run_customer(protocol: str) -> None:
    """Pay, order at once, and wait for the goods."""
    async with make_node("customer", protocol) as node:
        await node.send("bank", b"pay")
        await node.send("shop", b"order")
        assert (await node.receive()).data == b"goods"


async def run_shop(protocol: str) -> None:
    """Withdraw the money for an order, and deliver the goods."""
    async with make_node("shop", protocol) as node:
        async for message in node:
            target = "bank" if message.data == b"order" else "customer"
            await node.send(target, b"withdraw" if target == "bank" else b"goods")


async def run_bank(protocol: str) -> None:
    """Let the shop withdraw what the customer has paid."""
    balance = 0
    async with make_node("bank", protocol) as node:
        async for message in node:
            balance += 10 if message.data == b"pay" else -10
            assert balance >= 0, "the shop withdraws money that was not paid"
            if message.data == b"withdraw":
                await node.send("shop", b"here it is")


def find_failing_seed(protocol: str, seeds: int = 50) -> int | None:
    """Return the first seed for which the application fails; None if there is none."""
    for seed in range(seeds):
        with Simulation(seed, FAULTY) as simulation:
            simulation.start("customer", partial(run_customer, protocol))
            simulation.start("shop", partial(run_shop, protocol), daemon=True)
            simulation.start("bank", partial(run_bank, protocol), daemon=True)
            try:
                simulation.run(limit_s=120)
            except AssertionError:
                return seed
    return None


def test_with_fifo_order_the_shop_may_ask_for_money_that_was_not_paid() -> None:
    """The order of messages from different senders is arbitrary."""
    assert find_failing_seed("fifo") is not None


def test_with_causal_order_the_payment_always_comes_first() -> None:
    """The payment happened before the order, and so before the withdrawal."""
    assert find_failing_seed("hybrid") is None


if __name__ == "__main__":
    for name in ("fifo", "hybrid"):
        found = find_failing_seed(name)
        print(name, "holds" if found is None else f"fails with seed {found}")
