"""The entries of ``bounded`` in a journal, as statements of SQL."""

from collections.abc import Sequence
from typing import Any

from antecede.engine.journal import WILDCARD, NamedEntry
from antecede.engine.process_names import Identity
from antecede.net.database import Database

__all__ = ["add_entry", "change_wildcard", "delete_entry", "read_entries", "read_wildcards"]


def read_entries(database: Database) -> list[NamedEntry]:
    """Return the entries that are not settled, in the order of their deliveries."""
    return _read(database, "SELECT * FROM entries ORDER BY seq")


def read_wildcards(database: Database) -> list[NamedEntry]:
    """Return the wildcards on messages of the node that are not cleared."""
    columns = "seq, '0:0', target, number, peer, peer_history"
    return _read(database, f"SELECT {columns} FROM wildcards ORDER BY seq")


def _read(database: Database, query: str) -> list[NamedEntry]:
    return [
        NamedEntry(seq, _identity(source), int(target, 16), number, (name, history))
        for seq, source, target, number, name, history in database.execute(query)
    ]


def add_entry(
    seq: int, source: Identity, target: int, number: int, reporter: tuple[str, int]
) -> tuple[str, Sequence[Any]]:
    """Return the statement that adds an entry, or a wildcard of a delivered message."""
    row = (seq, _key(source), f"{target:x}", number, *reporter)
    return "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", row


def delete_entry(
    source: Identity, target: int, number: int, reporter: tuple[str, int]
) -> tuple[str, Sequence[Any]]:
    """Return the statement that deletes an entry, or a wildcard of a delivered message."""
    statement = "DELETE FROM entries WHERE source = ? AND target = ? AND number = ?"
    values = (_key(source), f"{target:x}", number)
    if source != WILDCARD:
        return statement, values
    # Messages of several peers may have the same number.
    return f"{statement} AND reporter = ? AND reporter_history = ?", (*values, *reporter)


def change_wildcard(
    is_added: bool, target: int, number: int, peer: tuple[str, int]
) -> tuple[str, Sequence[Any]]:
    """Return the statement that adds or deletes a wildcard on a message to a peer."""
    name, history = peer
    if not is_added:
        # The wildcards of one message for one target are cleared at the same time, so all
        # may be deleted if the peer was forgotten.
        return (
            "DELETE FROM wildcards WHERE target = ? AND number = ? AND ? IN (peer, '')",
            (f"{target:x}", number, name),
        )
    return (
        "REPLACE INTO wildcards SELECT seq, ?, ?, ?, ? FROM outbox"
        " WHERE target = ? AND number = ?",
        (f"{target:x}", number, name, history, name, number),
    )


def _key(source: Identity) -> str:
    name_hash, history = source
    return f"{name_hash:x}:{history:x}"


def _identity(key: str) -> Identity:
    name_hash, history = key.split(":")
    return int(name_hash, 16), int(history, 16)
