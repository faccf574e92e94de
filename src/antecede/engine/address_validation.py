"""Addresses follow authenticated datagrams, in a group with a key (RFC 9000, 8 and 9).

If the newest datagram of a peer arrives from another address than the one in use, that
address is a *candidate*. The node transmits a CHALLENGE with eight random bytes to it, and
uses the address once a RESPONSE with these bytes arrives; until then it transmits its other
datagrams to the address in use. To a candidate it transmits at most three times the bytes
that have arrived from there. A replayed datagram is no evidence, because it is not the
newest one.

A HELLO of an unknown incarnation may be old, so that it is no evidence either. The node
answers it with a HELLO of its own to the same address, not more often than HELLOs are
repeated: the WELCOME is evidence.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from antecede.engine.datagram import CHALLENGE, RESPONSE
from antecede.engine.limits import Limits
from antecede.engine.peer_session import PeerSession
from antecede.engine.received_datagram import ReceivedDatagram

__all__ = ["AMPLIFICATION_MAX", "AddressValidation", "CandidateAddress"]

AMPLIFICATION_MAX: Final = 3
"""The number of bytes to transmit for each byte that has arrived (RFC 9000, section
8.1)."""
TOKEN: Final = Struct(">Q")
TOKEN_BITS: Final = 64


class CandidateAddress:
    """An address from which a peer may be transmitting now.

    Args:
        address: the address.
        token: the random bytes of its challenges, as a number.
    """

    __slots__ = ("address", "bytes_in", "bytes_out", "challenge_at", "token")

    address: object
    token: int
    bytes_in: int
    bytes_out: int
    challenge_at: float
    """The time from which another datagram from the address causes another challenge."""

    def __init__(self, address: object, token: int) -> None:
        self.address = address
        self.token = token
        self.bytes_in = 0
        self.bytes_out = 0
        self.challenge_at = 0.0


class AddressValidation:
    """The validation of new addresses of peers, for one node.

    Args:
        seal: makes datagrams of a kind, to a peer, from their bodies.
        make_prefix: makes the start of a body.
        random_bits: draws cryptographically secure random numbers.
        limits: the limits of the node.
        has_key: datagrams are authenticated; otherwise addresses do not follow them.
    """

    __slots__ = (
        "_candidates",
        "_greeted",
        "_has_key",
        "_limits",
        "_make_prefix",
        "_random_bits",
        "_seal",
    )

    def __init__(
        self,
        seal: Callable[[int, PeerSession, bytes], bytes],
        make_prefix: Callable[[PeerSession, float], bytes],
        random_bits: Callable[[int], int],
        limits: Limits,
        *,
        has_key: bool,
    ) -> None:
        self._seal = seal
        self._make_prefix = make_prefix
        self._random_bits = random_bits
        self._limits = limits
        self._has_key = has_key
        self._candidates: dict[int, CandidateAddress] = {}  # By the hash of the name.
        self._greeted: dict[int, float] = {}  # The time from which a HELLO may follow.

    def may_greet(self, session: PeerSession, address: object, now: float) -> bool:
        """Return whether to answer a HELLO from another address with a HELLO."""
        greet_at = self._greeted.get(session.name_hash, now)
        if not self._has_key or address == session.address or now < greet_at:
            return False
        self._greeted[session.name_hash] = now + self._limits.hello_timeout_s
        return True

    def forget(self, session: PeerSession) -> None:
        """Forget the candidate of a peer."""
        self._candidates.pop(session.name_hash, None)
        self._greeted.pop(session.name_hash, None)

    def check(
        self,
        received: ReceivedDatagram,
        address: object,
        size: int,
        responses: list[tuple[object, bytes]],
        now: float,
    ) -> None:
        """Process a datagram from another address, a CHALLENGE or a RESPONSE.

        Args:
            received: an accepted datagram.
            address: the address of its sender.
            size: its length.
            responses: the datagrams to transmit, to which this method adds others.
            now: the current time.
        """
        session = received.session
        age_s = now - session.handshake.timestamp_echo_at
        if not self._has_key or age_s >= self._limits.lease_s / 2:
            return  # The peer might not accept a datagram that is transmitted now.
        if received.kind == RESPONSE:
            self._complete(received, now)
        elif received.kind == CHALLENGE:
            token = received.body[-TOKEN.size :]
            responses.append((address, self._make(RESPONSE, session, token, now)))
        if address != session.address:
            challenge = self._challenge(received, address, size, now)
            if challenge is not None:
                responses.append((address, challenge))

    def _make(self, kind: int, session: PeerSession, token: bytes, now: float) -> bytes:
        """Make a datagram; acks that are due stay due, because the datagram may be lost."""
        due = session.path.arrived.due
        datagram = self._seal(kind, session, self._make_prefix(session, now) + token)
        session.path.arrived.due = due
        return datagram

    def _challenge(
        self, received: ReceivedDatagram, address: object, size: int, now: float
    ) -> bytes | None:
        """Return a challenge to an address that is not in use, if one is due."""
        session = received.session
        if received.packet != session.replay_window.highest:
            return None  # A later datagram has arrived from another address.
        candidate = self._candidates.get(session.name_hash)
        if candidate is None or candidate.address != address:
            candidate = CandidateAddress(address, self._random_bits(TOKEN_BITS))
            self._candidates[session.name_hash] = candidate
        candidate.bytes_in += size
        if now < candidate.challenge_at:
            return None
        datagram = self._make(CHALLENGE, session, TOKEN.pack(candidate.token), now)
        if candidate.bytes_out + len(datagram) > AMPLIFICATION_MAX * candidate.bytes_in:
            return None
        candidate.bytes_out += len(datagram)
        candidate.challenge_at = now + session.path.losses.probe_timeout_s
        return datagram

    def _complete(self, received: ReceivedDatagram, now: float) -> None:
        """Use the candidate from now on if a RESPONSE has its random bytes."""
        session = received.session
        candidate = self._candidates.get(session.name_hash)
        (token,) = TOKEN.unpack(received.body[-TOKEN.size :])
        if candidate is not None and candidate.token == token:
            self.forget(session)
            session.address = candidate.address
            session.path.move(now)
