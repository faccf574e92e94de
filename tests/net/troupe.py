"""Members as processes: started, killed, started again; and what their logs say."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from antecede.net.udp import Address
from antecede.trace.event import Event, Kind
from antecede.verify.oracle import Verdict, judge
from tests.net.member import Options
from tests.net.running import until

ROOT = Path(__file__).parents[2]


class Player:
    """One member: the process of the moment, and the log of all of them."""

    def __init__(self, options: Options, prefix: Sequence[str] = ()) -> None:
        self.options = options
        self.log = Path(options.log)
        self.kills = 0
        self._prefix = prefix
        self._process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        return self.options.name

    async def start(self, peers: dict[str, Address] | None = None) -> Address:
        """Start, or start again, and return where it listens."""
        self.options = replace(self.options, peers=peers or {})
        self._process = await asyncio.create_subprocess_exec(
            *self._prefix,
            *self.options.arguments(),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        _, host, port = (await self._hear("listening")).split()
        return host, int(port)

    async def _hear(self, word: str) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        assert line.startswith(word), f"{self.name} said {line!r} instead of {word}"
        return line

    async def _say(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def meet(self, peers: str) -> None:
        await self._say(f"peers {peers}")

    async def be_quiet(self) -> None:
        """Send nothing more; return when everything has been delivered everywhere."""
        await self._say("quiet")
        await self._hear("flushed")

    async def finish(self) -> None:
        assert self._process is not None
        await self._say("finish")
        await self._hear("finished")
        assert await self._process.wait() == 0

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        self.kills += 1

    def lines(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    async def has_sent(self, count: int) -> None:
        """Wait until so many of its messages have been accepted."""
        await until(
            lambda: self.log.exists() and self.log.read_text().count("sent ") >= count
        )

    async def busy(self, lines: int) -> None:
        """Wait until it has done something more."""
        before = self.lines()
        await until(lambda: self.lines() >= before + lines)

    async def end(self) -> None:
        """End whatever is left of it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def close_all(players: Iterable[Player]) -> None:
    """Let everything be delivered, and end."""
    members = list(players)
    await asyncio.gather(*(player.be_quiet() for player in members))
    await asyncio.gather(*(player.finish() for player in members))


@dataclass(kw_only=True)
class Account:
    """What the logs of a run amount to."""

    verdict: Verdict | None
    accepted: int = 0
    handed_over: int = 0
    again: int = 0
    """How often a message was handed over again, which is right before it is done."""
    lost: list[str] = field(default_factory=list)
    after_done: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    """Numbers that stood for two messages, and messages under two numbers."""

    @property
    def right(self) -> bool:
        faults = self.lost or self.after_done or self.ambiguous
        return not faults and self.verdict is not None and self.verdict.held


class Reckoner:
    """Reads the logs of all members and judges them."""

    def __init__(self, logs: dict[str, Path]) -> None:
        self.lines = {
            name: [line.split() for line in path.read_text().splitlines()]
            for name, path in logs.items()
        }
        self.ids = {name: place for place, name in enumerate(sorted(logs))}
        self.targets: dict[tuple[str, int], list[str]] = {}
        self.numbers: dict[tuple[str, int], int] = {}
        self.account = Account(verdict=None)

    def reckon(self) -> Account:
        places: dict[tuple[str, int], int] = {}
        accepted: set[tuple[str, int]] = set()
        for name, lines in self.lines.items():
            for word, *rest in lines:
                if word == "begin":
                    self.targets[name, int(rest[0])] = rest[1].split(",")
                elif word == "sent":
                    accepted.add((name, int(rest[0])))
                    self._pair(places, name, int(rest[1]), int(rest[0]))
        for lines in self.lines.values():
            for word, *rest in lines:
                if word == "got":
                    self._pair(places, rest[0], int(rest[1]), int(rest[2]))
        self.account.accepted = len(accepted)
        events = [event for name in self.lines for event in self._history(name)]
        # What a killed node had begun to send counts if anybody got it.
        self._find_lost(accepted | set(self.numbers))
        if not self.account.ambiguous:
            self.account.verdict = judge(events)
        return self.account

    def _pair(
        self, places: dict[tuple[str, int], int], name: str, number: int, place: int
    ) -> None:
        if (
            places.setdefault((name, number), place) != place
            or self.numbers.setdefault((name, place), number) != number
        ):
            self.account.ambiguous.append(f"{name}:{number} is {place}")

    def _history(self, name: str) -> list[Event]:
        """Return sends, and first hand-overs, of one member over all its lives."""
        who = self.ids[name]
        events: list[Event] = []
        got: set[tuple[str, int]] = set()
        done: set[tuple[str, int]] = set()
        for word, *rest in self.lines[name]:
            if word == "begin" and (name, int(rest[0])) in self.numbers:
                targets = self.targets[name, int(rest[0])]
                events.append(
                    Event(
                        process=who,
                        kind=Kind.SEND,
                        source=who,
                        number=self.numbers[name, int(rest[0])],
                        targets=tuple(self.ids[target] for target in targets),
                    )
                )
            elif word == "done":
                done.add((rest[0], int(rest[1])))
            elif word == "got":
                message = (rest[0], int(rest[1]))
                self.account.handed_over += 1
                if message in done:
                    self.account.after_done.append(f"{name} got {message} after done")
                elif message in got:
                    self.account.again += 1
                else:
                    got.add(message)
                    events.append(
                        Event(
                            process=who,
                            kind=Kind.DELIVER,
                            source=self.ids[message[0]],
                            number=message[1],
                            target=who,
                        )
                    )
        return events

    def _find_lost(self, messages: set[tuple[str, int]]) -> None:
        got = {
            (name, rest[0], int(rest[2]))
            for name, lines in self.lines.items()
            for word, *rest in lines
            if word == "got"
        }
        self.account.lost = [
            f"{source}'s message {place} never reached {target}"
            for source, place in sorted(messages)
            for target in self.targets[source, place]
            if (target, source, place) not in got
        ]


def reckon(players: Iterable[Player]) -> Account:
    """Judge a run by the logs of its members."""
    return Reckoner({player.name: player.log for player in players}).reckon()
