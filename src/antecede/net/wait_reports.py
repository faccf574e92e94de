"""Reports of the reasons for which messages wait, with the answers of other nodes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from antecede.engine.engine import Engine
from antecede.engine.wait_analysis import ASKS_FROM, Found
from antecede.engine.wait_step import WaitStep, explain
from antecede.net.runtime import NodeRuntime

__all__ = ["JoinReport", "WaitReport", "find_waits"]

REPORTS_MAX = 64
"""The maximum number of messages that one call reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReport:
    """The reason for which a message waits, from its process to the process at fault."""

    source: str
    number: int
    target: str
    steps: tuple[WaitStep, ...]
    """The reason for which each process waits. The last step is about the process at
    fault."""

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The processes that the message waits for, in order."""
        return tuple(dict.fromkeys(step.name for step in self.steps if step.name))

    def __str__(self) -> str:
        return explain(f"{self.source}:{self.number} to {self.target}", self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """The reason for which a join is not complete."""

    room: str
    reason: str
    """The text that the JoinError at the time-out of the join has, too."""

    def __str__(self) -> str:
        return f"joining {self.room}: {self.reason}"


async def find_waits(
    runtime: NodeRuntime, source: str | None, number: int | None
) -> list[WaitReport]:
    """Return the reasons for which messages wait, after asking other nodes.

    Args:
        runtime: drives the engine of the node.
        source: the source of the messages; None for any.
        number: the number of the message; None for the oldest of each stage and peer.
    """
    runtime.opened_socket()
    engine = runtime.opened_engine()
    now = runtime.now_s()
    found = _named(engine, now, source, number)
    loop = asyncio.get_running_loop()
    pending: list[tuple[str, int, str, asyncio.Future[list[WaitStep]]]] = []
    for origin, own_number, target, steps in list(found)[:REPORTS_MAX]:
        future: asyncio.Future[list[WaitStep]] = loop.create_future()

        def resolve(
            answer: list[WaitStep],
            at: float,
            future: asyncio.Future[list[WaitStep]] = future,
        ) -> None:
            if not future.done():
                future.set_result(answer)

        engine.watch.questions.complete(steps, resolve, now)
        pending.append((origin, own_number, target, future))
    runtime.run_timers()
    return [
        WaitReport(
            source=origin, number=own_number, target=target, steps=tuple(await future)
        )
        for origin, own_number, target, future in pending
    ]


Wait = tuple[str, int, str, Found]
"""Source, number and target of a message, and the steps that the node itself knows."""


def _named(
    engine: Engine, now: float, source: str | None, number: int | None
) -> Iterator[Wait]:
    """Yield the messages to report."""
    if number is None:
        for origin, oldest in _oldest(engine):
            if source in (None, origin):
                yield from _one(engine, now, origin, oldest)
    else:
        yield from _one(engine, now, source or engine.name, number)


def _oldest(engine: Engine) -> list[tuple[str, int]]:
    """Return source and number of the oldest messages of each stage and peer, once."""
    pending = engine.process.pending
    if pending is None:
        return [(engine.name, 0)] if engine.backlog else []
    found = {
        (engine.name_of(source), number): None
        for _, _, source, number in pending.oldest_messages()
    }
    return list(found)


def _one(engine: Engine, now: float, source: str, number: int) -> Iterator[Wait]:
    """Yield the copies of one message that wait at this node or for this node."""
    analysis = engine.watch.analysis
    if source == engine.name:
        for session in engine.sessions.values():
            found = analysis.copy(session, number, now)
            if found[0]:
                yield source, number, session.name, found
        return
    session_of_source = engine.sessions.get(source)
    recovery = engine.process.recovery
    pending = engine.process.pending
    if session_of_source is None or recovery is None or pending is None:
        return
    id = session_of_source.id  # noqa: A001 (the word for it)
    for peer, missing, _ in pending.missing_permits(1 << 30):
        if peer == id and missing == number:
            yield source, number, engine.name, analysis.permit(id, number, now)
            return
    found = analysis.held(session_of_source, number)
    if found[0]:
        yield source, number, engine.name, found
    elif number > recovery.channel_numbers(id)[2]:
        yield source, number, engine.name, ([], (session_of_source, ASKS_FROM, number))
