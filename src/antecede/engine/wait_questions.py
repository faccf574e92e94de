"""Questions between nodes about the reason for which a message waits.

::

    QUESTION    id           4 bytes, chosen by the sender
                kind         1 byte: 1 why is message N of the sender not acked,
                             2 why is the permit for message N of the receiver not granted,
                             3 why has message N of the receiver not arrived at the sender
                number       8 bytes, the number N
                time limit   2 bytes, in milliseconds
                length       1 byte, the number of questions that led to this one
                hashes       8 bytes for each of these
    ANSWER      id           4 bytes
                steps        a count, and the steps (:mod:`antecede.engine.wait_step`)

The receiver of a question finds its part of the reason. If this part names another process,
the receiver asks that process, with three quarters of the time limit, and appends the
answer. The hashes end a loop, and bound the length of the chain. A node answers only its
peers, a limited number of questions per second, each by one datagram, and only about
messages between the two. Questions are repeated until they are answered; no message waits
for them.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from antecede.core.process import NEVER
from antecede.engine.acknowledgements import ACK_BLOCK_BYTES_MAX
from antecede.engine.datagram import (
    AEAD_TAG_BYTES,
    ANSWER,
    DATA_PREFIX,
    HEADER,
    QUESTION,
    name_hash,
)
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.session_layer import SessionLayer
from antecede.engine.wait_analysis import Found, NextQuestion, WaitAnalysis
from antecede.engine.wait_step import WaitStep, read_steps, write_steps
from antecede.errors import PeerError

__all__ = ["QUESTION_TIME_S", "WaitQuestions"]

OnAnswer = Callable[[list[WaitStep], float], None]
"""Called with the steps and the time."""

QUESTION_HEAD: Final = Struct(">IBQHB")
ANSWER_HEAD: Final = Struct(">I")
HASH: Final = Struct(">Q")
CHAIN_MAX: Final = 8
"""The maximum number of questions that one answer may depend on."""
PENDING_MAX: Final = 256
"""The maximum number of unanswered questions of a node."""
RATE_MAX: Final = 50
"""The maximum number of questions of one peer that a node answers per second."""
QUESTION_TIME_S: Final = 3.0
"""The time for which a node waits for the answer to its own question."""
REPEAT_S: Final = 0.25
"""The time after which a question is repeated."""
TIME_MIN_S: Final = 0.1
"""With less time left, a node does not ask other nodes."""


class _Question:
    """A question that is not answered."""

    __slots__ = ("body", "deadline", "on_answer", "repeat_at", "session")

    def __init__(
        self, session: PeerSession, body: bytes, on_answer: OnAnswer, deadline: float
    ) -> None:
        self.session = session
        self.body = body
        self.on_answer = on_answer
        self.deadline = deadline
        self.repeat_at = 0.0


class WaitQuestions:
    """The questions of one node, and those that it answers.

    Args:
        layer: the sessions.
        analysis: finds the reasons for which the messages of the node wait.
    """

    __slots__ = (
        "_analysis",
        "_answering",
        "_asked",
        "_layer",
        "_next_id",
        "_rates",
        "_room",
        "deadline",
    )

    deadline: float
    """When to call :meth:`handle_deadline`; infinite for never."""

    def __init__(self, layer: SessionLayer, analysis: WaitAnalysis) -> None:
        self._layer = layer
        self._analysis = analysis
        self._asked: dict[int, _Question] = {}
        self._answering: dict[tuple[int, int], None] = {}
        self._rates: dict[int, tuple[int, int]] = {}  # By peer: second, count.
        self._next_id = 0
        self._room = (
            layer.limits.base_bytes
            - HEADER.size
            - AEAD_TAG_BYTES
            - DATA_PREFIX.size
            - ACK_BLOCK_BYTES_MAX
            - ANSWER_HEAD.size
            - 1
        )
        self.deadline = NEVER

    # Asking.

    def complete(
        self,
        found: Found,
        on_answer: OnAnswer,
        now: float,
        time_s: float = QUESTION_TIME_S,
        chain: tuple[int, ...] = (),
    ) -> None:
        """Call ``on_answer`` with the steps of this node and of the nodes that it asks."""
        steps, question = found
        if question is None:
            on_answer(steps, now)
            return
        session, kind, number = question
        link = name_hash(f"{kind} {number} {self._layer.name} {session.name}")
        if link in chain:
            on_answer([*steps, self._analysis.loop(session)], now)
        elif len(chain) >= CHAIN_MAX or time_s < TIME_MIN_S:
            on_answer([*steps, self._analysis.too_long()], now)
        elif len(self._asked) >= PENDING_MAX:
            on_answer([*steps, self._analysis.unanswered(session, now)], now)
        else:
            self._ask(
                question,
                lambda answer, at: on_answer(steps + answer, at),
                now,
                time_s,
                (*chain, link),
            )

    def _ask(
        self,
        question: NextQuestion,
        on_answer: OnAnswer,
        now: float,
        time_s: float,
        chain: tuple[int, ...],
    ) -> None:
        session, kind, number = question
        self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        milliseconds = int(time_s * 1000)
        body = QUESTION_HEAD.pack(self._next_id, kind, number, milliseconds, len(chain))
        body += b"".join(HASH.pack(link) for link in chain)
        self._asked[self._next_id] = _Question(session, body, on_answer, now + time_s)
        self.deadline = min(self.deadline, now)

    def receive_answer(self, session: PeerSession, body: bytes, now: float) -> None:
        """Use an answer; drop it if the peer was not asked."""
        if len(body) < ANSWER_HEAD.size:
            self._layer.dropped["malformed"] += 1
            return
        (id,) = ANSWER_HEAD.unpack_from(body)  # noqa: A001 (the word for it)
        question = self._asked.get(id)
        if question is None or question.session is not session:
            return
        try:
            steps = read_steps(body[ANSWER_HEAD.size :])
        except PeerError:
            self._layer.dropped["malformed"] += 1
            return
        del self._asked[id]
        question.on_answer(steps, now)

    # Answering.

    def receive_question(self, session: PeerSession, body: bytes, now: float) -> None:
        """Answer a question of a peer, perhaps after asking others."""
        if len(body) < QUESTION_HEAD.size:
            self._layer.dropped["malformed"] += 1
            return
        id, kind, number, milliseconds, length = QUESTION_HEAD.unpack_from(body)  # noqa: A001
        if len(body) != QUESTION_HEAD.size + length * HASH.size or length > CHAIN_MAX:
            self._layer.dropped["malformed"] += 1
            return
        key = (session.name_hash, id)
        if key in self._answering or not self._is_within_rate(session, now):
            return
        chain = tuple(
            HASH.unpack_from(body, QUESTION_HEAD.size + index * HASH.size)[0]
            for index in range(length)
        )
        self._answering[key] = None

        def answer(steps: list[WaitStep], at: float) -> None:
            self._answering.pop(key, None)
            payload = ANSWER_HEAD.pack(id) + write_steps(steps, self._room)
            self._transmit(ANSWER, session, payload, at)

        found = self._analysis.answer(session, kind, number, now)
        time_s = min(milliseconds / 1000, QUESTION_TIME_S) * 3 / 4
        self.complete(found, answer, now, time_s, chain)

    def _is_within_rate(self, session: PeerSession, now: float) -> bool:
        second, count = self._rates.get(session.name_hash, (0, 0))
        if second != int(now):
            second, count = int(now), 0
        if len(self._rates) > PENDING_MAX:
            self._rates.clear()
        self._rates[session.name_hash] = second, count + 1
        return count < RATE_MAX

    # Transmitting.

    def _transmit(self, kind: int, session: PeerSession, body: bytes, now: float) -> None:
        """Transmit a datagram, or a HELLO if the peer would not accept it."""
        layer = self._layer
        if layer.can_transmit(session, now):
            prefix = layer.data_prefix(session, now, most=1)
            layer.responses.append(
                (session.address, layer.seal(kind, session, prefix + body))
            )
        elif session.state is ACTIVE:
            layer.timers.schedule_hello(session, now)

    def handle_deadline(self, now: float) -> None:
        """Transmit and repeat questions, and end those that were not answered in time."""
        if self.deadline > now:
            return
        for id, question in list(self._asked.items()):  # noqa: A001 (the word for it)
            if question.deadline <= now:
                del self._asked[id]
                question.on_answer([self._analysis.unanswered(question.session, now)], now)
            elif question.repeat_at <= now:
                question.repeat_at = now + REPEAT_S
                self._transmit(QUESTION, question.session, question.body, now)
        self.deadline = min(
            (min(each.repeat_at, each.deadline) for each in self._asked.values()),
            default=NEVER,
        )
