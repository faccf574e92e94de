"""The introduction of a node to its first peers: JOIN to the seeds, and the answers."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from antecede.core.process import NEVER
from antecede.core.registry import protocols
from antecede.engine.datagram import protocol_hash
from antecede.engine.events import format_address
from antecede.engine.join_events import JoinRefused
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
from antecede.net.host import look_up
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.runtime import NodeRuntime
from antecede.net.udp import Address, SocketAddress, parse_address

__all__ = ["Accept", "Introducer"]

logger = logging.getLogger(__name__)

Accept = Callable[[str, str], bool]
"""Whether to accept a newcomer, by name and address."""

RETRY_S: Final = 0.3
"""The wait before a seed gets another JOIN."""
GRACE_S: Final = 0.6
"""The time for which a newcomer waits for other seeds after the first answer of a seed."""
INTRODUCTIONS_MAX: Final = 8
"""The maximum number of introductions of a node to another one that a third one has
named."""
EXPECT_S: Final = 3.0
"""The time after a JOIN in which datagrams of unknown nodes are not reported."""
PROBE_S: Final = 2.0
"""The time in which the node that has a name must answer before another one gets the
name."""
PROBES_MAX: Final = 64
NONCES_MAX: Final = 4096
"""The maximum number of JOINs that may still be answered: the latest ones."""
ACCEPTED_MAX: Final = 4096
"""The maximum number of remembered nodes that were accepted or have answered."""


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
        self._own_seeds: set[Address] = set()
        self._lookups: set[Address] = set()
        self._answered = asyncio.Event()
        self.obstacle: Callable[[], str] = lambda: ""
        """Returns the reason for which no seed is found yet; empty if none is missing."""
        self._probes: dict[str, float] = {}
        self._accepted: dict[str, int] = {}
        self._answered_at: dict[str, float] = {}
        hub.on_stranger = self._receive

    # The newcomer.

    async def find(self, seeds: Sequence[Address], timeout_s: float) -> list[str]:
        """Introduce this node to seeds, and return the names of those that answered.

        Names are resolved again at each attempt. A seed that is this node itself is left
        out. Raise JoinError if no other seed answers, or if one refuses this node.
        """
        self._answers.clear()
        self._own_seeds.clear()
        loop = asyncio.get_running_loop()
        since = loop.time()
        deadline = since + timeout_s
        problems: dict[Address, str] = {}

        def obstacle() -> str:
            known = self._answers.keys() | self._own_seeds
            missing = [seed for seed in seeds if seed not in known]
            waited_s = round(loop.time() - since, 1)
            return _no_answer(missing, problems, waited_s) if missing else ""

        self.obstacle = obstacle
        while True:
            for seed in seeds:
                if seed not in self._answers and seed not in self._own_seeds:
                    self._ask(seed, problems)
            self._answered.clear()
            with_all = len(self._answers) + len(self._own_seeds) == len(seeds)
            now = loop.time()
            if with_all or now >= deadline:
                break
            try:
                async with asyncio.timeout_at(min(now + RETRY_S, deadline)):
                    await self._answered.wait()
            except TimeoutError:
                pass
            if self._answers:
                deadline = min(deadline, loop.time() + GRACE_S)
            self._check_refusals()
        self._check_refusals()
        if not self._answers and not with_all:
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

    def introduce(self, name: str, address: str) -> None:
        """Introduce this node to a linked one, and again until that one answers.

        It may not know the name of this node yet, or another address of it.
        """
        self._introduce(name, address, 1, self._runtime.now_s())

    def _introduce(self, name: str, address: str, count: int, since: float) -> None:
        runtime = self._runtime
        if runtime.is_closing or self._answered_at.get(name, -NEVER) >= since:
            return
        self._ask(parse_address(address), {})
        if count < INTRODUCTIONS_MAX:
            arguments = name, address, count + 1, since
            loop = asyncio.get_running_loop()
            loop.call_later(RETRY_S * count, self._introduce, *arguments)

    def _check_refusals(self) -> None:
        for seed, answer in self._answers.items():
            if answer.reason:
                raise JoinError(
                    f"{answer.name} at {format_address(seed)} refuses"
                    f" {self._config.name}: {answer.reason}"
                )

    def _ask(self, seed: Address, problems: dict[Address, str]) -> None:
        if seed in self._lookups:
            return  # The last attempt still waits for the address.
        self._lookups.add(seed)
        socket = self._runtime.opened_socket()

        def transmit(found: SocketAddress | ConfigError) -> None:
            self._lookups.discard(seed)
            if isinstance(found, ConfigError):
                problems[seed] = str(found)
            elif not self._runtime.is_closing:
                problems.pop(seed, None)
                self._transmit_join(seed, found)

        look_up(socket, seed, transmit)

    def _transmit_join(self, seed: Address, address: SocketAddress) -> None:
        nonce = self._random_bits(63)
        if len(self._nonces) >= NONCES_MAX:
            del self._nonces[next(iter(self._nonces))]
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
        self._runtime.opened_socket().transmit([(address, datagram)])

    def _receive(self, datagram: bytes, address: object) -> None:
        message = open_stranger(datagram, self._config.cipher)
        if isinstance(message, JoinAnswer):
            self._take_answer(message, address)
        elif message.incarnation != self._hub.engine.incarnation:
            reason = self._examine(message, address)
            if reason is not None:
                self._answer(message, address, reason, len(datagram))
        elif (seed := self._nonces.pop(message.nonce, None)) is not None:
            self._own_seeds.add(seed)
            self._answered.set()

    def _take_answer(self, answer: JoinAnswer, address: object) -> None:
        seed = self._nonces.pop(answer.nonce, None)
        if seed is None:
            return
        self._nonces = {nonce: at for nonce, at in self._nonces.items() if at != seed}
        self._answers[seed] = answer
        if len(self._answered_at) >= ACCEPTED_MAX:
            del self._answered_at[next(iter(self._answered_at))]
        self._answered_at[answer.name] = self._runtime.now_s()
        self._answered.set()
        if answer.reason:
            return
        self.own_address = answer.address
        # The node is at this address: it has answered a number that was sent there.
        known = self._hub.engine.links.incarnation(answer.name)
        is_vacant = known == answer.incarnation or (
            known != 0 and self._is_vacant(answer.name) is True
        )
        self._hub.add_numeric_link(answer.name, address, is_vacant=is_vacant)

    # The seed.

    def _examine(self, request: JoinRequest, address: object) -> str | None:
        """Return why to refuse a newcomer, "" to accept it, or None to wait."""
        name = request.name
        if request.version != JOIN_VERSION:
            return (
                f"it uses version {request.version} of the protocol of rooms, and this"
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
        is_vacant = False
        if self._accepted.get(name) != request.incarnation:
            reason = self._examine_name(request, address)
            if reason != "":
                return reason
            reason = self._ask_application(name, address)
            if reason:
                return reason
            # Its former address has not answered, or it is the same one.
            is_vacant = self._hub.engine.links.incarnation(name) != request.incarnation
        try:
            self._hub.add_numeric_link(name, address, is_vacant=is_vacant)
        except ConfigError as error:
            return str(error)
        if len(self._accepted) >= ACCEPTED_MAX:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[name] = request.incarnation
        links = self._hub.engine.links
        is_same = links.incarnation(name) == request.incarnation
        if is_same and links.address(name) != address and isinstance(address, tuple):
            # Another node may have repeated the JOIN: ask for an answer.
            self._ask((address[0], address[1]), {})
            return None
        return ""

    def _ask_application(self, name: str, address: object) -> str:
        """Return why the application refuses a newcomer; empty if it does not."""
        if self._accept is None:
            return ""
        try:
            is_accepted = self._accept(name, format_address(address))
        except Exception as error:
            logger.exception("%s: accept has raised for %s", self._config.name, name)
            return f"the function accept of {self._config.name} has raised {error!r}"
        return "" if is_accepted else "the application has refused it"

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
        is_vacant = self._is_vacant(name)
        if is_vacant is False:
            return (
                f"the name {name} is taken by the node at"
                f" {format_address(links.address(name))}: choose another name"
            )
        return "" if is_vacant else None

    def _is_vacant(self, name: str) -> bool | None:
        """Return whether a known node has stopped, or None as long as it is unknown.

        Ask it for an answer; the caller tries again.
        """
        links = self._hub.engine.links
        now = self._runtime.now_s()
        asked_at = self._probes.get(name)
        if asked_at is None or now - asked_at > 2 * PROBE_S:
            if len(self._probes) >= PROBES_MAX:
                del self._probes[next(iter(self._probes))]
            self._probes[name] = asked_at = now
        if links.has_answered(name, asked_at):
            return False
        if now - asked_at >= PROBE_S:
            return True
        links.ask(name, now)
        self._runtime.schedule_output()
        return None

    def _answer(
        self, request: JoinRequest, address: object, reason: str, size_max: int
    ) -> None:
        """Answer with at most the bytes that have arrived: the address may be forged."""
        if reason:
            event = JoinRefused(peer=request.name, address=address, reason=reason)
            self._runtime.events.publish([event], self._runtime.now_s())
        answer = JoinAnswer(
            request.nonce,
            self._hub.engine.incarnation,
            self._config.name,
            format_address(address),
            reason,
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
