"""Workloads in which processes answer what is delivered to them.

The id of an answer is made from the id and the source of what it answers, so that it is
the same under every protocol, and no two answers of a process share one.
"""

from typing import Final

from antecede.core.support.keyed_random import stir, uniform
from antecede.errors import ConfigError
from antecede.sim.workloads.synthetic import (
    GAP,
    TARGET,
    Pace,
    Paced,
    Sending,
    Traffic,
    Uniform,
)

__all__ = ["Conversation", "Microservices", "Pipeline", "RequestReply"]

ANSWER: Final = 7
"""Tells the random numbers of answers from those of other messages."""
DEPTHS: Final = 16
"""The id of a message in a conversation is a key times this, plus its depth."""


class Pipeline(Traffic):
    """The first process sends; every other passes each message on to the next."""

    __slots__ = ()

    @property
    def plain(self) -> bool:
        """Never: deliveries lead to more messages."""
        return False

    def targets(self, process: int, state: int) -> list[int]:
        """Name the second process."""
        return [1]

    def start(self, process: int) -> list[Sending]:
        """Let the first process begin."""
        return super().start(process) if process == 0 else []

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Let the first process go on."""
        return super().sent(process, sending) if process == 0 else []

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Pass the message on, under the same id."""
        if process + 1 == self.processes:
            return []
        return [Sending([process + 1], id, self._size(stir(self._begin, id)))]


class RequestReply(Traffic):
    """Clients ask servers, which answer; a client asks on without waiting.

    The first processes are the servers. A request has an odd id, its reply an even one.
    """

    __slots__ = ("servers",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, servers: float = 0.2
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many requests each client sends.
            pace: How fast, and how large; a job is what a server does before it replies.
            servers: The share of processes that are servers, at least one.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= servers <= 1:
            raise ConfigError(f"servers must be from 0 to 1, got {servers}")
        self.servers = max(1, round(servers * processes))
        if self.servers >= processes:
            raise ConfigError(f"{self.servers} servers of {processes}: no clients are left")

    @property
    def plain(self) -> bool:
        """Never: deliveries lead to more messages."""
        return False

    def targets(self, process: int, state: int) -> list[int]:
        """Choose a server."""
        return [int(uniform(state) * self.servers)]

    def start(self, process: int) -> list[Sending]:
        """Let the clients begin."""
        return (
            [self._request(process, 1)] if process >= self.servers and self.messages else []
        )

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Let a client go on."""
        request = (sending.id + 1) // 2
        if process >= self.servers and request < self.messages:
            return [self._request(process, request + 1)]
        return []

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Let a server reply."""
        if process >= self.servers:
            return []
        answer = 2 * (id * self.processes + source)
        return [Sending([source], answer, self._size(stir(self._begin, answer)))]

    def _request(self, process: int, request: int) -> Sending:
        sending = self._sending(process, request)
        sending.id = 2 * request - 1
        return sending


class Conversation(Uniform):
    """Uniform traffic in which a delivered message may lead to one more, to anybody."""

    __slots__ = ("depth", "reply_share")

    def __init__(
        self,
        processes: int,
        messages: int,
        pace: Pace,
        *,
        reply_share: float = 0.5,
        depth: int = 4,
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many messages each sends of its own accord.
            pace: How fast, and how large.
            reply_share: The share of delivered messages that lead to another one.
            depth: How long a chain of them may get.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= reply_share <= 1 or not 0 <= depth < DEPTHS:
            raise ConfigError(
                "reply_share must be from 0 to 1 and depth from 0 to 15, got"
                f" {reply_share}, {depth}"
            )
        self.reply_share = reply_share
        self.depth = depth

    @property
    def plain(self) -> bool:
        """Never: deliveries lead to more messages."""
        return False

    def start(self, process: int) -> list[Sending]:
        """Begin with the messages of its own accord."""
        return [self._own(process, 1)] if self.messages else []

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Go on with the messages of its own accord."""
        key, depth = divmod(sending.id, DEPTHS)
        if depth or key >= self.messages:
            return []
        return [self._own(process, key + 1)]

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Answer, or let it be."""
        key, depth = divmod(id, DEPTHS)
        answer = (key * self.processes + source) * DEPTHS + depth + 1
        state = stir(stir(stir(self._begin, ANSWER), answer), process)
        if depth >= self.depth or uniform(state) >= self.reply_share:
            return []
        target = self._other(process, stir(state, TARGET), self.processes)
        return [Sending([target], answer, self._size(state))]

    def _own(self, process: int, key: int) -> Sending:
        sending = self._sending(process, key)
        sending.id = key * DEPTHS
        return sending


class Microservices(Paced):
    """Requests that fan out through layers of services and come back, layer by layer.

    The front, layer 0, calls ``fan_out`` services of layer 1 for each request; each calls
    as many of layer 2, and so on. A service of the last layer replies at once, any other
    when all its callees have. Processes are dealt to layers in turn.

    A service knows what it works on by a key: at the front the number of the request,
    elsewhere made from the call's id and the caller. Its calls have odd ids made from that
    key, its reply an even one, so both sides can tell the key from the id.
    """

    __slots__ = ("_due", "fan_out", "layers", "messages")

    def __init__(
        self,
        processes: int,
        messages: int,
        pace: Pace,
        *,
        layers: int = 3,
        fan_out: int = 2,
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many requests each process of the front takes.
            pace: How fast, and how large; a job is what a service does for a message.
            layers: How many layers of services there are, the front included.
            fan_out: How many services of the next layer a call needs.
        """
        super().__init__(processes, pace)
        if not 2 <= layers <= processes or fan_out < 1 or messages < 0:
            raise ConfigError(
                f"microservices need from 2 to {processes} layers, a fan_out of at least 1"
                f" and 0 messages, got {layers}, {fan_out}, {messages}"
            )
        self.messages = messages
        self.layers = layers
        self.fan_out = fan_out
        self._due: dict[tuple[int, int], int] = {}  # Replies due, by process and key.

    def start(self, process: int) -> list[Sending]:
        """Let the front take its first request."""
        return self._take(process, 1) if process % self.layers == 0 else []

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Let the front take the next request once the last call for one is out."""
        if process % self.layers or sending.id % 2 == 0:
            return []
        key, which = divmod(sending.id // 2, self.fan_out)
        return self._take(process, key + 1) if which == self.fan_out - 1 else []

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Take a call, or a reply to one."""
        if id % 2:
            key = id * self.processes + source
            if process % self.layers == self.layers - 1:
                return [self._reply(key)]
            return self._call(process, key, 0.0)
        key = id // 2 // self.processes // 2 // self.fan_out
        self._due[process, key] -= 1
        if self._due[process, key]:
            return []
        del self._due[process, key]
        return [self._reply(key)] if process % self.layers else []

    def _take(self, process: int, request: int) -> list[Sending]:
        if request > self.messages:
            return []
        state = stir(stir(self._begin, process), request)
        return self._call(process, request, self.pace.gap.draw(stir(state, GAP)))

    def _call(self, process: int, key: int, wait_s: float) -> list[Sending]:
        self._due[process, key] = self.fan_out
        layer = process % self.layers + 1
        services = (self.processes - layer + self.layers - 1) // self.layers
        calls: list[Sending] = []
        for which in range(self.fan_out):
            state = stir(stir(stir(self._begin, ANSWER), process), key)
            state = stir(state, which)
            target = layer + self.layers * int(uniform(stir(state, TARGET)) * services)
            call = 2 * (key * self.fan_out + which) + 1
            calls.append(Sending([target], call, self._size(state), wait_s))
        return calls

    def _reply(self, key: int) -> Sending:
        caller = key % self.processes
        state = stir(stir(self._begin, ANSWER), key)
        return Sending([caller], 2 * key, self._size(state))
