"""The columns that the verification of a table needs, and how to find them.

A table has rows of one kind: events, messages, spans, or events with vector clocks. A
column is found by the name that the caller gives, by our name, or by a usual name in upper
or lower case. Its type is checked before any job starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from antecede.errors import ConfigError
from antecede.ingest.formats.messages import MESSAGE_COLUMNS
from antecede.ingest.formats.span_csv import SPAN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["NOT_VERIFIED", "ROW_KINDS", "RowKind", "Rows", "select_columns"]

Rows = Literal["events", "messages", "spans", "clocks"]

INTEGERS = ("byte", "short", "integer", "long")
NUMBERS = (*INTEGERS, "float", "double", "decimal")
TEXT = ("string", "varchar", "char")
TIMES = (*NUMBERS, "timestamp", "timestamp_ntz")
TYPES = {
    "integer": INTEGERS,
    "process": (*INTEGERS, *TEXT),
    "processes": ("array",),
    "text": TEXT,
    "name": (*INTEGERS, *TEXT),
    "time": TIMES,
    "time or text": (*TIMES, *TEXT),
    "number": NUMBERS,
    "boolean": ("boolean",),
    "map of integers": ("map",),
}
"""By the phrase for a type, the types of Spark that it includes."""
PHRASES = {
    "integer": "an integer",
    "process": "an integer or a string",
    "processes": "an array of integers or strings",
    "text": "a string",
    "name": "a string or an integer",
    "time": "a number of seconds or a timestamp",
    "time or text": "a timestamp, a number or a string",
    "number": "a number",
    "boolean": "a boolean",
    "map of integers": "a map from strings to integers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """A kind of rows, and its columns."""

    name: Rows
    columns: Mapping[str, tuple[str, tuple[str, ...]]]
    """By our name: the type, and the usual names in lower case."""
    required: tuple[tuple[str, ...], ...]
    """The columns that must be found; of alternatives, at least one."""


def _simple(types: Mapping[str, str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (phrase, (name,)) for name, phrase in types.items()}


def _usual(
    names: Mapping[str, tuple[str, ...]], types: Mapping[str, str]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (types.get(name, "name"), usual) for name, usual in names.items()}


NOT_VERIFIED = ("target", "payload_bytes", "metadata_bytes")
"""Columns of events that the verification does not need."""
LOCATION = _simple({"file": "text", "line": "integer", "problem": "text"})
"""The columns that our data sources add."""
ROW_KINDS = (
    RowKind(
        name="events",
        columns=_simple(
            {
                "run": "name",
                "process": "process",
                "seq": "integer",
                "step": "integer",
                "time": "time",
                "kind": "text",
                "source": "process",
                "number": "integer",
                "targets": "processes",
                "target": "process",
                "payload_bytes": "integer",
                "metadata_bytes": "integer",
            }
        ),
        required=(("process",), ("kind",), ("source",), ("number",), ("seq", "step")),
    ),
    RowKind(
        name="spans",
        columns={
            "run": ("name", ("run",)),
            **_usual(
                SPAN_COLUMNS,
                {"start": "time or text", "end": "time or text", "duration": "number"},
            ),
            **_simple({"start_ns": "integer", "end_ns": "integer", "shared": "boolean"}),
            **LOCATION,
        },
        required=(
            ("trace",), ("span",), ("parent",), ("process",), ("start", "start_ns"),
            ("end", "duration", "end_ns"),
        ),
    ),
    RowKind(
        name="clocks",
        columns=_simple(
            {
                "run": "name",
                "process": "name",
                "clock": "map of integers",
                "text": "text",
                "time_ns": "integer",
                "token": "name",
                "is_receive": "boolean",
            }
        )
        | LOCATION,
        required=(("process",), ("clock",)),
    ),
    RowKind(
        name="messages",
        columns={
            "run": ("name", ("run",)),
            **_usual(
                MESSAGE_COLUMNS, {"sent": "time or text", "received": "time or text"}
            ),
            **_simple({"sent_ns": "integer", "received_ns": "integer"}),
            **LOCATION,
        },
        required=(
            ("source",), ("target",), ("sent", "sent_ns"), ("received", "received_ns"),
        ),
    ),
)  # fmt: skip
"""All kinds of rows, in the order in which a table is compared with them."""


def select_columns(
    df: "DataFrame",
    columns: "Mapping[str, str | Column]",
    rows: Rows | None,
) -> "tuple[Rows, DataFrame]":
    """Return the kind of the rows, and the needed columns under our names.

    Args:
        df: The caller's table.
        columns: By our name, the name of a column of the table, or an expression.
        rows: The kind of the rows; None to find it out from the columns.

    Raises:
        ConfigError: A column is missing, unknown, ambiguous, or has a wrong type.
    """
    header = df.columns
    for ours, theirs in columns.items():
        if isinstance(theirs, str) and theirs not in header:
            raise ConfigError(
                f"columns: {ours!r} is mapped to {theirs!r}, which the table does not have;"
                f" it has {', '.join(header)}"
            )
    kind, found = _find(header, columns, rows)
    for name in found.values():
        if isinstance(name, str) and header.count(name) > 1:
            raise ConfigError(f"the table has several columns {name!r}: rename all but one")
    # Of alternatives such as start and start_ns, the first is enough.
    for names in kind.required:
        for name in [name for name in names if name in found][1:]:
            if kind.name != "events":
                del found[name]
    quoted = {
        ours: df[f"`{name.replace('`', '``')}`"] if isinstance(name, str) else name
        for ours, name in found.items()
    }
    selected = df.select(*(column.alias(ours) for ours, column in quoted.items()))
    for field in selected.schema.fields:
        _check_type(kind, field.name, field.dataType)
    return kind.name, selected


def _find(
    header: Sequence[str], columns: "Mapping[str, str | Column]", rows: Rows | None
) -> "tuple[RowKind, dict[str, str | Column]]":
    """Return the kind of the rows, and the column of each of our names that is found."""
    kinds = [kind for kind in ROW_KINDS if rows is None or kind.name == rows]
    if not kinds:
        names = ", ".join(kind.name for kind in ROW_KINDS)
        raise ConfigError(f"rows must be one of {names}, got {rows!r}")
    fitting = [kind for kind in kinds if set(columns) <= set(kind.columns)]
    if not fitting:
        _reject_names(columns, kinds)
    found = [(kind, _match(header, kind, columns)) for kind in fitting]
    missing = [
        [names for names in kind.required if not set(names) & set(matched)]
        for kind, matched in found
    ]
    shares = [len(missing[i]) / len(kind.required) for i, kind in enumerate(fitting)]
    best = shares.index(min(shares))
    if not missing[best]:
        return found[best]
    kind = found[best][0]
    if rows is None and shares[best] >= 0.5:
        needs = "; ".join(
            f"{each.name} need {', '.join(' or '.join(n) for n in each.required)}"
            for each in fitting
        )
        raise ConfigError(
            f"the table has neither events nor messages nor spans: {needs}; name your"
            f" columns with columns={{'OURS': 'YOURS'}}; the table has {', '.join(header)}"
        )
    name = " or ".join(repr(name) for name in missing[best][0])
    raise ConfigError(
        f"the table has no column {name}, which {kind.name} need: name yours with"
        f" columns={{{missing[best][0][0]!r}: 'NAME'}}; the table has {', '.join(header)}"
    )


def _match(
    header: Sequence[str], kind: RowKind, columns: "Mapping[str, str | Column]"
) -> "dict[str, str | Column]":
    found: dict[str, str | Column] = dict(columns)
    lower = {name.lower(): name for name in reversed(header)}
    for ours, (_, usual) in kind.columns.items():
        if ours in found:
            continue
        name = ours if ours in header else next((lower[n] for n in usual if n in lower), "")
        if name:
            found[ours] = name
    return found


def _reject_names(columns: "Mapping[str, object]", kinds: Sequence[RowKind]) -> None:
    known = {name for kind in kinds for name in kind.columns}
    wrong = next((name for name in columns if name not in known), None)
    names = "; ".join(f"{kind.name} have {', '.join(kind.columns)}" for kind in kinds)
    if wrong is None:
        given = ", ".join(map(repr, columns))
        raise ConfigError(f"columns: no kind of rows has all of {given}: {names}")
    raise ConfigError(f"columns: {wrong!r} is not one of our columns: {names}")


def _check_type(kind: RowKind, name: str, found: "DataType") -> None:
    wanted = kind.columns[name][0]
    is_valid = _type_name(found) in TYPES[wanted]
    if is_valid and wanted == "processes":
        is_valid = _type_name(found.elementType) in TYPES["process"]  # type: ignore[attr-defined]
    if is_valid and wanted == "map of integers":
        is_valid = _type_name(found.valueType) in INTEGERS  # type: ignore[attr-defined]
    if not is_valid:
        raise ConfigError(
            f"column {name!r} of {kind.name} has type {found.simpleString()}, expected"
            f" {PHRASES[wanted]}: cast it, or map another column with"
            f" columns={{{name!r}: ...}}"
        )


def _type_name(found: "DataType") -> str:
    return found.typeName().partition("(")[0]
