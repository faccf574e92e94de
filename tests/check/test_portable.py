"""Portable states, which one space finds and another expands."""

from random import Random

import pytest

from antecede.check import CheckConfig, check
from antecede.check.checker import make_space
from antecede.check.portable import Entry, Portable
from antecede.errors import InternalError

CONFIGS = [
    CheckConfig(protocol="hybrid", messages=1),
    CheckConfig(protocol="hybrid", messages=1, multicast=True, processes=2),
    CheckConfig(protocol="hybrid-basic", messages=1, losses=1),
    CheckConfig(protocol="cykas", messages=1, duplicates=1, losses=1, processes=2),
    CheckConfig(protocol="bounded", messages=1, silences=1, returns=1),
    CheckConfig(protocol="buffer-fifo"),
    CheckConfig(protocol="matrix", messages=1, symmetry=False),
    CheckConfig(protocol="optimal", messages=1, symmetry=False),
]


def lightest(entries: list[Entry]) -> list[Entry]:
    best: dict[tuple[bool, int], Entry] = {}
    for entry in sorted(entries, key=lambda each: -each.weight):
        best[entry.is_packet, entry.fingerprint] = entry
    return list(best.values())


def explore(config: CheckConfig, spaces: int, seed: int) -> tuple[int, int, int, int]:
    """Search with several spaces, each of which expands a random part of every level."""
    random = Random(seed)
    portables = [Portable(*make_space(config, fingerprinted=True)) for _ in range(spaces)]
    table, space = make_space(config, fingerprinted=True)
    level = [Portable(table, space).encode(space.first)]
    seen = set(level)
    depth, transitions, ends = -1, 0, 0
    while level:
        depth += 1
        shares: list[list[bytes]] = [[] for _ in portables]
        for state in level:
            random.choice(shares).append(state)
        found: dict[bytes, bytes] = {}
        new_entries: list[Entry] = []
        for portable, share in zip(portables, shares, strict=True):
            step = portable.expand(share)
            transitions += step.transitions
            ends += step.ends
            assert step.violation is None
            found.update(step.found)
            new_entries += portable.new_entries()
        for portable in portables:
            portable.learn(lightest(new_entries))
            assert portable.new_entries() == []
        level = [state for state in found if state not in seen]
        seen.update(level)
    return len(seen), transitions, ends, depth


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.protocol)
def test_several_spaces_find_the_states_of_one(config: CheckConfig) -> None:
    alone = check(config)
    counts = (alone.states, alone.transitions, alone.ends, alone.depth)
    assert explore(config, 3, 1) == explore(config, 2, 2) == counts


def test_entries_are_returned_until_they_are_learned() -> None:
    table, space = make_space(CheckConfig(protocol="hybrid"), fingerprinted=True)
    portable = Portable(table, space)
    portable.expand([portable.encode(space.first)])
    first = [(entry.is_packet, entry.fingerprint) for entry in portable.new_entries()]
    assert first
    assert [
        (entry.is_packet, entry.fingerprint) for entry in portable.new_entries()
    ] == first
    portable.learn(portable.new_entries())
    assert portable.new_entries() == []


def test_wrong_entry_is_detected() -> None:
    config = CheckConfig(protocol="hybrid")
    table, space = make_space(config, fingerprinted=True)
    finder = Portable(table, space)
    (state,) = finder.expand([finder.encode(space.first)]).found
    learner = Portable(*make_space(config, fingerprinted=True))
    start = [local.fingerprint for local in table.start]
    following = dict(zip(start, start[1:] + start[:1], strict=True))
    learner.learn(  # As if they resulted from the state of another process.
        [
            Entry(
                entry.is_packet, entry.fingerprint, following[entry.before], entry.input, 1
            )
            for entry in finder.new_entries()
        ]
    )
    with pytest.raises(InternalError, match="the entry of"):
        learner.decode(state)
