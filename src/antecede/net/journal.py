"""The journal: the durable state of a node, in an SQLite file.

The journal holds the copies that are not acked, the delivered messages that the
application has not processed or whose permit is missing, and the counters of each peer.
The engine records every event and commits before it transmits: a message is in the file
before it is transmitted, and before it is acked. A node that is killed at any moment
therefore continues the same history after its restart; to its peers it was only slow.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from antecede.engine.fragmentation import FIRST, LAST, MIDDLE
from antecede.engine.journal import SavedCopy, SavedDelivery, SavedPeer
from antecede.engine.peer_session import PeerSession
from antecede.errors import StorageError

__all__ = ["Journal"]

APPLICATION_ID: Final = 0x616E7465
"""SQLite's ``application_id`` of a journal."""
FORMAT_VERSION: Final = 2
"""SQLite's ``user_version`` of the tables below; other versions are not read."""
LOCK_TIMEOUT_S: Final = 1.0
"""Time to wait for another process that is closing the file."""
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, target TEXT NOT NULL,
    predecessor INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX outbox_target ON outbox (target, number);
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY, source TEXT NOT NULL, history INTEGER NOT NULL,
    number INTEGER NOT NULL, message_number INTEGER, processed INTEGER NOT NULL,
    payload BLOB NOT NULL);
CREATE INDEX inbox_source ON inbox (source, history, number);
CREATE INDEX inbox_message ON inbox (source, history, message_number);
CREATE TABLE peers (
    name TEXT PRIMARY KEY, history INTEGER NOT NULL, epoch_in INTEGER NOT NULL,
    epoch_out INTEGER NOT NULL, sent INTEGER NOT NULL, acked INTEGER NOT NULL,
    delivered INTEGER NOT NULL, permitted INTEGER NOT NULL) WITHOUT ROWID;
"""
# inbox.number is the number of a fragment; message_number is that of the last fragment of
# its message, and NULL until the last fragment is delivered.


class Journal:
    """The journal of one node.

    Args:
        path: the file; created if it does not exist.
        name: the name of the node, which the file stores.
        sync: wait for the disk at each commit. Without it, a killed process loses nothing,
            but a machine that loses power may lose the last commits.
    """

    def __init__(self, path: Path, name: str, *, sync: bool = True) -> None:
        """Open or create the file; raise StorageError if it is not this node's journal."""
        self._path = path
        self._name = name
        self._in_transaction = False
        self._failure = ""
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=LOCK_TIMEOUT_S)
        except sqlite3.Error as error:
            raise self._open_error(str(error)) from None
        try:
            self._open(name, sync)
        except BaseException as error:
            self._db.close()
            if not isinstance(error, sqlite3.Error):
                raise
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise self._open_error(
                    "a running node uses it", "stop that node, or give another file"
                ) from None
            raise self._open_error(str(error)) from None
        self._seq = 1 + max(
            self._number("SELECT max(seq) FROM outbox"),
            self._number("SELECT max(seq) FROM inbox"),
        )
        self._clock = self.clock
        self._last_sent = {peer.name: peer.sent for peer in self.peers()}
        for copy in self.copies():
            last = self._last_sent.get(copy.target, 0)
            self._last_sent[copy.target] = max(last, copy.number)

    def _open_error(self, reason: str, fix: str = "give another file") -> StorageError:
        return StorageError(f"cannot open the journal {self._path}: {reason}; {fix}")

    def _open(self, name: str, sync: bool) -> None:
        db = self._db
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        # Nothing is written before it is clear that the file is a journal, or empty.
        is_new = self._number("SELECT count(*) FROM sqlite_master") == 0
        if not is_new and self._number("PRAGMA application_id") != APPLICATION_ID:
            raise self._open_error("it is an SQLite database, but not a journal")
        version = self._number("PRAGMA user_version")
        if not is_new and version != FORMAT_VERSION:
            raise self._open_error(
                f"it has format version {version}, and this version of antecede reads only"
                f" version {FORMAT_VERSION}",
                "use the version of antecede that wrote it, or give another file",
            )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        if is_new:
            history = secrets.randbits(62) | 1
            db.execute("BEGIN EXCLUSIVE")
            for statement in TABLES.split(";"):
                db.execute(statement)
            values = [("name", name), ("history", history), ("clock", 0)]
            db.executemany("INSERT INTO meta VALUES (?, ?)", values)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={FORMAT_VERSION}")
            db.execute("COMMIT")
        owner = self._meta("name")
        if owner != name:
            raise self._open_error(f"it belongs to the node {owner}, not to {name}")
        db.execute("BEGIN EXCLUSIVE")  # Fails if another process has the file open.
        db.execute("COMMIT")

    # Saved state.

    @property
    def history(self) -> int:
        """The history of the node that the file continues."""
        return int(str(self._meta("history")))

    @property
    def clock(self) -> int:
        """The number of the last message sent."""
        return int(str(self._meta("clock")))

    def peers(self) -> list[SavedPeer]:
        """Return the counters of each peer."""
        rows = self._db.execute(
            "SELECT name, history, epoch_in, epoch_out, sent, acked, delivered, permitted"
            " FROM peers"
        )
        return [SavedPeer(*row) for row in rows]

    def copies(self) -> list[SavedCopy]:
        """Return the copies that are not acked, in the order in which they were sent."""
        rows = self._db.execute(
            "SELECT seq, number, target, predecessor, payload FROM outbox ORDER BY seq"
        )
        return [SavedCopy(*row) for row in rows]

    def deliveries(self) -> list[SavedDelivery]:
        """Return, in order, deliveries that are not processed or have no permit."""
        rows = self._db.execute(
            "SELECT seq, source, history, number, processed, payload"
            " FROM inbox ORDER BY seq"
        )
        return [SavedDelivery(a, b, c, d, bool(e), f) for a, b, c, d, e, f in rows]

    # Events.

    def record_sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Record a message before it is transmitted."""
        self._begin()
        self._clock = number
        rows = []
        for target in dict.fromkeys(targets):
            if target == self._name:
                continue
            predecessor = self._last_sent.get(target, 0)
            rows.append((self._next_seq(), number, target, predecessor, payload))
            self._last_sent[target] = number
        for row in rows:
            self._write("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", row)

    def record_delivered(
        self, source: str, history: int, number: int, payload: bytes
    ) -> None:
        """Record a delivery before it is acked."""
        self._begin()
        kind = payload[0] if payload else -1
        message_number = None if kind in (FIRST, MIDDLE) else number
        if kind == FIRST:  # The source has abandoned a message that is incomplete here.
            self._write(
                "UPDATE inbox SET processed = 1"
                " WHERE source = ? AND history = ? AND message_number IS NULL",
                (source, history),
            )
        row = (self._next_seq(), source, history, number, message_number, payload)
        self._write("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, 0, ?)", row)
        if kind == LAST:
            self._write(
                "UPDATE inbox SET message_number = ? WHERE source = ? AND history = ?"
                " AND message_number IS NULL AND NOT processed",
                (number, source, history),
            )

    def record_peer(self, session: PeerSession, numbers: tuple[int, int, int, int]) -> None:
        """Record the counters of a peer: sent, acked, delivered, permitted."""
        self._begin()
        name, history = session.name, session.history
        _, acked, _, permitted = numbers
        row = (name, history, session.epoch_in, session.epoch_out, *numbers)
        self._write("REPLACE INTO peers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._write("DELETE FROM outbox WHERE target = ? AND number <= ?", (name, acked))
        self._write(
            "DELETE FROM inbox"
            " WHERE source = ? AND history = ? AND number <= ? AND processed",
            (name, history, permitted),
        )

    def discard_copies(self, target: str) -> None:
        """Delete the copies for a removed peer; the next one has no predecessor."""
        self._begin()
        self._last_sent[target] = 0
        self._write("DELETE FROM outbox WHERE target = ?", (target,))

    def mark_processed(self, source: str, history: int, number: int) -> None:
        """Record that a message must not be redelivered after a restart."""
        self._begin()
        key = (source, history, number)
        self._write(
            "UPDATE inbox SET processed = 1"
            " WHERE source = ? AND history = ? AND message_number = ?",
            key,
        )
        if source == self._name:  # A message to the node itself needs no permit.
            self._write(
                "DELETE FROM inbox WHERE source = ? AND history = ? AND message_number = ?",
                key,
            )

    def commit(self) -> None:
        """Make the recorded events durable."""
        if self._in_transaction:
            self._write("UPDATE meta SET value = ? WHERE key = 'clock'", (self._clock,))
            self._write("COMMIT")
            self._in_transaction = False

    def close(self) -> None:
        """Commit, unless a write has failed, and close the file."""
        try:
            if not self._failure:
                self.commit()
        finally:
            self._db.close()

    def _begin(self) -> None:
        if not self._in_transaction:
            self._write("BEGIN")
            self._in_transaction = True

    def _write(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute a statement; raise StorageError if it, or an earlier one, has failed.

        The events since the last commit are lost then, so no later commit is allowed.
        """
        try:
            if not self._failure:
                self._db.execute(statement, values)
        except sqlite3.Error as error:
            self._failure = str(error)
        if self._failure:
            raise StorageError(
                f"cannot write the journal {self._path}: {self._failure};"
                " free disk space, and restart the node"
            )

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _number(self, query: str) -> int:
        value = self._db.execute(query).fetchone()[0]
        return 0 if value is None else int(value)

    def _meta(self, key: str) -> object:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row is not None else ""
