"""A customer pays and then orders; the shop asks the bank whether the order is paid.

    .venv/bin/python examples/bank_and_shop.py

The payment is slow; the order and the shop's question are fast. Without causal order the
bank would deliver the question first, and deny it. With ``hybrid`` the question stays
queued at the shop until the permit for the order arrives, that is, until the payment has
been delivered. The example lets the payment arrive last, and prints all deliveries.
"""

from antecede.core import MessageFrame
from antecede.testing import Cluster

CUSTOMER, BANK, SHOP = range(3)
NAMES = ("customer", "bank", "shop")


def run() -> list[str]:
    """Run the example and return the deliveries in order."""
    cluster = Cluster("hybrid", processes=3)
    log: list[str] = []
    logged = [0, 0, 0]
    texts: dict[tuple[int, int], str] = {}

    def send(source: int, target: int, text: str) -> None:
        texts[source, cluster.send(source, [target], text.encode())] = text

    def log_deliveries() -> None:
        for process, name in enumerate(NAMES):
            for source, number in cluster.delivered(process)[logged[process] :]:
                logged[process] += 1
                log.append(f"{name} delivers {texts[source, number]!r}")
                if texts[source, number] == "an order":
                    send(SHOP, BANK, "is it paid?")

    send(CUSTOMER, BANK, "a payment")
    send(CUSTOMER, SHOP, "an order")
    while cluster.in_flight:
        # The payment arrives after all other frames.
        slow = [
            isinstance(packet.frame, MessageFrame) and packet.frame.payload == b"a payment"
            for packet in cluster.in_flight
        ]
        cluster.arrive(slow.index(False) if False in slow else 0)
        log_deliveries()
    assert cluster.verdict().held
    return log


if __name__ == "__main__":
    print("\n".join(run()))
