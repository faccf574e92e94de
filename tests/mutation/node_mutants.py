"""Mutants of group keys, receipts and unordered messages."""

from tests.mutation.mutant import Mutant

__all__ = ["NODE_MUTANTS"]

NODE_MUTANTS = (
    Mutant(
        "a key that was removed is still accepted",
        "net/group_keys",
        "            session.handshake.forget_ciphers()",
        "            pass",
    ),
    Mutant(
        "a node with several keys encrypts with the last one",
        "engine/crypto",
        "return self._cipher(self._keys[0]).encrypt(",
        "return self._cipher(self._keys[-1]).encrypt(",
    ),
    Mutant(
        "only the first of several keys is accepted",
        "engine/crypto",
        "            except InvalidTag:\n                continue\n",
        "            except InvalidTag:\n                break\n",
    ),
    Mutant(
        "a receipt tells of the delivery of a message that is not acked",
        "net/receipts",
        "while heap and heap[0][0] <= acked:",
        "while heap and heap[0][0] <= acked + 1:",
    ),
    Mutant(
        "a receipt tells of the delivery of a message that was given up",
        "net/receipts",
        "is_lost = engine.has_given_up(name, number)",
        "is_lost = False",
    ),
    Mutant(
        "a receipt waits for the acks of a channel that has ended",
        "net/receipts",
        "(session.id, session.abandonments) != (id, abandonments)",
        "False",
    ),
    Mutant(
        "an unordered message is delivered after a newer one",
        "engine/unordered",
        "elif received.packet < session.unordered_packet:",
        "elif False:",
    ),
    Mutant(
        "unordered messages of a removed peer are delivered",
        "engine/unordered",
        "        if session.state is not ACTIVE:\n            dropped",
        "        if False:\n            dropped",
    ),
    Mutant(
        "unordered messages exceed the congestion window",
        "engine/unordered",
        "        if has_room:\n",
        "        if True:\n",
    ),
    Mutant(
        "unordered messages fill the inbox",
        "engine/flow_control",
        "used < max(self._capacity // 4, 1)",
        "used < self._capacity",
    ),
    Mutant(
        "an unordered message is delivered long after it was sent",
        "engine/unordered",
        "if now - waiting.sent_at > LATE_S or",
        "if",
    ),
)
