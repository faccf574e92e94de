"""The journal: the durable state of a node, in an SQLite file.

The journal holds the copies that are not acked, the delivered messages that the
application has not processed or whose permit is missing, and the counters of each peer.
The engine records every event, and the node commits the records before it transmits: a
message is in the file before it is transmitted, and before it is acked. A node that is
killed at any moment therefore continues the same history after its restart; to its peers it
was only slow.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from antecede.engine.fragmentation import FIRST, LAST, MIDDLE
from antecede.engine.history_number import first_history
from antecede.engine.journal import (
    MET,
    SavedCopy,
    SavedDelivery,
    SavedPeer,
    SavedState,
)
from antecede.engine.peer_session import PeerSession, generation_of
from antecede.engine.process_names import Identity
from antecede.errors import StorageError
from antecede.net.database import Database, DatabaseError
from antecede.net.journal_entries import (
    add_entry,
    change_wildcard,
    delete_entry,
    read_entries,
    read_wildcards,
)
from antecede.net.journal_errors import journal_error, open_error
from antecede.net.journal_schema import APPLICATION_ID, FORMAT_VERSION, TABLES

__all__ = ["Journal", "Statement"]

Statement = tuple[str, Sequence[Any]]
"""A statement of SQL, and its values."""

BEGIN: Final[Statement] = ("BEGIN", ())
COMMIT: Final[Statement] = ("COMMIT", ())


class Journal:
    """The journal of one node.

    The methods ``record_...``, ``discard_copies`` and ``mark_processed`` keep statements in
    memory. :meth:`take_statements` returns them, and :meth:`write` executes them in one
    transaction; a thread may call it.

    Args:
        database: the open file; the journal closes it.
        path: the path of the file, for errors.
        name: the name of the node, which the file stores.
        random_bits: draws the history of a new journal.
        sync: wait for the disk at each commit. Without it, a killed process loses nothing,
            but a machine that loses power may lose the last commits.
    """

    def __init__(
        self,
        database: Database,
        path: Path,
        name: str,
        random_bits: Callable[[int], int],
        *,
        sync: bool = True,
    ) -> None:
        """Create the tables of a new file; raise StorageError if it is another's."""
        self._db = database
        self._path = path
        self._name = name
        self.sync: Final = sync
        self._statements: list[Statement] = []
        self._failure = ""
        try:
            self._open(name, random_bits, sync)
        except BaseException as error:
            self._db.close()
            if not isinstance(error, DatabaseError):
                raise
            raise journal_error(path, error) from None
        tables = ("outbox", "inbox", "entries", "wildcards")
        self._seq = 1 + max(self._number(f"SELECT max(seq) FROM {each}") for each in tables)
        self._clock = self.clock
        self._generation = int(str(self._meta("generation")))
        self._saved_clock = self._clock
        self.trace_position = self._saved_trace_position()
        """The incarnation that has committed last, and the number of events in its trace
        at that commit; set it before each commit of a node with a trace."""
        self._last_sent = {peer.name: peer.sent for peer in self.peers()}
        for copy in self.copies():
            last = self._last_sent.get(copy.target, 0)
            self._last_sent[copy.target] = max(last, copy.number)

    def _open(self, name: str, random_bits: Callable[[int], int], sync: bool) -> None:
        execute = self._db.execute
        execute("PRAGMA locking_mode=EXCLUSIVE")
        # Nothing is written before it is clear that the file is a journal, or empty.
        is_new = self._number("SELECT count(*) FROM sqlite_master") == 0
        if not is_new and self._number("PRAGMA application_id") != APPLICATION_ID:
            raise open_error(self._path, "it is an SQLite database, but not a journal")
        version = self._number("PRAGMA user_version")
        if not is_new and version != FORMAT_VERSION:
            raise open_error(
                self._path,
                f"it has format version {version}, and this version of antecede reads only"
                f" version {FORMAT_VERSION}",
                "use the version of antecede that wrote it, or give another file",
            )
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        if is_new:
            history = first_history(random_bits)
            numbers = ("clock", "generation", "forgotten_number")
            values = [("name", name), ("history", history), *((key, 0) for key in numbers)]
            execute("BEGIN EXCLUSIVE")
            for statement in TABLES.split(";"):
                execute(statement)
            for key, value in values:
                execute("INSERT INTO meta VALUES (?, ?)", (key, value))
            execute(f"PRAGMA application_id={APPLICATION_ID}")
            execute(f"PRAGMA user_version={FORMAT_VERSION}")
            execute("COMMIT")
        owner = self._meta("name")
        if owner != name:
            raise open_error(self._path, f"it belongs to the node {owner}, not to {name}")
        execute("BEGIN EXCLUSIVE")  # Fails if another process has the file open.
        execute("COMMIT")

    # Saved state.

    @property
    def history(self) -> int:
        """The history of the node that the file continues."""
        return int(str(self._meta("history")))

    def _saved_trace_position(self) -> tuple[int, int] | None:
        words = str(self._meta("trace")).split()
        return (int(words[0]), int(words[1])) if words else None

    @property
    def is_dirty(self) -> bool:
        """Whether :meth:`take_statements` returns any statement."""
        return bool(self._statements) or self._clock != self._saved_clock

    @property
    def clock(self) -> int:
        """The number of the last message sent."""
        return int(str(self._meta("clock")))

    def state(self) -> SavedState:
        """Return everything that the file holds about the node."""
        return SavedState(
            self.clock,
            int(str(self._meta("generation"))),
            int(str(self._meta("forgotten_number"))),
            self.peers(),
            self.copies(),
            self.deliveries(),
            read_entries(self._db),
            read_wildcards(self._db),
        )

    def peers(self) -> list[SavedPeer]:
        """Return the state and the counters of each peer."""
        rows = self._db.execute(
            "SELECT name, state, stopped, history, epoch_in, epoch_out, acked_base, sent,"
            " acked, delivered, permitted, number_before FROM peers"
        )
        return [SavedPeer(a, b, bool(c), *row) for a, b, c, *row in rows]

    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return the addresses of the peers, as the application gave them."""
        rows = self._db.execute("SELECT name, host, port FROM addresses")
        return {name: (host, port) for name, host, port in rows}

    def copies(self) -> list[SavedCopy]:
        """Return the copies that are not acked, in the order in which they were sent."""
        rows = self._db.execute(
            "SELECT seq, number, target, predecessor, payload FROM outbox ORDER BY seq"
        )
        return [SavedCopy(*row) for row in rows]

    def deliveries(self) -> list[SavedDelivery]:
        """Return, in order, deliveries that are not processed or have no permit."""
        rows = self._db.execute(
            "SELECT seq, source, history, number, processed, needs_permit, payload"
            " FROM inbox ORDER BY seq"
        )
        return [
            SavedDelivery(a, b, c, d, bool(e), bool(f), payload)
            for a, b, c, d, e, f, payload in rows
        ]

    # Events.

    def record_sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Record a message before it is transmitted."""
        self._clock = number
        rows = []
        for target in dict.fromkeys(targets):
            if target == self._name:
                continue
            predecessor = self._last_sent.get(target, 0)
            rows.append((self._next_seq(), number, target, predecessor, payload))
            self._last_sent[target] = number
        for row in rows:
            self._record("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", row)

    def record_delivered(
        self, source: str, history: int, number: int, payload: bytes, needs_permit: bool
    ) -> None:
        """Record a delivery before it is acked."""
        kind = payload[0] if payload else -1
        message_number = None if kind in (FIRST, MIDDLE) else number
        if kind == FIRST:  # The source has abandoned a message that is incomplete here.
            self._record(
                "UPDATE inbox SET processed = 1"
                " WHERE source = ? AND history = ? AND message_number IS NULL",
                (source, history),
            )
        row = (
            *(self._next_seq(), source, history, number, message_number),
            *(needs_permit, payload),
        )
        self._record("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, 0, ?, ?)", row)
        if kind == LAST:
            self._record(
                "UPDATE inbox SET message_number = ? WHERE source = ? AND history = ?"
                " AND message_number IS NULL AND NOT processed",
                (number, source, history),
            )

    def record_peer(self, session: PeerSession, numbers: tuple[int, int, int, int]) -> None:
        """Record the counters of a peer: sent, acked, delivered, permitted."""
        name, history = session.name, session.history
        _, acked, _, permitted = numbers
        number_before = MET if session.handshake.incarnation else session.number_before
        row = (
            *(name, session.saved_state, session.stopped, history),
            *(session.epoch_in, session.epoch_out, session.acked_base, *numbers),
            number_before,
        )
        self._record("REPLACE INTO peers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        generation = generation_of(session.epoch_out)
        if generation > self._generation:
            self._generation = generation
            self._record(
                "UPDATE meta SET value = ? WHERE key = 'generation'", (generation,)
            )
        self._record("DELETE FROM outbox WHERE target = ? AND number <= ?", (name, acked))
        self._record(
            "DELETE FROM inbox"
            " WHERE source = ? AND history = ? AND number <= ? AND processed",
            (name, history, permitted),
        )

    def record_entry(
        self, source: Identity, target: int, number: int, reporter: tuple[str, int]
    ) -> None:
        """Record an entry, or a wildcard, that a delivered message has brought."""
        self._record(*add_entry(self._next_seq(), source, target, number, reporter))

    def discard_entry(
        self, source: Identity, target: int, number: int, reporter: tuple[str, int]
    ) -> None:
        """Delete an entry, or a wildcard, that is settled."""
        self._record(*delete_entry(source, target, number, reporter))

    def record_wildcard(
        self, is_added: bool, target: int, number: int, peer: tuple[str, int]
    ) -> None:
        """Record a wildcard on a message to a peer, or delete it, because it is cleared."""
        self._record(*change_wildcard(is_added, target, number, peer))

    def record_address(self, name: str, address: tuple[str, int]) -> None:
        """Record the address of a peer, as the application gave it."""
        self._record("REPLACE INTO addresses VALUES (?, ?, ?)", (name, *address))

    def record_permitted(self, source: str, history: int, number: int) -> None:
        """Record that the messages of a history up to a number need no permit any more."""
        key = (source, history, number)
        condition = "WHERE source = ? AND history = ? AND number <= ?"
        self._record(f"UPDATE inbox SET needs_permit = 0 {condition}", key)
        self._record(f"DELETE FROM inbox {condition} AND processed", key)

    def begin_history(self, history: int) -> None:
        """Give up everything but the messages that the application has not processed.

        The next messages are numbered from 1.
        """
        for table in ("outbox", "peers", "entries", "wildcards"):
            self._record(f"DELETE FROM {table}")
        self._record("UPDATE inbox SET needs_permit = 0")
        self._record("DELETE FROM inbox WHERE processed")
        self._record("UPDATE meta SET value = ? WHERE key = 'history'", (history,))
        self._record("UPDATE meta SET value = 0 WHERE key IN ('clock', 'forgotten_number')")
        self._clock = self._saved_clock = 0
        self._last_sent.clear()
        self.trace_position = None

    def forget_peer(self, name: str, number: int) -> None:
        """Delete the record of a peer.

        ``number`` is the last one that may have been transmitted to a forgotten peer.
        """
        for table in ("peers", "addresses"):
            self._record(f"DELETE FROM {table} WHERE name = ?", (name,))
        self._record("UPDATE meta SET value = ? WHERE key = 'forgotten_number'", (number,))

    def discard_copies(self, target: str) -> None:
        """Delete the copies that were abandoned; the next one has no predecessor."""
        self._last_sent[target] = 0
        self._record("DELETE FROM outbox WHERE target = ?", (target,))

    def mark_processed(self, source: str, history: int, number: int) -> None:
        """Record that a message must not be redelivered after a restart."""
        key = (source, history, number)
        self._record(
            "UPDATE inbox SET processed = 1"
            " WHERE source = ? AND history = ? AND message_number = ?",
            key,
        )
        condition = "" if source == self._name else " AND NOT needs_permit"
        self._record(
            "DELETE FROM inbox WHERE source = ? AND history = ? AND message_number = ?"
            + condition,
            key,
        )

    def take_statements(self) -> list[Statement]:
        """Return the statements recorded since the last call."""
        if self._clock != self._saved_clock:
            self._saved_clock = self._clock
            self._record("UPDATE meta SET value = ? WHERE key = 'clock'", (self._clock,))
        statements = self._statements
        if statements:
            self._statements = []
            if self.trace_position is not None:
                text = "{} {}".format(*self.trace_position)
                statements.append(("REPLACE INTO meta VALUES ('trace', ?)", (text,)))
        return statements

    def write(self, statements: Sequence[Statement]) -> None:
        """Execute statements in one transaction.

        Raise StorageError if this, or an earlier write, has failed: the events since the
        last commit are lost then, so no later commit is allowed.
        """
        try:
            if not self._failure:
                self._db.execute_all((BEGIN, *statements, COMMIT))
        except DatabaseError as error:
            self._failure = str(error)
        if self._failure:
            raise StorageError(
                f"cannot write the journal {self._path}: {self._failure};"
                " free disk space, and restart the node"
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _record(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._statements.append((statement, values))

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _number(self, query: str) -> int:
        value = self._db.execute(query)[0][0]
        return 0 if value is None else int(value)

    def _meta(self, key: str) -> object:
        rows = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else ""
