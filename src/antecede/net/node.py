"""The node: causal message delivery for an asyncio application, over UDP.

A node has one engine (:mod:`antecede.engine`) and one socket, and belongs to one event
loop. Call its methods from that loop only.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, Self, Unpack, overload

from antecede.core.config import DEFAULT_BUDGET_BYTES, DEFAULT_PROTOCOL
from antecede.engine.engine import Engine
from antecede.engine.events import NodeEvent
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.net import statistics
from antecede.net.blocked_sends import Targets, named_targets
from antecede.net.config import NodeConfig
from antecede.net.events import EventIterator
from antecede.net.group_keys import GroupKeys, Keys
from antecede.net.node_metrics import NodeMetrics
from antecede.net.payloads import Decode, Encode, Payload, encode_payload
from antecede.net.receipts import Receipt, SendOptions
from antecede.net.receiving import Receiving
from antecede.net.removal import remove_peer
from antecede.net.rooms.introducer import Accept
from antecede.net.rooms.options import RoomArguments, make_options
from antecede.net.rooms.room import Room
from antecede.net.rooms.rooms import Rooms
from antecede.net.runtime import DRAIN_S, NodeRuntime
from antecede.net.sending import Sending
from antecede.net.udp import Address, parse_address
from antecede.net.wait_reports import JoinReport, WaitReport, find_waits

__all__ = ["Node"]


class Node:
    """One process of a causal group.

    Use it as ``async with Node("ann", bind="127.0.0.1:9001", peers={...}) as node``.

    Args:
        name: the node's name, unique in the group.
        bind: address to listen on, ``host:port``; port 0 lets the system choose one.
        peers: names and addresses of the other nodes; :meth:`add_peer` adds more later.
        protocol: a protocol from ``antecede protocols``, the same at all nodes. ``hybrid``
            is faster where nothing is lost, but a silent peer delays all messages.
        budget_bytes: the bytes that a message of the protocol ``bounded`` may use to list
            undelivered messages, instead of waiting; nodes may have different budgets.
        key: the group key, 32 bytes, or several keys (:meth:`set_keys`).
        insecure: allow a bind address other than loopback without a key.
        limits: bounds on sizes and times; see :class:`antecede.engine.limits.Limits`.
        journal: file that lets the node be restarted without losing messages.
        journal_sync: wait for the disk at each commit, so that power failures lose nothing.
        trace: directory to record a trace in, for ``antecede verify``.
        run: name of the run in the trace; the same at all nodes.
        segmentation: use the segmentation offload of the kernel where it exists.
        on_message: called with each message, in order, instead of :meth:`receive`. It runs
            in the event loop and must not wait; it may call :meth:`send_nowait`.
        on_event: called with each event of :meth:`events`, as it happens.
        metrics: address to serve metrics for Prometheus at, or a port of the loopback
            address; needs the extra ``antecede[metrics]``.
        encode: converts the values that the application sends to bytes.
        decode: converts the bytes of a message to its :attr:`Message.value`.
        seeds: addresses of some nodes of the group, through which :meth:`join` finds rooms.
        accept: called with the name and the address of each node that asks this one for a
            link; returns whether to accept it.
    """

    def __init__(
        self,
        name: str,
        *,
        bind: str | Address = "127.0.0.1:0",
        peers: Mapping[str, str | Address] | None = None,
        protocol: str = DEFAULT_PROTOCOL,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        key: Keys | None = None,
        insecure: bool = False,
        limits: Limits | None = None,
        journal: str | Path | None = None,
        journal_sync: bool = True,
        trace: str | Path | None = None,
        run: str = "live",
        segmentation: bool = True,
        on_message: Callable[[Message], object] | None = None,
        on_event: Callable[[NodeEvent], object] | None = None,
        encode: Encode | None = None,
        decode: Decode | None = None,
        metrics: str | int | Address | None = None,
        seeds: Iterable[str | Address] = (),
        accept: Accept | None = None,
    ) -> None:
        """Validate the arguments; :meth:`open` opens the socket and the files."""
        self._metrics = NodeMetrics(name, self.stats, metrics)
        self._keys = GroupKeys(key)
        config = NodeConfig(
            name=name,
            bind=parse_address(bind),
            peers={peer: parse_address(given) for peer, given in (peers or {}).items()},
            protocol=protocol,
            budget_bytes=budget_bytes,
            cipher=self._keys.cipher,
            insecure=insecure,
            limits=limits,
            journal=Path(journal) if journal is not None else None,
            journal_sync=journal_sync,
            trace=Path(trace) if trace is not None else None,
            run=run,
            segmentation=segmentation,
            on_message=on_message,
            on_event=on_event,
            encode=encode,
            decode=decode,
            observe_inbox_s=self._metrics.observe_inbox_s(),
        )
        self.name = name
        self._runtime = NodeRuntime(config)
        self._runtime.blocked_sends.observe_s = self._metrics.observe_send_s()
        self._encode = encode
        self._sending = Sending(name, self._runtime, encode)
        self._receiving = Receiving(name, self._runtime)
        self._rooms = Rooms(config, self._runtime, self._metrics, seeds, accept)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Close the node; do not wait for deliveries if the block raised."""
        await self.close(DRAIN_S if kind is None else 0.0)

    async def open(self) -> None:
        """Open the socket and the files, and contact the peers; prefer ``async with``."""
        self._runtime.open()
        await self._metrics.open(self._runtime.close)

    async def close(self, drain_s: float = DRAIN_S) -> None:
        """Wait until all sent messages are delivered, transmit BYE, and close the node.

        Wait at most ``drain_s`` seconds. A node that closes earlier leaves its peers
        waiting for its permits until they remove it. Closing a closed node does nothing.
        """
        await self._rooms.close(drain_s)
        await self._runtime.close(drain_s)
        self._metrics.close()

    async def leave(self, drain_s: float = DRAIN_S) -> None:
        """Leave all rooms and all peers for good, also with a journal, and close the node.

        The peers keep no messages for it: do not open it again with the same journal.
        """
        await self._rooms.close(drain_s)
        await self._runtime.close(drain_s, returns=False)
        self._metrics.close()

    @property
    def address(self) -> Address:
        """The address that the node listens on."""
        return self._runtime.opened_socket().address

    @property
    def engine(self) -> Engine:
        """The engine, for inspection."""
        return self._runtime.opened_engine()

    @property
    def metrics_address(self) -> Address | None:
        """The address of the metrics of the node; None if it serves none."""
        return self._metrics.address

    @property
    def peers(self) -> list[str]:
        """The names of the current peers."""
        return self.engine.peers()

    def add_peer(self, name: str, address: str | Address) -> None:
        """Add a peer, or add a removed peer again, or change a peer's address."""
        self._runtime.opened_socket()
        self._runtime.add_peer(name, parse_address(address))

    async def remove_peer(self, name: str, *, stopped: bool = False) -> None:
        """Remove a peer, and abandon the copies that it has not acked.

        Permits that wait for its acks are granted then. Return when that is done: one lease
        after the last datagram of the peer. Pass ``stopped=True`` only for a process that
        has stopped for good: then messages also stop waiting for the permits of the peer
        itself (docs/explanation/peer-removal.md). Under ``bounded``, messages may also wait
        for a process that is not a peer; declare it stopped in the same way.
        """
        await remove_peer(self._runtime, name, stopped=stopped)

    def set_keys(self, keys: Keys) -> None:
        """Encrypt with the first of these keys from now on, and accept all of them.

        To change the key of a running group, call this at every node with the old and the
        new key, then with the new and the old one, then with the new one.
        """
        self._runtime.opened_socket()
        self._keys.change(keys, self.engine)

    @property
    def rooms(self) -> list[str]:
        """The names of the rooms that the node is in, sorted."""
        return self._rooms.names

    async def join(self, room: str, **options: Unpack[RoomArguments]) -> Room:
        """Join a room, and return it when this node has caught up.

        The node asks the nodes that it is linked with or, at first, its seeds. It founds
        the room if it knows no other node, or if all nodes that it knows answer that they
        are not members. Raise JoinError with the reason if no node answers or a node
        refuses. The options: :class:`antecede.net.rooms.options.RoomArguments`.
        """
        return await self._rooms.join(room, make_options(options))

    @overload
    async def send(
        self, target: str, data: Payload, *, wait: bool = ..., receipt: Literal[True]
    ) -> Receipt: ...

    @overload
    async def send(self, target: str, data: Payload, **how: Unpack[SendOptions]) -> int: ...

    async def send(
        self, target: str, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send ``data`` to one peer, or to the node itself, and return its number.

        The data are bytes or, if the node has ``encode``, an argument of that function.
        Wait while the window of the target is full, and with more than 64 KiB of data until
        the target has answered; with ``wait=False`` raise WindowFull instead. The message
        is accepted when the call returns, but not yet delivered: see :meth:`flush`. A
        cancelled call may have sent the message or not. Raise LocalError if the target is
        no peer, accepts only smaller messages, or restarts during a message in fragments.

        With ``receipt=True`` return a :class:`~antecede.net.receipts.Receipt`, which
        reports whether the message was delivered or given up. With ``ordered=False``
        transmit one datagram, once, and return 0: the message has no order and no number,
        is lost with its datagram, and no other message waits for it.
        """
        if receipt or not ordered:
            to = Targets(names=(target,))
            return await self._sending.send_as(to, data, wait, ordered, receipt)
        if self._encode is not None:
            data = encode_payload(self._encode, data)
        runtime = self._runtime
        engine = runtime.engine
        if engine is not None:
            number = engine.append(target, data)
            if number:
                return number
        if engine is not None and not runtime.is_closing:
            if not runtime.output_scheduled:  # Otherwise an earlier send has checked it.
                runtime.check_loop()
            now_s = runtime.now_s  # Python is slow to call an attribute of an object.
            now = now_s()
            number = engine.try_send(target, data, now)
            if number:
                if engine.is_flush_due:
                    if engine.sent_alone:  # There is no other copy to wait for.
                        runtime.transmit(engine, now)
                    else:
                        runtime.process_output(now)
                        await asyncio.sleep(0)  # Let other tasks run, and acks be read.
                else:
                    runtime.schedule_output()
                return number
        return await self._sending.send(Targets(names=(target,)), data, wait)

    def send_nowait(self, target: str, data: Payload) -> int:
        """Send ``data`` to one peer without waiting, and return its number.

        For callbacks, and for loops that cannot afford a coroutine for each message: let
        the event loop run from time to time. Raise WindowFull, and send nothing, if
        :meth:`send` would have to wait. Raise LocalError if the data do not fit into one
        datagram, or if the node has a journal, because ``send`` waits for its disk.
        """
        return self._sending.send_nowait(target, data)

    async def send_many(self, target: str, batch: Iterable[Payload]) -> list[int]:
        """Send several messages to one peer, in order, and return their numbers.

        Like a loop that awaits :meth:`send`, but faster: messages share datagrams and
        calls. A call that raises may have sent the first messages of the batch.
        """
        return await self._sending.send_many(target, batch)

    @overload
    async def multicast(
        self, targets: Iterable[str], data: Payload, *, wait: bool = ...,
        receipt: Literal[True],
    ) -> Receipt: ...  # fmt: skip

    @overload
    async def multicast(
        self, targets: Iterable[str], data: Payload, **how: Unpack[SendOptions]
    ) -> int: ...

    async def multicast(
        self, targets: Iterable[str], data: Payload, *, wait: bool = True,
        ordered: bool = True, receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to several peers; otherwise like :meth:`send`."""
        to = named_targets(targets)
        return await self._sending.send_as(to, data, wait, ordered, receipt)

    @overload
    async def broadcast(
        self, data: Payload, *, wait: bool = ..., receipt: Literal[True]
    ) -> Receipt: ...

    @overload
    async def broadcast(self, data: Payload, **how: Unpack[SendOptions]) -> int: ...

    async def broadcast(
        self, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to all current peers; otherwise like :meth:`send`.

        Only under ``newtop``, the node receives it as well.
        If the call waits, the message goes to the peers at the time when there is room;
        with more than 64 KiB of data, only to those that were known to accept it before.
        """
        to = Targets(is_broadcast=True)
        return await self._sending.send_as(to, data, wait, ordered, receipt)

    async def flush(self) -> None:
        """Wait until all messages sent so far, and meanwhile, are delivered everywhere."""
        self._runtime.opened_socket()
        await self._runtime.wait_for_acks(self.engine)

    def events(self) -> EventIterator:
        """Return an asynchronous iterator over the events of the node from now on.

        Each iterator gets all events (:mod:`antecede.engine.events`) until the node is
        closed; one that is read too slowly gets an EventsDropped. The node logs all events.
        """
        return self._runtime.events.iterate()

    def stats(self) -> statistics.NodeStats:
        """Return counters and the current state of the node, and of its rooms."""
        return statistics.runtime_stats(self._runtime, self._rooms.stats())

    def metrics(self) -> str:
        """Return :meth:`stats` as OpenMetrics text, for a scraper."""
        return self._metrics.text()

    async def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[WaitReport | JoinReport]:
        """Return the reasons for which messages wait, up to the process at fault.

        ``print(*await node.waiting("bob", 2))`` prints for instance "bob:2 to cid waits for
        a permit of ann, which waits for an ack of cid, silent for 31 s". Without a number,
        report the oldest messages that wait for each peer. The node asks its peers, and
        these ask theirs, for up to 3 s. An empty list means that no such message waits.
        Without arguments, each join that is under way has a JoinReport, too.
        """
        joins = self._rooms.joins() if source is None and number is None else []
        return [*joins, *await find_waits(self._runtime, source, number)]

    def blocked_messages(
        self, source: str | None = None, number: int | None = None
    ) -> list[statistics.BlockedMessage]:
        """Return the messages that wait for another process, with the reasons.

        ``node.blocked_messages("ann", 7)`` explains why Ann's message 7 is not delivered
        here or, at Ann's node, why it is queued or in flight (hybrid protocols only).
        """
        found = statistics.find_blocked_messages(self.engine)
        return [message for message in found if message.is_meant(source, number)]

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the messages as they are delivered, until the node is closed."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        While ``Limits.inbox_messages_max`` messages wait here, other nodes send none.
        """
        inbox = self._runtime.inbox
        return inbox.take_message() if inbox.messages else await self._receiving.next()

    async def receive(self) -> Message:
        """Return the next message; raise LocalError if the node is closed."""
        inbox = self._runtime.inbox
        return inbox.take_message() if inbox.messages else await self._receiving.one()

    async def receive_many(self, max_messages: int = 1024) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived, in order.

        Return at most ``max_messages``. Raise LocalError if the node is closed.
        """
        return await self._receiving.receive_many(max_messages)
