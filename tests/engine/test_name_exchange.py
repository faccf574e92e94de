"""Names of processes in datagrams: definitions, their confirmation, and translation."""

import pytest

from antecede.core.codec import Reader
from antecede.engine.name_exchange import INCOMING_MAX, OUTGOING_MAX, NameExchange
from antecede.engine.process_names import SWEEP_MIN, ProcessNames
from antecede.errors import PeerError

ANN, BOB, EVE = 11, 22, 33
"""Hashes of names."""
HISTORY = 7


class Ends:
    """The exchanges of ann and bob with each other."""

    def __init__(self) -> None:
        self.ann_names = ProcessNames(ANN, HISTORY)
        self.bob_names = ProcessNames(BOB, HISTORY)
        self.ann = NameExchange(self.ann_names, BOB)
        self.bob = NameExchange(self.bob_names, ANN)
        self.ann.reset(HISTORY)
        self.bob.reset(HISTORY)

    def datagram(self, ids: set[int]) -> bytes:
        """Return the names in a datagram of ann with frames that name these processes."""
        buffer = bytearray()
        self.ann.write(buffer, self.ann.define(ids))
        return bytes(buffer)

    def answer(self) -> None:
        """Let a datagram of bob arrive at ann."""
        buffer = bytearray()
        self.bob.write(buffer, [])
        self.ann.read(Reader(bytes(buffer)))


def test_a_receiver_translates_the_ids_of_the_sender() -> None:
    ends = Ends()
    eve = ends.ann_names.source(EVE, 5)
    bob = ends.ann_names.target(BOB)
    ends.bob_names.target(EVE)  # Bob uses other ids than ann.
    ends.bob.read(Reader(ends.datagram({eve, bob})))
    assert ends.bob.source(eve) == ends.bob_names.source(EVE, 5)
    assert ends.bob.target(bob) == 0  # Bob itself.
    assert ends.bob.source(0) == ends.bob_names.source(ANN, HISTORY)
    assert ends.bob.target(0) == ends.bob_names.target(ANN)


def test_two_histories_are_two_sources_and_one_target() -> None:
    names = ProcessNames(ANN, HISTORY)
    assert names.source(EVE, 5) != names.source(EVE, 6)
    assert names.target(EVE) == names.target(EVE)
    assert names.source(ANN, HISTORY) == names.target(ANN) == 0
    assert names.source(ANN, HISTORY + 1) != 0  # A former history of ann.


def test_a_confirmed_definition_is_not_repeated() -> None:
    ends = Ends()
    eve = ends.ann_names.target(EVE)
    first = ends.datagram({eve})
    assert ends.datagram({eve}) == first  # It may be lost.
    ends.bob.read(Reader(first))
    ends.answer()
    # Two counts of one byte each.
    assert ends.datagram({eve}) == b"\x00\x00"
    assert len(first) == 2 + 1 + 1 + 16


def test_a_lost_definition_is_repeated_with_the_next_one() -> None:
    ends = Ends()
    lost, later = ends.ann_names.target(EVE), ends.ann_names.target(BOB)
    ends.datagram({lost})
    ends.bob.read(Reader(ends.datagram({later})))
    assert ends.bob.target(lost) == ends.bob_names.target(EVE)
    ends.answer()
    assert ends.datagram({lost, later}) == b"\x00\x00"


def test_an_id_that_is_not_defined_is_refused() -> None:
    ends = Ends()
    source, target = ends.ann_names.source(EVE, 5), ends.ann_names.target(EVE)
    with pytest.raises(PeerError, match="unknown target"):
        ends.bob.target(target)
    ends.bob.read(Reader(ends.datagram({source, target})))
    with pytest.raises(PeerError, match="unknown source"):
        ends.bob.source(target)
    with pytest.raises(PeerError, match="unknown target"):
        ends.bob.target(source)


@pytest.mark.parametrize(
    "datagram",
    [
        b"\x01\x00",  # Confirms a definition that ann never made.
        b"\x00\x01\x00\x00" + bytes(16),  # Defines the id of the sender itself.
        b"\x00\x01\xff\xff\x03\x01" + bytes(16),  # A number from the future.
        b"\x00\x02\x00\x01" + bytes(16),  # Cut short.
    ],
)
def test_an_invalid_datagram_changes_nothing(datagram: bytes) -> None:
    ends = Ends()
    with pytest.raises(PeerError):
        ends.ann.read(Reader(datagram))
    buffer = bytearray()
    ends.ann.write(buffer, [])
    assert buffer == b"\x00\x00"
    with pytest.raises(PeerError):
        ends.ann.target(1)


def test_a_peer_cannot_make_a_node_keep_more_than_a_number_of_definitions() -> None:
    ends = Ends()
    for index in range(INCOMING_MAX + 10):
        target = ends.ann_names.target(1000 + index)
        ends.bob.read(Reader(ends.datagram({target})))
        ends.answer()
    assert len(ends.bob._identities) == INCOMING_MAX
    assert len(ends.ann._defined) == OUTGOING_MAX
    first = ends.ann_names.target(1000)
    with pytest.raises(PeerError):
        ends.bob.target(first)
    ends.bob.read(Reader(ends.datagram({first})))  # Ann has forgotten it as well.
    assert ends.bob.target(first) == ends.bob_names.target(1000)


def test_processes_that_nothing_names_are_forgotten() -> None:
    names = ProcessNames(ANN, HISTORY)
    used = names.target(EVE)
    for index in range(SWEEP_MIN):
        names.source(BOB, index + 1)
    assert names.is_sweep_due
    names.sweep({used})
    assert len(names) == 2  # Ann and eve.
    assert names.target(EVE) == used
    assert names.source(BOB, 1) > SWEEP_MIN  # No id is used twice.
