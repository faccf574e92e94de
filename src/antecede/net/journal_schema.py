"""The tables of a journal.

In ``inbox``, ``number`` is the number of a fragment. ``message_number`` is that of the
last fragment of its message, and NULL until the last fragment is delivered. A row is
deleted when the message is processed and needs no permit any more. Which permits have
arrived is stored with the peer, and in the rows only when the peer begins another history
or is forgotten. In ``entries``, ``source`` and ``target`` are hashes of names as
hexadecimal text, because SQLite has no unsigned numbers of 64 bits; a source is followed by
its history. A row of ``wildcards`` has the ``seq`` of a message in ``outbox``, which may be
deleted earlier.
"""

from typing import Final

__all__ = ["APPLICATION_ID", "FORMAT_VERSION", "TABLES"]

APPLICATION_ID: Final = 0x616E7465
"""SQLite's ``application_id`` of a journal."""
FORMAT_VERSION: Final = 4
"""SQLite's ``user_version`` of the tables below; other versions are not read."""
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, target TEXT NOT NULL,
    predecessor INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX outbox_target ON outbox (target, number);
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY, source TEXT NOT NULL, history INTEGER NOT NULL,
    number INTEGER NOT NULL, message_number INTEGER, processed INTEGER NOT NULL,
    needs_permit INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX inbox_source ON inbox (source, history, number);
CREATE INDEX inbox_message ON inbox (source, history, message_number);
CREATE TABLE peers (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, stopped INTEGER NOT NULL,
    history INTEGER NOT NULL, epoch_in INTEGER NOT NULL, epoch_out INTEGER NOT NULL,
    acked_base INTEGER NOT NULL, sent INTEGER NOT NULL, acked INTEGER NOT NULL,
    delivered INTEGER NOT NULL, permitted INTEGER NOT NULL,
    number_before INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL,
    number INTEGER NOT NULL, reporter TEXT NOT NULL, reporter_history INTEGER NOT NULL);
CREATE INDEX entries_pair ON entries (source, target, number);
CREATE TABLE wildcards (
    seq INTEGER NOT NULL, target TEXT NOT NULL, number INTEGER NOT NULL,
    peer TEXT NOT NULL, peer_history INTEGER NOT NULL,
    PRIMARY KEY (seq, target)) WITHOUT ROWID;
CREATE TABLE addresses (
    name TEXT PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL) WITHOUT ROWID;
"""
