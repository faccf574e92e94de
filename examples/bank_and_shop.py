"""A customer pays and then orders; the shop asks the bank whether the money is there.

    .venv/bin/python examples/bank_and_shop.py

The payment is slow, the order and the shop's question are fast. Without causal order the
bank would see the question first and deny it. With ``hybrid`` the shop's question waits
at the shop, because the order that led to it said so, until the payment has been
delivered. The example plays the worst network by hand and prints what everybody sees.
"""

from antecede.core import Message
from antecede.testing import Cluster

CUSTOMER, BANK, SHOP = range(3)
NAMES = ("customer", "bank", "shop")


def play() -> list[str]:
    """Play the story and return what was delivered, in order."""
    cluster = Cluster("hybrid", processes=3)
    log: list[str] = []
    heard = [0, 0, 0]

    def listen() -> None:
        for process, name in enumerate(NAMES):
            for source, number in cluster.delivered(process)[heard[process] :]:
                heard[process] += 1
                log.append(f"{name} delivers {words[source, number]!r}")
                if words[source, number] == "an order":
                    say(SHOP, BANK, "is it paid?")

    words: dict[tuple[int, int], str] = {}

    def say(source: int, target: int, text: str) -> None:
        words[source, cluster.send(source, [target], text.encode())] = text

    say(CUSTOMER, BANK, "a payment")
    say(CUSTOMER, SHOP, "an order")
    while cluster.in_flight:
        # The payment is slower than everything else.
        slow = [
            isinstance(packet.frame, Message) and packet.frame.payload == b"a payment"
            for packet in cluster.in_flight
        ]
        cluster.arrive(slow.index(False) if False in slow else 0)
        listen()
    assert cluster.verdict().held
    return log


if __name__ == "__main__":
    print("\n".join(play()))
