"""The files of one node: its journal and its trace, both optional."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from antecede.core.observer import Observer
from antecede.core.registry import protocol as look_up
from antecede.engine.engine import Engine
from antecede.errors import ConfigError
from antecede.net.config import NodeConfig
from antecede.net.journal import Journal
from antecede.trace.live.names import qualified_name

if TYPE_CHECKING:
    from antecede.trace.live.writer import NodeTraceWriter

__all__ = ["NodeFiles"]


class NodeFiles:
    """Opens, attaches to an engine, and closes the files that a configuration names."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self.journal: Journal | None = None
        self.trace: NodeTraceWriter | None = None

    def open_journal(self) -> int:
        """Open the journal and return its history; 0 without a journal."""
        config = self._config
        if config.journal is None:
            return 0
        self.journal = Journal(config.journal, config.name, sync=config.journal_sync)
        return self.journal.history

    def open_trace(self, history: int) -> Observer | None:
        """Create the trace of one history and return its observer; None without a trace."""
        config = self._config
        if config.trace is None:
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
        self.trace = NodeTraceWriter(
            config.trace,
            qualified_name(config.name, history),
            id=own_id,
            protocol=config.protocol,
            run=config.run,
            write_ahead=self.journal is not None,
        )
        return self.trace.observer

    def attach(
        self, engine: Engine, commit: Callable[[str, int, int], None], now: float
    ) -> None:
        """Connect the open files to ``engine``, and restore it from the journal.

        Args:
            engine: a new engine without peers.
            commit: called with source, history and number by ``Message.commit``.
            now: the current time.
        """
        trace = self.trace
        if trace is not None:
            engine.report_histories(
                lambda process_id, name, history: trace.set_name(
                    process_id, qualified_name(name, history)
                )
            )
        journal = self.journal
        if journal is not None:
            deliveries = journal.deliveries()
            engine.restore(
                journal.clock, journal.peers(), journal.copies(), deliveries, now
            )
            engine.attach_journal(journal, commit)
            for saved in deliveries:
                if not saved.processed:
                    engine.redeliver(saved, time.time())

    def flush_trace(self) -> None:
        """Flush the trace of a node with a journal; call before transmitting.

        A restarted node continues its history, so the trace must hold every event that
        another node may have seen the effect of.
        """
        if self.trace is not None and self.journal is not None:
            self.trace.flush()

    def close(self, engine: Engine, *, commit: bool) -> None:
        """Close both files; commit the journal first if ``commit`` is true."""
        if self.journal is not None:
            try:
                if commit:
                    engine.commit_journal()
            finally:
                self.journal.close()
        if self.trace is not None:
            for session in engine.sessions.values():
                if not session.history:  # No handshake took place: no history is known.
                    self.trace.set_name(session.id, session.name)
            self.trace.close(complete=not engine.backlog)
