"""Joins in random schedules of real protocols, with loss and reordering."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.group.protocol_rooms import RoomCluster, RoomNode

PROTOCOLS = ("hybrid", "hybrid-basic", "bounded")
NEWCOMERS = ("v", "w", "x", "y", "z")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 4),
    newcomers=st.integers(1, 5),
    loss=st.sampled_from((0.0, 0.1, 0.3)),
)
@settings(max_examples=60, deadline=None)
def test_newcomers_get_every_message_once_and_in_causal_order(
    protocol: str, seed: int, members: int, newcomers: int, loss: float
) -> None:
    cluster = RoomCluster(protocol, "abcd"[:members], seed)
    waiting = list(NEWCOMERS[:newcomers])
    for _ in range(40 * (members + newcomers)):
        choice = cluster.random.random()
        joined = [n for n, node in cluster.nodes.items() if node.membership.is_member]
        if choice < 0.1:
            cluster.broadcast(cluster.random.choice(joined))
        elif choice < 0.15 and waiting:
            cluster.start(waiting.pop(), cluster.random.choice(joined))
        elif choice < 0.2:
            cluster.pass_time()
        else:
            cluster.deliver_some(loss)
    cluster.finish()


def _has_received(node: RoomNode, count: int) -> bool:
    return len(node.log) == count


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_snapshot_of_one_newcomer_blocks_no_message_of_another(
    protocol: str,
) -> None:
    cluster = RoomCluster(protocol, "ab", seed=1)
    cluster.start("x", "a")
    cluster.start("y", "b")
    for newcomer, sponsor in (("x", "a"), ("y", "b")):
        # The inquiry, the answer and the request: both are admitted at the same time.
        cluster.deliver_control(newcomer, sponsor)
        cluster.deliver_control(sponsor, newcomer)
        cluster.deliver_control(newcomer, sponsor)
    cluster.stalled.add("x")
    y, b = cluster.nodes["y"], cluster.nodes["b"]
    cluster.run(60.0, lambda: y.membership.is_member)
    assert y.membership.is_member
    assert not cluster.nodes["x"].membership.is_member
    for number, name in enumerate(("y", "a"), start=1):
        cluster.broadcast(name)
        cluster.run(60.0, partial(_has_received, b, number))
    assert b.log == [("y", 1), ("a", 1)]
    assert not cluster.nodes["x"].membership.is_member
    cluster.stalled.clear()
    cluster.finish()
