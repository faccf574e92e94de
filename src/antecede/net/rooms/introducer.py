"""How a node meets its first peers: JOIN to the addresses of seeds, and the answers."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from antecede.core.registry import protocols
from antecede.engine.datagram import protocol_hash
from antecede.engine.events import format_address
from antecede.engine.joining import (
    JOIN_VERSION,
    JoinAnswer,
    JoinRequest,
    open_stranger,
    seal_stranger,
)
from antecede.engine.limits import Limits
from antecede.errors import ConfigError, JoinError
from antecede.net.config import NAME_BYTES_MAX, NodeConfig
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.runtime import NodeRuntime
from antecede.net.udp import Address, parse_address

__all__ = ["Accept", "Introducer"]

logger = logging.getLogger(__name__)

Accept = Callable[[str, str], bool]
"""Whether to accept a newcomer, by name and address."""

RETRY_S: Final = 0.3
"""The wait before a seed gets another JOIN."""
GRACE_S: Final = 0.6
"""How long a newcomer waits for other seeds once one of them has answered."""
INTRODUCTIONS_MAX: Final = 8
"""How many times a node introduces itself to another one that a third one has named."""
ALIVE_S: Final = 1.0
"""How long after a datagram of a node this node does not introduce itself."""
EXPECT_S: Final = 3.0
"""How long after a JOIN datagrams of unknown nodes are not reported."""
PROBE_S: Final = 2.0
"""How long the node that has a name has time to answer before another one gets it."""
PROBES_MAX: Final = 64


class Introducer:
    """Exchanges JOIN and JOIN_ANSWER for one node.

    Args:
        hub: adds links.
        runtime: has the socket of the node.
        config: the parameters of the node.
        limits: the limits of the node.
        accept: whether to accept a newcomer; None for all.
    """

    def __init__(
        self,
        hub: LinkHub,
        runtime: NodeRuntime,
        config: NodeConfig,
        limits: Limits,
        random_bits: Callable[[int], int],
        accept: Accept | None,
    ) -> None:
        self.own_address: str | None = None
        """The address of this node as a seed sees it; None before an answer."""
        self._hub = hub
        self._runtime = runtime
        self._config = config
        self._limits = limits
        self._random_bits = random_bits
        self._accept = accept
        self._nonces: dict[int, Address] = {}
        self._answers: dict[Address, JoinAnswer] = {}
        self._answered = asyncio.Event()
        self._probes: dict[str, float] = {}
        self._accepted: dict[str, int] = {}
        hub.on_stranger = self._receive

    # The newcomer.

    async def find(self, seeds: Sequence[Address], timeout_s: float) -> list[str]:
        """Introduce this node to seeds, and return the names of those that answered.

        Names are resolved again at each attempt. Raise JoinError if no seed answers, or if
        one refuses this node.
        """
        self._answers.clear()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        problems: dict[Address, str] = {}
        while True:
            for seed in seeds:
                if seed not in self._answers:
                    self._ask(seed, problems)
            self._answered.clear()
            with_all = len(self._answers) == len(seeds)
            now = loop.time()
            if with_all or now >= deadline:
                break
            try:
                async with asyncio.timeout_at(min(now + RETRY_S, deadline)):
                    await self._answered.wait()
                deadline = min(deadline, loop.time() + GRACE_S)
            except TimeoutError:
                pass
            self._check_refusals()
        self._check_refusals()
        if not self._answers:
            raise JoinError(_no_answer(seeds, problems, timeout_s))
        return list(dict.fromkeys(answer.name for answer in self._answers.values()))

    def connect(self, name: str, address: str) -> None:
        """Link a node at an address that a third one has named, and introduce this one."""
        if name == self._config.name:
            return
        try:
            self._hub.add_link(name, parse_address(address))
        except ConfigError as error:
            logger.warning("%s cannot link %s: %s", self._config.name, name, error)
            return
        self.introduce(name, address)

    def introduce(self, name: str, address: str, tries: int = INTRODUCTIONS_MAX) -> None:
        """Introduce this node to a linked one until that one answers.

        It may not know the name of this node yet, or not any more after a restart.
        """
        runtime = self._runtime
        since = runtime.now_s() - ALIVE_S
        if runtime.is_closing or self._hub.engine.links.has_answered(name, since):
            return
        self._ask(parse_address(address), {})
        if tries > 1:
            wait_s = RETRY_S * (INTRODUCTIONS_MAX + 1 - tries)
            loop = asyncio.get_running_loop()
            loop.call_later(wait_s, self.introduce, name, address, tries - 1)

    def _check_refusals(self) -> None:
        for seed, answer in self._answers.items():
            if answer.reason:
                raise JoinError(
                    f"{answer.name} at {format_address(seed)} refuses"
                    f" {self._config.name}: {answer.reason}"
                )

    def _ask(self, seed: Address, problems: dict[Address, str]) -> None:
        socket = self._runtime.opened_socket()
        try:
            address = socket.resolve(seed)
        except ConfigError as error:
            problems[seed] = str(error)
            return
        problems.pop(seed, None)
        nonce = self._random_bits(63)
        self._nonces[nonce] = seed
        engine = self._hub.engine
        engine.links.expect_strangers(self._runtime.now_s() + EXPECT_S)
        request = JoinRequest(
            nonce,
            self._config.name,
            engine.incarnation,
            protocol_hash([self._config.protocol]),
            int(self._limits.lease_s * 1000),
        )
        size = self._limits.base_bytes
        datagram = seal_stranger(request, self._config.cipher, self._random_bits, size)
        socket.transmit([(address, datagram)])

    def _receive(self, datagram: bytes, address: object) -> None:
        message = open_stranger(datagram, self._config.cipher)
        if isinstance(message, JoinAnswer):
            self._take_answer(message, address)
        elif message.incarnation != self._hub.engine.incarnation:
            reason = self._examine(message, address)
            if reason is not None:
                self._answer(message, address, reason, len(datagram))

    def _take_answer(self, answer: JoinAnswer, address: object) -> None:
        seed = self._nonces.pop(answer.nonce, None)
        if seed is None:
            return
        self._nonces = {nonce: at for nonce, at in self._nonces.items() if at != seed}
        self._answers[seed] = answer
        self._answered.set()
        if not answer.reason:
            self.own_address = answer.address
            self._hub.add_numeric_link(answer.name, address)

    # The seed.

    def _examine(self, request: JoinRequest, address: object) -> str | None:
        """Return why to refuse a newcomer, "" to accept it, or None to wait."""
        name = request.name
        if request.version != JOIN_VERSION:
            return (
                f"it speaks version {request.version} of the protocol of rooms, and this"
                f" node version {JOIN_VERSION}: install the same version of antecede"
            )
        if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            return "its name has more than 255 bytes"
        if request.protocol != protocol_hash([self._config.protocol]):
            names = [
                info.name
                for info in protocols()
                if protocol_hash([info.name]) == request.protocol
            ]
            other = names[0] if names else "another protocol"
            return (
                f"protocol={other} differs from {self._config.protocol}, the protocol of"
                " the group outside of rooms"
            )
        if request.lease_ms != int(self._limits.lease_s * 1000):
            return (
                f"Limits.lease_s={request.lease_ms / 1000:g} differs from"
                f" {self._limits.lease_s:g} here: give all nodes the same value"
            )
        if name == self._config.name:
            return f"the name {name} is taken by this node: choose another name"
        if self._accepted.get(name) != request.incarnation:
            reason = self._examine_name(request, address)
            if reason != "":
                return reason
            if self._accept is not None and not self._accept(name, format_address(address)):
                return "the application has refused it"
            self._accepted[name] = request.incarnation
        self._hub.add_numeric_link(name, address)
        return ""

    def _examine_name(self, request: JoinRequest, address: object) -> str | None:
        """Return why the name is not free, "" if it is, or None as long as it is unknown.

        The node that had the name may have been restarted at another address: if it does
        not answer, the newcomer takes its place.
        """
        links = self._hub.engine.links
        name = request.name
        known = links.incarnation(name)
        if known == 0 or known == request.incarnation:
            if known == 0 and len(links.names()) >= self._limits.links_max:
                return (
                    f"this node has {self._limits.links_max} links, the most that"
                    " Limits.links_max allows"
                )
            return ""
        if links.address(name) == address:
            return ""  # Only one node at a time is bound to an address.
        now = self._runtime.now_s()
        asked_at = self._probes.get(name)
        if asked_at is None or now - asked_at > 2 * PROBE_S:
            if len(self._probes) >= PROBES_MAX:
                del self._probes[next(iter(self._probes))]
            self._probes[name] = asked_at = now
        if links.has_answered(name, asked_at):
            return (
                f"the name {name} is taken by the node at"
                f" {format_address(links.address(name))}: choose another name"
            )
        if now - asked_at >= PROBE_S:
            return ""
        links.ask(name, now)
        self._runtime.schedule_output()
        return None

    def _answer(
        self, request: JoinRequest, address: object, reason: str, size_max: int
    ) -> None:
        """Answer with at most the bytes that have arrived: the address may be forged."""
        if reason:
            logger.warning(
                "%s refuses %s at %s: %s",
                *(self._config.name, request.name, format_address(address), reason),
            )
        answer = JoinAnswer(
            request.nonce, self._config.name, format_address(address), reason
        )
        datagram = seal_stranger(answer, self._config.cipher, self._random_bits, 0)
        if len(datagram) > size_max:
            answer.reason = reason.encode()[: size_max - len(datagram)].decode(
                errors="ignore"
            )
            datagram = seal_stranger(answer, self._config.cipher, self._random_bits, 0)
        if len(datagram) <= size_max:
            self._runtime.opened_socket().transmit([(address, datagram)])


def _no_answer(
    seeds: Sequence[Address], problems: dict[Address, str], timeout_s: float
) -> str:
    names = ", ".join(format_address(seed) for seed in seeds)
    unresolved = "".join(f"; {problem}" for problem in problems.values())
    return (
        f"no member answered at {names} for {timeout_s:g} s: check the addresses, the key"
        f" and the firewall{unresolved}"
    )
