"""Print the tables of docs/explanation/model-checking.md: ``python -m bench.verification``.

Every check runs in a process of its own, one after the other, so that memory is its own.
It exits with 1 if a verdict is not the one expected.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from tests.check.lockstep import Lockstep, inspect_rules
from tests.check.variants import LISTINGS, SECRET_MODE

import antecede
from antecede.check import CheckConfig, check
from antecede.core.process import Process, ProcessId

HELD = "held"
NOT_EXHAUSTED = "not exhausted"
HYBRIDS = ("hybrid", "hybrid-basic")
UNICAST = ("buffer", "buffer-fifo", "cykas", "matrix", "optimal", "tree", *HYBRIDS)
LONG_STATES_MAX = 1_000_000
LONG_MEMORY_MAX_GIB = 10.0


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row of a table."""

    table: str
    config: CheckConfig
    expected: str = HELD
    subject: str = ""
    """What is checked, if it is not a protocol of the registry."""
    make: Callable[[int], Process] | None = None
    inspect: Callable[[Process], None] | None = None
    long: bool = False

    @property
    def command(self) -> str:
        """How to run it alone, or what it is."""
        if self.subject:
            return f"{self.subject}, {self._size()}"
        words = ["antecede", "check", "--protocol", self.config.protocol]
        default = CheckConfig(protocol=self.config.protocol)
        for flag, name in FLAGS.items():
            value = getattr(self.config, name)
            if value != getattr(default, name):
                words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
        words += ["--multicast"] * self.config.multicast
        words += ["--symmetry", "off"] * (not self.config.symmetry)
        return f"`{shlex.join(words)}`"

    def _size(self) -> str:
        cast = " multicast" if self.config.multicast else ""
        return f"{self.config.processes} by {self.config.messages}{cast}"


FLAGS = {
    "--processes": "processes",
    "--messages": "messages",
    "--max-losses": "losses",
    "--max-duplicates": "duplicates",
    "--max-removals": "removals",
    "--max-stops": "stops",
    "--max-states": "states_max",
    "--max-memory": "memory_max_gib",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of a check."""

    states: int
    transitions: int
    depth: int
    local_states: int
    seconds: float
    verdict: str
    compiled: bool = field(default_factory=lambda: antecede.compiled)


def lockstep(name: str) -> Callable[[int], Process]:
    """Return what makes a process of ``name`` with the naive rule beside it."""
    return lambda place: Lockstep(ProcessId(place), name)


def checks() -> list[Check]:
    """List every check, the quick ones first."""
    found = [
        Check(table="3 processes, 2 messages each", config=CheckConfig(protocol=name))
        for name in UNICAST
    ]
    found += _faults() + _multicast() + _removal() + _broken() + _rules() + _long()
    return found


def _faults() -> list[Check]:
    table = "One loss and one duplication"
    bounds = [
        CheckConfig(protocol=name, losses=1, duplicates=1, processes=n, messages=m)
        for name in HYBRIDS
        for n, m in ((3, 1), (2, 2))
    ]
    bounds += [CheckConfig(protocol="buffer", messages=1, losses=1, duplicates=1)]
    return [Check(table=table, config=config) for config in bounds]


def _multicast() -> list[Check]:
    table = "Multicast and unicast, mixed: 3 processes, 1 message each to any set"
    return [
        Check(
            table=table,
            config=CheckConfig(
                protocol=name, messages=1, multicast=True, symmetry=symmetry
            ),
        )
        for name in ("hybrid", "hybrid-basic", "optimal", "matrix")
        for symmetry in (True, False)
    ]


def _removal() -> list[Check]:
    table = "Processes let go of each other, or stop"
    found: list[Check] = []
    for name in HYBRIDS:
        bounds = [
            CheckConfig(protocol=name, messages=1, removals=2),
            CheckConfig(protocol=name, messages=1, removals=1, stops=1),
            CheckConfig(protocol=name, messages=1, removals=1, losses=1),
            CheckConfig(protocol=name, messages=1, stops=1, losses=1),
            CheckConfig(protocol=name, processes=2, removals=1, losses=1),
            CheckConfig(protocol=name, messages=1, multicast=True, removals=1),
        ]
        found += [Check(table=table, config=config) for config in bounds]
        for subject, config in (
            (
                f"`{name}`, what was abandoned may come late",
                CheckConfig(protocol=name, removals=1, lease=False),
            ),
            (
                f"`{name}`, who stopped is waived before its lease is over",
                CheckConfig(protocol=name, stops=1, lease=False),
            ),
            (
                f"`{name}`, the permits of one that lives are waived",
                CheckConfig(protocol=name, stops=1, false_suspicion=True),
            ),
        ):
            found.append(
                Check(table=table, config=config, expected="causal", subject=subject)
            )
        found.append(
            Check(table=table, config=CheckConfig(protocol=name, removals=1), long=True)
        )
        if name == "hybrid":
            found.append(
                Check(table=table, config=CheckConfig(protocol=name, stops=1), long=True)
            )
    return found


def _broken() -> list[Check]:
    table = "Counterexamples"
    found = [
        Check(table=table, config=CheckConfig(protocol=name), expected=expected)
        for name, expected in (("fifo", "causal"), ("unordered", "fifo"))
    ]
    found += [
        Check(
            table=table,
            config=CheckConfig(protocol="cykas", messages=messages),
            expected="causal",
            subject="Cykas with sends in secret mode (its §2.3)",
            make=SECRET_MODE,
        )
        for messages in (2, 3)
    ]
    found += [
        Check(
            table=table,
            config=CheckConfig(protocol="hybrid"),
            expected="fifo" if "printed" in name else "liveness",
            subject=name,
            make=make,
        )
        for name, make in LISTINGS.items()
    ]
    return found


def _rules() -> list[Check]:
    table = "In step with the naive rule, in every state"
    rules = {"hybrid": "SPS", "hybrid-basic": "CSPS"}
    sizes = (
        ("hybrid", 3, 1, True, False),
        ("hybrid-basic", 3, 1, True, False),
        ("hybrid", 2, 3, False, False),
        ("hybrid-basic", 2, 3, False, True),
        ("hybrid", 3, 2, False, True),
    )
    return [
        Check(
            table=table,
            config=CheckConfig(
                protocol=name, processes=processes, messages=messages, multicast=multicast
            ),
            subject=f"`{name}` beside {rules[name]}",
            make=lockstep(name),
            inspect=inspect_rules,
            long=long,
        )
        for name, processes, messages, multicast, long in sizes
    ]


def _long() -> list[Check]:
    table = "3 processes, 3 messages each"
    found = [
        Check(table=table, config=CheckConfig(protocol=name, messages=3), long=True)
        for name in ("buffer", "buffer-fifo", "cykas", "matrix")
    ]
    found += [_part_of(table, name, messages=3) for name in ("optimal", *HYBRIDS)]
    table = "3 processes, 2 messages each, one loss and one duplication"
    return found + [_part_of(table, name, faults=1) for name in HYBRIDS]


def _part_of(table: str, name: str, *, messages: int = 2, faults: int = 0) -> Check:
    """Make a check that is too large to come to an end."""
    config = CheckConfig(
        protocol=name,
        messages=messages,
        losses=faults,
        duplicates=faults,
        states_max=LONG_STATES_MAX,
        memory_max_gib=LONG_MEMORY_MAX_GIB,
    )
    return Check(table=table, config=config, expected=NOT_EXHAUSTED, long=True)


def run(item: Check) -> Row:
    """Carry out a check."""
    checked = check(item.config, make=item.make, inspect=item.inspect)
    verdict = HELD if checked.exhausted else NOT_EXHAUSTED
    if checked.violation is not None:
        verdict = checked.violation.property
    return Row(
        states=checked.states,
        transitions=checked.transitions,
        depth=checked.depth if checked.violation is None else checked.violation.depth,
        local_states=checked.local_states,
        seconds=checked.seconds,
        verdict=verdict,
    )


def run_apart(index: int) -> Row:
    """Carry out a check in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.verification", "--only", str(index)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return Row(**json.loads(done.stdout))


def print_table(table: str, items: Sequence[tuple[int, Check]]) -> bool:
    """Print one table, and tell whether every verdict is as expected."""
    print(f"\n### {table}\n")
    print("| check | states | transitions | depth | local states | seconds | verdict |")
    print("|---|---:|---:|---:|---:|---:|---|", flush=True)
    good = True
    for index, item in items:
        row = run_apart(index)
        broken = row.verdict not in (HELD, NOT_EXHAUSTED)
        verdict = f"**{row.verdict}** broken" if broken else row.verdict
        if row.verdict != item.expected:
            good = False
            verdict += f", NOT as expected: {item.expected}"
        print(
            f"| {item.command} | {row.states:,} | {row.transitions:,} | {row.depth}"
            f" | {row.local_states:,} | {row.seconds:.1f} | {verdict} |",
            flush=True,
        )
    return good


def main() -> int:
    """Print the tables, and return 1 if a verdict is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the long ones alone")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    everything = checks()
    if options.only is not None:
        print(json.dumps(asdict(run(everything[options.only]))))
        return 0
    how = "compiled" if antecede.compiled else "interpreted"
    print(f"antecede {antecede.__version__}, {how}, Python {sys.version.split()[0]}")
    tables: dict[str, list[tuple[int, Check]]] = {}
    for index, item in enumerate(everything):
        if item.long == options.long:
            tables.setdefault(item.table, []).append((index, item))
    good = [print_table(table, items) for table, items in tables.items()]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
