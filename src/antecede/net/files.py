"""The files of one node: its journal and its trace, both optional."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from antecede.core.observer import Observer
from antecede.core.registry import protocol as look_up
from antecede.engine.engine import Engine
from antecede.errors import ConfigError
from antecede.net.config import NodeConfig
from antecede.net.database import DatabaseError
from antecede.net.host import EventLog, Host
from antecede.net.journal import Journal
from antecede.net.journal_errors import journal_error
from antecede.trace.live.names import qualified_name

__all__ = ["NodeFiles"]

FLUSH_S: Final = 1.0
"""How often the trace is flushed."""


class NodeFiles:
    """Opens, attaches to an engine, and closes the files that a configuration names."""

    def __init__(self, config: NodeConfig, host: Host) -> None:
        self._config = config
        self._host = host
        self.journal: Journal | None = None
        self.trace: EventLog | None = None
        self._incarnation = 0
        self._flush_timer: asyncio.TimerHandle | None = None

    def open_journal(self) -> int:
        """Open the journal and return its history; 0 without a journal."""
        config = self._config
        if config.journal is None:
            return 0
        try:
            database = self._host.open_database(config.journal)
        except DatabaseError as error:
            raise journal_error(config.journal, error) from None
        self.journal = Journal(
            database,
            config.journal,
            config.name,
            self._host.random_bits,
            sync=config.journal_sync,
        )
        return self.journal.history

    def open_trace(self, history: int, incarnation: int) -> Observer | None:
        """Create the trace of a history and return its observer; None without a trace.

        A second history of the same start gets a directory of its own.
        """
        config = self._config
        directory = config.trace
        if self.trace is not None:
            self.trace.close(complete=False)
            if directory is not None:
                directory = directory.with_name(f"{directory.name}-{history:x}")
        continues = self.journal.trace_position if self.journal is not None else None
        self._incarnation = incarnation
        self.trace = self._host.open_record(config.name, history, incarnation, continues)
        if self.trace is not None:
            return self.trace.observer
        if directory is None:
            return None
        try:
            from antecede.trace.live.writer import NodeTraceWriter
        except ImportError:
            raise ConfigError(
                "recording a trace (trace=) needs the packages numpy and pyarrow:"
                " run pip install 'antecede[trace]'"
            ) from None
        own_id = 0
        if not look_up(config.protocol).capabilities.dynamic:
            own_id = sorted([*config.peers, config.name]).index(config.name)
        self.trace = trace = NodeTraceWriter(
            directory,
            qualified_name(config.name, history),
            id=own_id,
            protocol=config.protocol,
            run=config.run,
            write_ahead=self.journal is not None,
            incarnation=incarnation,
            continues=continues,
        )
        self._flush_later()
        return trace.observer

    def attach(
        self,
        engine: Engine,
        commit: Callable[[str, int, int], Awaitable[None]],
        now: float,
        *,
        restore: bool,
    ) -> None:
        """Connect the open files to ``engine``.

        Args:
            engine: a new engine without peers.
            commit: called with source, history and number by ``Message.commit``.
            now: the current time.
            restore: restore the engine from the journal.
        """
        trace = self.trace
        if trace is not None:
            own = qualified_name(engine.name, engine.history)
            trace.set_name(engine.process.id, own)
            engine.report_histories(
                lambda process_id, name, history: trace.set_name(
                    process_id, qualified_name(name, history)
                )
            )
        journal = self.journal
        if journal is not None:
            state = journal.state() if restore else None
            if state is not None:
                engine.restore(state, now)
            engine.attach_journal(journal, commit)
            for saved in state.deliveries if state is not None else ():
                if not saved.processed:
                    engine.redeliver(saved, self._host.wall_s())

    def _flush_later(self) -> None:
        """Flush the trace once a second, so that a kill loses the last second at most."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()  # It may be that of a trace before this one.
        if self.trace is not None:
            self.trace.flush()
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(FLUSH_S, self._flush_later)

    def flush_trace(self) -> None:
        """Flush the trace of a node with a journal; call before transmitting.

        A restarted node continues its history, so the trace must hold every event that
        another node may have seen the effect of.
        """
        if self.trace is not None and self.journal is not None:
            self.trace.flush()
            self.journal.trace_position = (self._incarnation, self.trace.rows)

    def close(self, engine: Engine | None) -> None:
        """Close both files; without an engine, the node was never opened."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        if self.journal is not None:
            self.journal.close()
        if self.trace is not None:
            self.trace.close(complete=engine is not None and not engine.backlog)
