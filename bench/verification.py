"""Print the tables of docs/explanation/model-checking.md: ``python -m bench.verification``.

The checks run one after the other, each in a new process, so that no check uses memory of
an earlier one. The exit code is 1 if a verdict is not the expected one.
"""

import argparse
import json
import resource
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from tests.check.lockstep import Lockstep, inspect_rules
from tests.check.variants import LISTINGS, SECRET_MODE

import antecede
from antecede.check import CheckConfig, check
from antecede.core.config import DEFAULT_BUDGET_BYTES
from antecede.core.process import UNBOUNDED, Process, ProcessId
from bench.measure import run_for_json

HELD = "held"
NOT_EXHAUSTED = "not exhausted"
LIVENESS = "liveness"
ONE_ENTRY = 5
TWO_ENTRIES = 8
"""The budgets of ``bounded`` with room for one and for two entries."""
HYBRIDS = ("hybrid", "hybrid-basic")
UNICAST = ("buffer", "buffer-fifo", "cykas", "matrix", "optimal", "tree", *HYBRIDS)
LONG_STATES_MAX = 1_000_000
LARGE_STATES_MAX = 4_000_000
LONG_MEMORY_MAX_GIB = 10.0


@dataclass(frozen=True, kw_only=True)
class Check:
    """A search of the model checker, which is one row of a table."""

    table: str
    config: CheckConfig
    expected: str = HELD
    """HELD, NOT_EXHAUSTED or the property that the search finds violated."""
    subject: str = ""
    """A description, for a check that the command line cannot express."""
    make: Callable[[int], Process] | None = None
    """Makes the process of an index; by default, a process of the protocol."""
    inspect: Callable[[Process], None] | None = None
    """Called once with a process in every local state; raises if a rule is violated."""
    long: bool = False

    @property
    def title(self) -> str:
        """The title of its table; long checks have separate tables."""
        if self.long:
            return f"Long: {self.table[0].lower()}{self.table[1:]}"
        return self.table

    @property
    def label(self) -> str:
        """The first column of its row: the command, or the subject and the size."""
        if self.subject:
            return f"{self.subject}, {self._size()}"
        words = ["antecede", "check", "--protocol", self.config.protocol]
        default = CheckConfig(protocol=self.config.protocol)
        for flag, name in FLAGS.items():
            value = getattr(self.config, name)
            if value != getattr(default, name):
                is_unbounded = name == "budget_bytes" and value == UNBOUNDED
                number = f"{value:g}" if isinstance(value, float) else str(value)
                words += [flag, "inf" if is_unbounded else number]
        words += ["--multicast"] * self.config.multicast
        words += ["--symmetry", "off"] * (not self.config.symmetry)
        return f"`{shlex.join(words)}`"

    def _size(self) -> str:
        size = f"{self.config.processes} \N{MULTIPLICATION SIGN} {self.config.messages}"
        return f"{size} multicast" if self.config.multicast else size


FLAGS = {
    "--processes": "processes",
    "--messages": "messages",
    "--max-losses": "losses",
    "--max-duplicates": "duplicates",
    "--max-removals": "removals",
    "--max-stops": "stops",
    "--max-silences": "silences",
    "--max-returns": "returns",
    "--budget-bytes": "budget_bytes",
    "--max-states": "states_max",
    "--max-memory": "memory_max_gib",
}
"""The field of CheckConfig for each numeric option of ``antecede check``."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The result of a check: the other columns of its row."""

    states: int
    transitions: int
    depth: int
    local_states: int
    seconds: float
    peak_gib: float
    """The peak memory of the process, which runs only this check."""
    verdict: str


def lockstep(name: str) -> Callable[[int], Process]:
    """Return a factory of processes of a protocol in lockstep with the naive rule."""
    return lambda index: Lockstep(ProcessId(index), name)


def all_checks() -> list[Check]:
    """Return all checks in the order of the tables in the documentation."""
    checks = [
        Check(table="3 processes, 2 messages each", config=CheckConfig(protocol=name))
        for name in UNICAST
    ]
    checks += _faults() + _multicast() + _large() + _removal() + _silence()
    checks += _counterexamples()
    return checks + _lockstep()


def _faults() -> list[Check]:
    table = "One loss and one duplication"
    configs = [
        CheckConfig(protocol=name, losses=1, duplicates=1, processes=n, messages=m)
        for name in HYBRIDS
        for n, m in ((3, 1), (2, 2))
    ]
    configs += [CheckConfig(protocol="buffer", messages=1, losses=1, duplicates=1)]
    return [Check(table=table, config=config) for config in configs]


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
    table = "Removal of a peer, and processes that stop"
    checks: list[Check] = []
    for name in HYBRIDS:
        configs = [
            CheckConfig(protocol=name, messages=1, removals=2),
            CheckConfig(protocol=name, messages=1, removals=1, stops=1),
            CheckConfig(protocol=name, messages=1, removals=1, losses=1),
            CheckConfig(protocol=name, messages=1, stops=1, losses=1),
            CheckConfig(protocol=name, processes=2, removals=1, losses=1),
            CheckConfig(protocol=name, messages=1, multicast=True, removals=1),
        ]
        checks += [Check(table=table, config=config) for config in configs]
        for subject, config in (
            (
                f"`{name}`, an abandoned copy may arrive",
                CheckConfig(protocol=name, removals=1, lease=False),
            ),
            (
                f"`{name}`, permits of a stopped process are forgone before the end of"
                " its lease",
                CheckConfig(protocol=name, stops=1, lease=False),
            ),
            (
                f"`{name}`, permits of a running process are forgone",
                CheckConfig(protocol=name, stops=1, false_suspicion=True),
            ),
        ):
            checks.append(
                Check(table=table, config=config, expected="causal", subject=subject)
            )
        checks.append(
            Check(table=table, config=CheckConfig(protocol=name, removals=1), long=True)
        )
        if name == "hybrid":
            checks.append(
                Check(table=table, config=CheckConfig(protocol=name, stops=1), long=True)
            )
    return checks


def _silence() -> list[Check]:
    table = "Silent processes"
    two_by_two = CheckConfig(protocol="bounded", processes=2, silences=1)
    with_return = replace(two_by_two, returns=1)
    multicast = CheckConfig(protocol="bounded", messages=1, multicast=True, silences=1)
    checks = [
        Check(table=table, config=replace(config, protocol=name))
        for name in ("optimal", "matrix")
        for config in (multicast, CheckConfig(protocol=name, silences=1))
    ]
    checks += [
        Check(table=table, config=replace(multicast, protocol="hybrid"), expected=LIVENESS),
        Check(
            table=table,
            config=CheckConfig(protocol="hybrid", silences=1),
            expected=LIVENESS,
        ),
        Check(table=table, config=replace(with_return, protocol="hybrid")),
        Check(table=table, config=with_return),
        Check(table=table, config=replace(two_by_two, losses=1)),
    ]
    for budget in (0, ONE_ENTRY, TWO_ENTRIES, DEFAULT_BUDGET_BYTES, UNBOUNDED):
        expected = HELD if budget > 0 else LIVENESS
        checks += [
            Check(table=table, config=replace(two_by_two, budget_bytes=budget)),
            Check(
                table=table,
                config=replace(multicast, budget_bytes=budget),
                expected=expected,
            ),
        ]
        unicast = CheckConfig(protocol="bounded", budget_bytes=budget, silences=1)
        if expected == HELD:
            limited = replace(unicast, states_max=LONG_STATES_MAX)
            checks.append(
                Check(table=table, config=limited, expected=NOT_EXHAUSTED, long=True)
            )
        else:
            checks.append(Check(table=table, config=unicast, expected=LIVENESS))
    return checks


def _counterexamples() -> list[Check]:
    table = "Counterexamples"
    checks = [
        Check(table=table, config=CheckConfig(protocol=name), expected=expected)
        for name, expected in (("fifo", "causal"), ("unordered", "fifo"))
    ]
    checks += [
        Check(
            table=table,
            config=CheckConfig(protocol="cykas", messages=messages),
            expected="causal",
            subject="Cykas that sends in secret mode (§2.3)",
            make=SECRET_MODE,
        )
        for messages in (2, 3)
    ]
    checks += [
        Check(
            table=table,
            config=CheckConfig(protocol="hybrid"),
            expected="fifo" if "printed" in name else LIVENESS,
            subject=name,
            make=make,
        )
        for name, make in LISTINGS.items()
    ]
    return checks


def _lockstep() -> list[Check]:
    table = "Lockstep with the naive rule"
    rules = {"hybrid": "SPS", "hybrid-basic": "CSPS"}
    sizes = (
        ("hybrid", 3, 1, True, False),
        ("hybrid", 2, 3, False, False),
        ("hybrid-basic", 3, 1, True, False),
        ("hybrid-basic", 2, 3, False, True),
        ("hybrid", 3, 2, False, True),
    )
    return [
        Check(
            table=table,
            config=CheckConfig(
                protocol=name, processes=processes, messages=messages, multicast=multicast
            ),
            subject=f"`{name}` and the {rules[name]} rule",
            make=lockstep(name),
            inspect=inspect_rules,
            long=long,
        )
        for name, processes, messages, multicast, long in sizes
    ]


def _large() -> list[Check]:
    table = "3 processes, 3 messages each"
    checks = [
        Check(table=table, config=CheckConfig(protocol=name, messages=3), long=True)
        for name in ("buffer", "buffer-fifo", "cykas", "matrix")
    ]
    checks += [_limited(table, name) for name in ("optimal", *HYBRIDS)]
    table = "3 processes, 2 messages each, one loss and one duplication"
    faults = CheckConfig(protocol="hybrid", losses=1, duplicates=1)
    checks.append(Check(table=table, config=faults, long=True))
    limited = replace(faults, protocol="hybrid-basic", states_max=LARGE_STATES_MAX)
    return [*checks, Check(table=table, config=limited, expected=NOT_EXHAUSTED, long=True)]


def _limited(table: str, name: str) -> Check:
    """Return a check of 3 messages each that reaches its limit of states."""
    config = CheckConfig(
        protocol=name,
        messages=3,
        states_max=LARGE_STATES_MAX,
        memory_max_gib=LONG_MEMORY_MAX_GIB,
    )
    return Check(table=table, config=config, expected=NOT_EXHAUSTED, long=True)


def run(item: Check) -> Row:
    """Run a check, and return its result."""
    result = check(item.config, make=item.make, inspect=item.inspect)
    verdict = HELD if result.exhausted else NOT_EXHAUSTED
    if result.violation is not None:
        verdict = result.violation.property
    return Row(
        states=result.states,
        transitions=result.transitions,
        depth=result.depth if result.violation is None else result.violation.depth,
        local_states=result.local_states,
        seconds=result.seconds,
        peak_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),
        verdict=verdict,
    )


def print_table(title: str, items: Sequence[tuple[int, Check]]) -> bool:
    """Run the checks of a table and print it; return whether all verdicts are expected."""
    print(f"\n### {title}\n")
    has_memory = items[0][1].long
    columns = ["check", "states", "transitions", "depth", "local states", "seconds"]
    columns += ["GiB"] * has_memory
    print(f"| {' | '.join([*columns, 'verdict'])} |")
    print(f"|---{'|---:' * (len(columns) - 1)}|---|", flush=True)
    as_expected = True
    for index, item in items:
        row = Row(**run_for_json("bench.verification", "--only", str(index)))
        violated = row.verdict not in (HELD, NOT_EXHAUSTED)
        verdict = f"**{row.verdict}** violated" if violated else row.verdict
        if row.verdict != item.expected:
            as_expected = False
            verdict += f", EXPECTED: {item.expected}"
        print(
            f"| {item.label} | {row.states:,} | {row.transitions:,} | {row.depth}"
            f" | {row.local_states:,} | {row.seconds:.1f} |"
            f"{f' {row.peak_gib:.1f} |' * has_memory} {verdict} |",
            flush=True,
        )
    return as_expected


def main() -> int:
    """Print the tables, and return 1 if a verdict is not the expected one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long",
        action="store_true",
        help="print the tables of the long checks instead",
    )
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    checks = all_checks()
    if options.only is not None:
        print(json.dumps(asdict(run(checks[options.only]))))
        return 0
    build = "compiled" if antecede.compiled else "interpreted"
    print(f"antecede {antecede.__version__}, {build}, Python {sys.version.split()[0]}")
    tables: dict[str, list[tuple[int, Check]]] = {}
    for index, item in enumerate(checks):
        if item.long == options.long:
            tables.setdefault(item.title, []).append((index, item))
    as_expected = [print_table(title, items) for title, items in tables.items()]
    return 0 if all(as_expected) else 1


if __name__ == "__main__":
    sys.exit(main())
