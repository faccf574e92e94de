"""The journal: what a node must not forget, in an SQLite file.

A journal holds the copies that are not acked, the messages that the application has not
dealt with, the delivered ones whose permit is missing, and how far each pair has come. The
engine tells it everything and commits before it transmits anything that rests on it: a
message is in the file before it leaves, and before it is acked. So a node that is killed at
any moment comes back with the same life: to its peers it was only slow.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from antecede.engine.journal import SavedCopy, SavedDelivery, SavedPair
from antecede.engine.message import FIRST, LAST, PART
from antecede.engine.peer_session import Remote
from antecede.errors import ConfigError

__all__ = ["Journal"]

APPLICATION: Final = 0x616E7465
"""By which SQLite's files of ours are known."""
VERSION: Final = 1
"""Of the tables below; a newer file is refused."""
PATIENCE_S: Final = 1.0
"""How long to wait for one who is about to close the file."""
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, target TEXT NOT NULL,
    predecessor INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX outbox_target ON outbox (target, number);
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY, source TEXT NOT NULL, life INTEGER NOT NULL,
    number INTEGER NOT NULL, whole INTEGER, done INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX inbox_source ON inbox (source, life, number);
CREATE INDEX inbox_whole ON inbox (source, life, whole);
CREATE TABLE pairs (
    name TEXT PRIMARY KEY, life INTEGER NOT NULL, epoch_in INTEGER NOT NULL,
    epoch_out INTEGER NOT NULL, sent INTEGER NOT NULL, acked INTEGER NOT NULL,
    delivered INTEGER NOT NULL, permitted INTEGER NOT NULL) WITHOUT ROWID;
"""


class Journal:
    """The journal of one node.

    Args:
        path: the file; it is made if it is not there.
        name: the node's name, which is in the file.
        sync: wait for the disk at each commit. Without it nothing is lost when the
            process is killed, but the last moments may be when the machine is.
    """

    def __init__(self, path: Path, name: str, *, sync: bool = True) -> None:
        """Open or make the file; raise ConfigError if it is not this node's."""
        self._path = path
        self._name = name
        self._begun = False
        self._failure = ""
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_S)
        except sqlite3.Error as error:
            raise ConfigError(
                f"{path} cannot be the journal: {error}; give another file"
            ) from None
        try:
            self._open(name, sync)
        except BaseException as error:
            self._db.close()
            if not isinstance(error, sqlite3.Error):
                raise
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise ConfigError(
                    f"{path} is in use by a running node; stop that, or give another file"
                ) from None
            raise ConfigError(
                f"{path} cannot be the journal: {error}; give another file"
            ) from None
        self._seq = 1 + max(self._number("SELECT max(seq) FROM outbox"), self._inbox_seq())
        self._clock = self.clock
        self._last = {pair.name: pair.sent for pair in self.pairs()}
        for copy in self.copies():
            self._last[copy.target] = max(self._last.get(copy.target, 0), copy.number)

    def _open(self, name: str, sync: bool) -> None:
        db = self._db
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        # Nothing is written before it is clear that the file is a journal, or empty.
        is_new = self._number("SELECT count(*) FROM sqlite_master") == 0
        if not is_new and self._number("PRAGMA application_id") != APPLICATION:
            raise ConfigError(
                f"{self._path} is a database, but no journal of a node; give another file"
            )
        version = self._number("PRAGMA user_version")
        if version > VERSION:
            raise ConfigError(
                f"{self._path} is a journal of version {version}, newer than {VERSION};"
                " update antecede"
            )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        if is_new:
            life = secrets.randbits(62) | 1
            db.execute("BEGIN EXCLUSIVE")
            for statement in TABLES.split(";"):
                db.execute(statement)
            values = [("name", name), ("life", life), ("clock", 0)]
            db.executemany("INSERT INTO meta VALUES (?, ?)", values)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={VERSION}")
            db.execute("COMMIT")
        owner = self._meta("name")
        if owner != name:
            raise ConfigError(
                f"{self._path} is the journal of {owner}, not of {name}; give another file"
            )
        db.execute("BEGIN EXCLUSIVE")  # Nobody else may have it open.
        db.execute("COMMIT")

    # What was saved.

    @property
    def life(self) -> int:
        """Which history the file holds."""
        return int(str(self._meta("life")))

    @property
    def clock(self) -> int:
        """The number of the last message sent."""
        return int(str(self._meta("clock")))

    def pairs(self) -> list[SavedPair]:
        """Return how far each pair had come."""
        rows = self._db.execute(
            "SELECT name, life, epoch_in, epoch_out, sent, acked, delivered, permitted"
            " FROM pairs"
        )
        return [SavedPair(*row) for row in rows]

    def copies(self) -> list[SavedCopy]:
        """Return the copies that were not acked, in the order in which they were sent."""
        rows = self._db.execute(
            "SELECT seq, number, target, predecessor, payload FROM outbox ORDER BY seq"
        )
        return [SavedCopy(*row) for row in rows]

    def deliveries(self) -> list[SavedDelivery]:
        """Return what was delivered and is not done, or has no permit, in order."""
        rows = self._db.execute(
            "SELECT seq, source, life, number, done, payload FROM inbox ORDER BY seq"
        )
        return [SavedDelivery(a, b, c, d, bool(e), f) for a, b, c, d, e, f in rows]

    # What the engine tells.

    def sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Note a message before it is transmitted."""
        self._begin()
        self._clock = number
        rows = []
        for target in dict.fromkeys(targets):
            if target == self._name:
                continue
            last = self._last.get(target, 0)
            rows.append((self._next_seq(), number, target, last, payload))
            self._last[target] = number
        for row in rows:
            self._write("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", row)

    def delivered(self, source: str, life: int, number: int, payload: bytes) -> None:
        """Note a message before it is acked."""
        self._begin()
        kind = payload[0] if payload else -1
        whole = None if kind in (FIRST, PART) else number
        if kind == FIRST:  # What it finds half-done was given up, and is nobody's.
            self._write(
                "UPDATE inbox SET done = 1 WHERE source = ? AND life = ? AND whole IS NULL",
                (source, life),
            )
        row = (self._next_seq(), source, life, number, whole, payload)
        self._write("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, 0, ?)", row)
        if kind == LAST:
            self._write(
                "UPDATE inbox SET whole = ?"
                " WHERE source = ? AND life = ? AND whole IS NULL AND NOT done",
                (number, source, life),
            )

    def pair(self, remote: Remote, numbers: tuple[int, int, int, int]) -> None:
        """Note how far a pair has come: sent, acked, delivered, permitted."""
        self._begin()
        _, acked, _, permitted = numbers
        row = (remote.name, remote.life, remote.epoch_in, remote.epoch_out, *numbers)
        self._write("REPLACE INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._write(
            "DELETE FROM outbox WHERE target = ? AND number <= ?", (remote.name, acked)
        )
        self._write(
            "DELETE FROM inbox WHERE source = ? AND life = ? AND number <= ? AND done",
            (remote.name, remote.life, permitted),
        )

    def abandoned(self, target: str) -> None:
        """Forget the copies to a peer that was let go of; later ones begin anew."""
        self._begin()
        self._last[target] = 0
        self._write("DELETE FROM outbox WHERE target = ?", (target,))

    def done(self, source: str, life: int, number: int) -> None:
        """Note that a message need not be handed over again."""
        self._begin()
        key = (source, life, number)
        self._write(
            "UPDATE inbox SET done = 1 WHERE source = ? AND life = ? AND whole = ?", key
        )
        if source == self._name:  # Its own messages need no permit.
            self._write(
                "DELETE FROM inbox WHERE source = ? AND life = ? AND whole = ?", key
            )

    def commit(self) -> None:
        """Make all of it durable."""
        if self._begun:
            self._write("UPDATE meta SET value = ? WHERE key = 'clock'", (self._clock,))
            self._write("COMMIT")
            self._begun = False

    def close(self) -> None:
        """Commit, and give the file back; one that could not be written stays as it is."""
        try:
            if not self._failure:
                self.commit()
        finally:
            self._db.close()

    def _begin(self) -> None:
        if not self._begun:
            self._write("BEGIN")
            self._begun = True

    def _write(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute, unless that has failed before.

        What was told since the last commit is not kept then, so nothing may be committed
        ever after.
        """
        try:
            if not self._failure:
                self._db.execute(statement, values)
        except sqlite3.Error as error:
            self._failure = str(error)
        if self._failure:
            raise ConfigError(
                f"the journal {self._path} cannot be written: {self._failure};"
                " make room, and start the node again"
            )

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _inbox_seq(self) -> int:
        return self._number("SELECT max(seq) FROM inbox")

    def _number(self, query: str) -> int:
        value = self._db.execute(query).fetchone()[0]
        return 0 if value is None else int(value)

    def _meta(self, key: str) -> object:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row is not None else ""
