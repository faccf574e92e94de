"""Workloads in which processes reply to the messages that are delivered to them.

The id of a reply follows from the id and the source of the message that it answers. So it
is the same under every protocol, and unique among the messages of a process.
"""

from typing import Final

from antecede.core.support.keyed_random import fold_in, uniform
from antecede.errors import ConfigError
from antecede.sim.workloads.synthetic import (
    GAP,
    TARGET,
    Pace,
    PacedWorkload,
    SyntheticWorkload,
    Uniform,
)
from antecede.sim.workloads.workload import PlannedSend

__all__ = ["Conversation", "Microservices", "Pipeline", "RequestReply"]

REPLY: Final = 7
"""Separates the random numbers of replies from those of other messages."""
DEPTHS: Final = 16
"""The id of a message of a conversation is its chain times this, plus its depth."""


class Pipeline(SyntheticWorkload):
    """Messages of the first process, which every other process forwards to the next."""

    __slots__ = ()

    @property
    def is_open_loop(self) -> bool:
        return False

    def targets(self, process: int, random_key: int) -> list[int]:
        return [1]

    def start(self, process: int) -> list[PlannedSend]:
        return super().start(process) if process == 0 else []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        return super().sent(process, planned) if process == 0 else []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        if process + 1 == self.processes:
            return []
        size = self._draw_payload_bytes(fold_in(self._root, id))
        return [PlannedSend([process + 1], id, size)]


class RequestReply(SyntheticWorkload):
    """Requests of clients, and replies of servers; clients do not wait for replies.

    The first processes are the servers. A request has an odd id, its reply an even one.
    """

    __slots__ = ("servers",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, servers: float = 0.2
    ) -> None:
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of requests of each client.
            pace: The gaps, payloads and service times; a server replies after its job.
            servers: The share of processes that are servers; there is at least one.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= servers <= 1:
            raise ConfigError(f"servers must be from 0 to 1, got {servers}")
        self.servers = max(1, round(servers * processes))
        if self.servers >= processes:
            raise ConfigError(f"{self.servers} servers of {processes}: no clients are left")

    @property
    def is_open_loop(self) -> bool:
        return False

    def targets(self, process: int, random_key: int) -> list[int]:
        return [int(uniform(random_key) * self.servers)]

    def start(self, process: int) -> list[PlannedSend]:
        is_client = process >= self.servers
        return [self._request(process, 1)] if is_client and self.messages else []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        request = (planned.id + 1) // 2
        if process >= self.servers and request < self.messages:
            return [self._request(process, request + 1)]
        return []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        if process >= self.servers:
            return []
        reply = 2 * (id * self.processes + source)
        size = self._draw_payload_bytes(fold_in(self._root, reply))
        return [PlannedSend([source], reply, size)]

    def _request(self, process: int, request: int) -> PlannedSend:
        planned = self._plan(process, request)
        planned.id = 2 * request - 1
        return planned


class Conversation(Uniform):
    """Uniform messages, and replies to random processes, in chains of limited length."""

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
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of chains that each process starts.
            pace: The gaps, payloads and service times.
            reply_share: The share of delivered messages that cause another message.
            depth: The maximum number of replies in a chain.
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
    def is_open_loop(self) -> bool:
        return False

    def start(self, process: int) -> list[PlannedSend]:
        return [self._first(process, 1)] if self.messages else []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        chain, depth = divmod(planned.id, DEPTHS)
        if depth or chain >= self.messages:
            return []
        return [self._first(process, chain + 1)]

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        chain, depth = divmod(id, DEPTHS)
        reply = (chain * self.processes + source) * DEPTHS + depth + 1
        reply_key = fold_in(fold_in(fold_in(self._root, REPLY), reply), process)
        if depth >= self.depth or uniform(reply_key) >= self.reply_share:
            return []
        target = self._draw_other(process, fold_in(reply_key, TARGET), self.processes)
        return [PlannedSend([target], reply, self._draw_payload_bytes(reply_key))]

    def _first(self, process: int, chain: int) -> PlannedSend:
        planned = self._plan(process, chain)
        planned.id = chain * DEPTHS
        return planned


class Microservices(PacedWorkload):
    """Requests that fan out through layers of services, and replies that return.

    The front end, layer 0, calls ``fan_out`` services of layer 1 for each request; each of
    them calls ``fan_out`` services of layer 2, and so on. A service of the last layer
    replies at once, any other when all its callees have replied. Process ``p`` belongs to
    layer ``p % layers``.

    A service identifies a call that it handles by a task: at the front end the number of
    the request, elsewhere a number made from the id of the call and the caller. Its own
    calls have odd ids made from the task, its reply an even one.
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
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of requests at each process of the front end.
            pace: The gaps, payloads and service times; a job is the work for a message.
            layers: The number of layers, the front end included.
            fan_out: The number of services of the next layer that a call needs.
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
        self._due: dict[tuple[int, int], int] = {}  # Missing replies, by process and task.

    def start(self, process: int) -> list[PlannedSend]:
        return self._request(process, 1) if process % self.layers == 0 else []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        """Return the next request of the front end, after the last call for one."""
        if process % self.layers or planned.id % 2 == 0:
            return []
        task, which = divmod(planned.id // 2, self.fan_out)
        return self._request(process, task + 1) if which == self.fan_out - 1 else []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        """Return the calls or the reply that follow a call, or a reply."""
        if id % 2:
            task = id * self.processes + source
            if process % self.layers == self.layers - 1:
                return [self._reply(task)]
            return self._call(process, task, 0.0)
        task = id // 2 // self.processes // 2 // self.fan_out
        self._due[process, task] -= 1
        if self._due[process, task]:
            return []
        del self._due[process, task]
        return [self._reply(task)] if process % self.layers else []

    def _request(self, process: int, request: int) -> list[PlannedSend]:
        if request > self.messages:
            return []
        request_key = fold_in(fold_in(self._root, process), request)
        wait_s = self.pace.gap.draw(fold_in(request_key, GAP))
        return self._call(process, request, wait_s)

    def _call(self, process: int, task: int, wait_s: float) -> list[PlannedSend]:
        self._due[process, task] = self.fan_out
        layer = process % self.layers + 1
        services = (self.processes - layer + self.layers - 1) // self.layers
        calls: list[PlannedSend] = []
        for which in range(self.fan_out):
            call_key = fold_in(fold_in(fold_in(self._root, REPLY), process), task)
            call_key = fold_in(call_key, which)
            service = int(uniform(fold_in(call_key, TARGET)) * services)
            target = layer + self.layers * service
            call = 2 * (task * self.fan_out + which) + 1
            size = self._draw_payload_bytes(call_key)
            calls.append(PlannedSend([target], call, size, wait_s))
        return calls

    def _reply(self, task: int) -> PlannedSend:
        caller = task % self.processes
        size = self._draw_payload_bytes(fold_in(fold_in(self._root, REPLY), task))
        return PlannedSend([caller], 2 * task, size)
