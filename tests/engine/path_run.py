"""A pair of engines on a path, for tests of loss recovery and congestion control."""

from antecede.engine import Limits
from antecede.engine.datagram import DATA, read_header
from antecede.engine.loss_detection import PROBED_PACKETS
from tests.engine.network import Flight, Network

__all__ = ["Run"]


class Run:
    """A pair of engines on a path, and a count of what ann transmits."""

    def __init__(
        self,
        seed: int,
        control: str = "cubic",
        protocol: str = "hybrid",
        keep_alive_s: float = 8.0,
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits(
            congestion_control=control, datagram_bytes_max=600, keep_alive_s=keep_alive_s
        )
        self.network = Network(seed, delay_s=(0.01, 0.01), protocol=protocol, limits=limits)
        self.network.start_group("ann", "bob")
        self.network.run(1.0)
        self.path = self.network.engines["ann"].sessions["bob"].path
        self.excess: list[tuple[int, int]] = []
        """Bytes in flight and the window, whenever more was in flight after a flush."""
        self.network.on_flush = self.check_window
        self._before: set[int] = set()
        self._probes = 0

    def check_window(self, name: str) -> None:
        """Compare the bytes in flight with the window, after each flush of ann.

        The bytes are counted from the datagrams that are not acknowledged. A probe may
        exceed the window by its datagrams.
        """
        if name != "ann":
            return
        path = self.path
        counted = [packet for packet in path.losses.sent.values() if packet.is_counted]
        in_flight = sum(packet.size for packet in counted)
        assert in_flight == path.in_flight
        added = [packet.number for packet in counted if packet.number not in self._before]
        self._before = {packet.number for packet in counted}
        allowance = PROBED_PACKETS if path.losses.probes else 0
        if len(added) > allowance and in_flight > path.window:
            self.excess.append((in_flight, path.window))

    def send(self, messages: int, size: int = 400) -> None:
        """Let ann send at once, whatever the window of copies."""
        ann = self.network.engines["ann"]
        for index in range(messages):
            ann.send(["bob"], b"%05d" % index + bytes(size), self.network.now)
        self.network.flush("ann")

    def data_of(self, source: str) -> list[Flight]:
        """Return the datagrams of the kind DATA that a node has transmitted."""
        return [
            flight
            for flight in self.network.transmitted
            if flight.source == source and read_header(flight.datagram)[0] == DATA
        ]
