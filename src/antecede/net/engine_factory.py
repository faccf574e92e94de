"""Makes the engine of a node: from its configuration, its journal, or a new history."""

import logging
from collections.abc import Awaitable, Callable

from antecede.engine.engine import Engine
from antecede.engine.history_number import next_history
from antecede.engine.limits import Limits
from antecede.engine.peer_session import ACTIVE
from antecede.errors import ConfigError, StorageError
from antecede.net.config import NodeConfig
from antecede.net.files import NodeFiles
from antecede.net.host import DatagramSocket, Host, resolve_peer

__all__ = ["EngineFactory"]

logger = logging.getLogger(__name__)


class EngineFactory:
    """Makes the engines of one node.

    Args:
        config: the parameters of the node.
        host: the machine.
        files: the journal and the trace of the node.
        limits: the limits of the node.
        commit: called with source, history and number by ``Message.commit``.
    """

    def __init__(
        self,
        config: NodeConfig,
        host: Host,
        files: NodeFiles,
        limits: Limits,
        commit: Callable[[str, int, int], Awaitable[None]],
    ) -> None:
        self._config = config
        self._host = host
        self._files = files
        self._limits = limits
        self._commit = commit

    def restore(self, now: float) -> Engine:
        """Return an engine that continues from the journal, if the node has one."""
        engine = self._make(self._files.open_journal(), now)
        self._files.attach(engine, self._commit, now, restore=True)
        return engine

    def _make(self, history: int, now: float) -> Engine:
        config = self._config
        incarnation = self._host.random_bits(63) | 1
        observer = self._files.open_trace(history or incarnation, incarnation)
        return Engine(
            config.name,
            incarnation,
            protocol_name=config.protocol,
            members=list(config.peers),
            limits=self._limits,
            cipher=config.cipher,
            history=history,
            observer=observer,
            wall_offset_s=self._host.wall_s() - now,
            budget_bytes=config.budget_bytes,
            random_bits=self._host.random_bits,
        )

    def restore_addresses(self, engine: Engine, socket: DatagramSocket, now: float) -> None:
        """Contact the peers that were added while an earlier incarnation was running."""
        if self._files.journal is None:
            return
        for name, address in self._files.journal.addresses().items():
            if name in self._config.peers or name not in engine.sessions:
                continue
            try:
                engine.set_address(name, resolve_peer(socket, name, address), now)
            except ConfigError as error:
                logger.warning(
                    "%s cannot reach its peer %s: %s; call add_peer with its address",
                    self._config.name,
                    name,
                    error,
                )

    def begin_history(self, engine: Engine, now: float) -> tuple[Engine, StorageError]:
        """Return an engine with a new history and the same peers, and the reason.

        The journal is older than what a peer has seen of this node: a machine has lost
        power without ``journal_sync``, or the file was restored from a backup.
        """
        config, journal = self._config, self._files.journal
        assert journal is not None  # The caller checks both.
        assert engine.outdated is not None
        peer, latest_history = engine.outdated
        error = StorageError(
            f"the journal {config.journal} is outdated: {peer} has seen more"
            f" of this node than it contains; {config.name} begins a new history, and"
            f" gives up {engine.backlog} copies that were not acked"
        )
        history = next_history(latest_history, self._host.random_bits)
        journal.begin_history(history)
        successor = self._make(history, now)
        self._files.attach(successor, self._commit, now, restore=False)
        for name, session in engine.sessions.items():
            if session.state is ACTIVE and session.is_link:
                successor.links.add(name, session.address, now)
            elif session.state is ACTIVE:
                successor.add_peer(
                    name, session.address, now, is_configured=session.is_configured
                )
        return successor, error
