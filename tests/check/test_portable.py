"""States that one space finds and another goes on from."""

from random import Random

import pytest

from antecede.check import Bound, check
from antecede.check.checker import make_space
from antecede.check.portable import Entry, Portable
from antecede.errors import InternalError

BOUNDS = [
    Bound(protocol="hybrid", messages=1),
    Bound(protocol="hybrid", messages=1, multicast=True, processes=2),
    Bound(protocol="hybrid-basic", messages=1, losses=1),
    Bound(protocol="cykas", messages=1, duplicates=1, losses=1, processes=2),
    Bound(protocol="buffer-fifo"),
    Bound(protocol="matrix", messages=1, reduce=False),
    Bound(protocol="optimal", messages=1, reduce=False),
]


def lightest(entries: list[Entry]) -> list[Entry]:
    best: dict[tuple[bool, int], Entry] = {}
    for entry in sorted(entries, key=lambda each: -each.weight):
        best[entry.is_packet, entry.rank] = entry
    return list(best.values())


def explore(bound: Bound, spaces: int, seed: int) -> tuple[int, int, int, int]:
    """Search with several spaces, each of which gets a random share of every level."""
    random = Random(seed)
    members = [Portable(*make_space(bound, ranked=True)) for _ in range(spaces)]
    model, space = make_space(bound, ranked=True)
    level = [Portable(model, space).go_out(space.first)]
    seen = set(level)
    depth, transitions, ends = -1, 0, 0
    while level:
        depth += 1
        shares: list[list[bytes]] = [[] for _ in members]
        for state in level:
            random.choice(shares).append(state)
        found: dict[bytes, bytes] = {}
        news: list[Entry] = []
        for member, share in zip(members, shares, strict=True):
            step = member.expand(share)
            transitions += step.transitions
            ends += step.ends
            assert step.broken is None
            found.update(step.found)
            news += member.news()
        for member in members:
            member.learn(lightest(news))
            assert member.news() == []
        level = [state for state in found if state not in seen]
        seen.update(level)
    return len(seen), transitions, ends, depth


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.protocol)
def test_several_spaces_find_what_one_does(bound: Bound) -> None:
    alone = check(bound)
    counts = (alone.states, alone.transitions, alone.ends, alone.depth)
    assert explore(bound, 3, 1) == explore(bound, 2, 2) == counts


def test_what_was_told_is_told_again_until_it_is_learned() -> None:
    model, space = make_space(Bound(protocol="hybrid"), ranked=True)
    portable = Portable(model, space)
    portable.expand([portable.go_out(space.first)])
    first = [(entry.is_packet, entry.rank) for entry in portable.news()]
    assert first
    assert [(entry.is_packet, entry.rank) for entry in portable.news()] == first
    portable.learn(portable.news())
    assert portable.news() == []


def test_a_wrong_explanation_is_found_out() -> None:
    bound = Bound(protocol="hybrid")
    model, space = make_space(bound, ranked=True)
    teacher = Portable(model, space)
    (state,) = teacher.expand([teacher.go_out(space.first)]).found
    pupil = Portable(*make_space(bound, ranked=True))
    ranks = [local.rank for local in model.start]
    following = dict(zip(ranks, ranks[1:] + ranks[:1], strict=True))
    pupil.learn(  # As if another process had done it.
        [
            Entry(entry.is_packet, entry.rank, following[entry.before], entry.given, 1)
            for entry in teacher.news()
        ]
    )
    with pytest.raises(InternalError, match="does not arise as explained"):
        pupil.come_in(state)
