"""Names of processes in the datagrams between two nodes.

A node writes its own ids into frames, and its peer translates them. Before the peer can do
so, it needs the *definition* of each id: the hash of the name, and the history of a source.
Each datagram with frames contains

* how many definitions of the receiver have arrived, without a gap,
* the definitions of ids in its frames that the receiver has not confirmed in this way.

Definitions are numbered. A datagram that defines ids also repeats the first definition that
is not confirmed, so that a lost one does not keep the number from growing. A frame whose
ids are not defined, because a datagram was lost or is late, is dropped; its sender
retransmits the message, or the question, with the definition.
"""

from struct import Struct
from typing import Final

from antecede.core.codec import Reader, write_varint
from antecede.core.dependencies import IdTranslation
from antecede.engine.process_names import ANY_HISTORY, OWN_ID, Identity, ProcessNames
from antecede.errors import PeerError

__all__ = ["DEFINITION_BYTES_MAX", "NAMES_BYTES_MAX", "NameExchange"]

NAMES_BYTES_MAX: Final = 12
"""The most bytes that a datagram without definitions uses for names."""
DEFINITION: Final = Struct(">QQ")
"""The hash of a name and a history, after the number and the id of a definition."""
DEFINITION_BYTES_MAX: Final = DEFINITION.size + 10
"""The most bytes of a definition: its number and its id have 5 bytes each at most."""
NO_DEFINITIONS: Final = [bytes([received, 0]) for received in range(0x80)]
"""The part of a datagram that precedes its frames, for small numbers of definitions that
have arrived."""
OUTGOING_MAX: Final = 4096
"""How many definitions a node relies on that its peer has confirmed; it repeats older
ones."""
INCOMING_MAX: Final = 2 * OUTGOING_MAX
"""How many definitions of a peer a node remembers."""


class NameExchange(IdTranslation):
    """The definitions that one node has transmitted to a peer, and received from it.

    Args:
        names: the processes that this node knows.
        name_hash: the hash of the peer's name.
    """

    __slots__ = (
        "_confirmed",
        "_count",
        "_defined",
        "_early",
        "_history",
        "_identities",
        "_name_hash",
        "_names",
        "_numbers",
        "_received",
    )

    _numbers: dict[int, int]
    """The number of the latest definition of each id."""
    _defined: dict[int, tuple[int, Identity]]
    """What each number defines; old numbers are forgotten once confirmed."""
    _count: int
    """How many definitions were made."""
    _confirmed: int
    """The peer has all definitions before this number."""
    _identities: dict[int, Identity]
    """The definitions of the peer, by its ids."""
    _received: int
    """All definitions of the peer before this number have arrived."""
    _early: set[int]
    """Later definitions of the peer that have arrived."""

    def __init__(self, names: ProcessNames, name_hash: int) -> None:
        self._names = names
        self._name_hash = name_hash
        self.reset(ANY_HISTORY)

    def reset(self, history: int) -> None:
        """Start again, because the peer has restarted; its history is this one."""
        self._history = history
        self._numbers = {}
        self._defined = {}
        self._count = 0
        self._confirmed = 0
        self._identities = {}
        self._received = 0
        self._early = set()

    # Transmitting.

    def define(self, ids: set[int]) -> list[int]:
        """Return the numbers of the definitions that the peer needs for these ids."""
        needed: list[int] = []
        for id in sorted(ids):  # noqa: A001 (the word for it)
            number = self._numbers.get(id, -1)
            if number < 0:
                if id == OWN_ID or not self._names.is_known(id):
                    continue  # A frame that waited for long may name a deleted one.
                number = self._add(id)
            if number >= self._confirmed:
                needed.append(number)
        if needed and self._confirmed not in needed:
            needed.append(self._confirmed)
        return needed

    def _add(self, id: int) -> int:
        number = self._count
        self._count += 1
        self._numbers[id] = number
        self._defined[number] = id, self._names.identity(id)
        oldest = next(iter(self._defined))
        if len(self._defined) > OUTGOING_MAX and oldest < self._confirmed:
            del self._numbers[self._defined.pop(oldest)[0]]
        return number

    def write(self, buffer: bytearray, numbers: list[int]) -> None:
        """Append the part of a datagram that precedes its frames."""
        write_varint(buffer, self._received)
        write_varint(buffer, len(numbers))
        for number in numbers:
            id, (name_hash, history) = self._defined[number]  # noqa: A001
            write_varint(buffer, number)
            write_varint(buffer, id)
            buffer += DEFINITION.pack(name_hash, history)

    def encode_none(self) -> bytes:
        """Return the part of a datagram without definitions that precedes its frames."""
        if self._received < len(NO_DEFINITIONS):
            return NO_DEFINITIONS[self._received]
        buffer = bytearray()
        self.write(buffer, [])
        return bytes(buffer)

    # Receiving.

    def read(self, reader: Reader) -> None:
        """Read the part of a datagram that precedes its frames; raise PeerError."""
        confirmed = reader.varint()
        if confirmed > self._count:
            raise PeerError(f"{confirmed} definitions confirmed of {self._count}")
        count = reader.varint()
        definitions = [self._read_definition(reader) for _ in range(count)]
        self._confirmed = max(self._confirmed, confirmed)
        for number, id, identity in definitions:  # noqa: A001 (the word for it)
            self._identities.pop(id, None)
            self._identities[id] = identity
            if len(self._identities) > INCOMING_MAX:
                del self._identities[next(iter(self._identities))]
            if number >= self._received:
                self._early.add(number)
        while self._received in self._early:
            self._early.remove(self._received)
            self._received += 1

    def _read_definition(self, reader: Reader) -> tuple[int, int, Identity]:
        number = reader.varint()
        id = reader.varint()  # noqa: A001 (the word for it)
        start = reader.position
        reader.position = end = start + DEFINITION.size
        if (
            number >= self._received + INCOMING_MAX
            or id == OWN_ID
            or end > len(reader.data)
        ):
            raise PeerError(f"invalid definition {number} of process {id}")
        name_hash, history = DEFINITION.unpack_from(reader.data, start)
        return number, id, (name_hash, history)

    def source(self, id: int) -> int:
        if id == OWN_ID:
            return self._names.source(self._name_hash, self._history)
        identity = self._identities.get(id)
        if identity is None or identity[1] == ANY_HISTORY:
            raise PeerError(f"unknown source {id}")
        return self._names.id_of(identity)

    def target(self, id: int) -> int:
        if id == OWN_ID:
            return self._names.target(self._name_hash)
        identity = self._identities.get(id)
        if identity is None or identity[1] != ANY_HISTORY:
            raise PeerError(f"unknown target {id}")
        return self._names.id_of(identity)
