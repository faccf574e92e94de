"""Sends messages, and waits for room, for a handshake, or for the disk."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from antecede.engine.engine import Engine
from antecede.engine.limits import MESSAGE_BYTES_MIN
from antecede.errors import LocalError, WindowFull
from antecede.net.blocked_sends import Sent, Targets
from antecede.net.payloads import Encode, Payload, encode_payload
from antecede.net.receipts import Receipt, check_receipts
from antecede.net.runtime import NodeRuntime

__all__ = ["Sending"]


class Sending:
    """Sends the messages of one node, in fragments if they are large.

    Args:
        name: the name of the node.
        runtime: drives the engine of the node.
        encode: converts values to bytes; None if the application sends bytes.
    """

    def __init__(self, name: str, runtime: NodeRuntime, encode: Encode | None) -> None:
        self._name = name
        self._runtime = runtime
        self._encode = encode
        self._fragment_lock = asyncio.Lock()

    @property
    def is_in_fragments(self) -> bool:
        """Whether a message in fragments is being sent."""
        return self._fragment_lock.locked()

    def encoded(self, data: Payload) -> bytes:
        """Return the bytes to send."""
        encode = self._encode
        payload: bytes = data if encode is None else encode_payload(encode, data)
        return payload

    def send_nowait(self, target: str, data: Payload) -> int:
        """Send data to one peer without waiting; see :meth:`antecede.Node.send_nowait`."""
        data = self.encoded(data)
        runtime = self._runtime
        engine = runtime.opened_engine()
        number = engine.append(target, data)
        if number:
            return number
        self.check_open()
        if runtime.has_journal:
            raise LocalError(f"{self._name} has a journal; await send")
        now = runtime.now_s()
        number = engine.try_send(target, data, now)
        if not number:
            payloads = engine.fragment(data)
            if len(payloads) > 1:
                raise LocalError(
                    f"{len(data)} bytes do not fit into one datagram; await send"
                )
            if not engine.has_room((target,)):
                raise self.window_full_error((target,))
            number = engine.send_fragment((target,), payloads[0], now)
        is_alone = engine.sent_alone  # No other copy shares its datagram.
        if is_alone or engine.should_flush:
            runtime.transmit(engine, now)
        if not is_alone:
            runtime.schedule_output()
        return number

    async def send_many(self, target: str, batch: Iterable[Payload]) -> list[int]:
        """Send several messages to one peer, in order, and return their numbers."""
        runtime = self._runtime
        messages: list[object] = [self.encoded(data) for data in batch]
        numbers: list[int] = []
        first = runtime.opened_engine()
        while len(numbers) < len(messages):
            engine = runtime.opened_engine()
            sent = len(numbers)
            if not runtime.is_closing:
                if not runtime.output_scheduled:
                    runtime.check_loop()
                now = runtime.now_s()
                engine.send_batch(target, messages, numbers, now)
                if engine.should_flush:
                    runtime.process_output(now)
                    await asyncio.sleep(0)
                else:
                    runtime.schedule_output()
            if len(numbers) == sent:
                data = cast("bytes", messages[sent])  # The called method checks the target.
                to = Targets(names=(target,))
                number, _ = await self.start(to, data, wait=True)
                numbers.append(number)
        await self.commit(first)
        return numbers

    async def send(self, targets: Targets, data: bytes, wait: bool) -> int:
        """Send a message, and return its number once the node is responsible for it."""
        engine = self._runtime.opened_engine()
        number, _ = await self.start(targets, data, wait)
        await self.commit(engine)
        return number

    async def send_as(
        self, targets: Targets, value: Payload, wait: bool, ordered: bool, receipt: bool
    ) -> int | Receipt:
        """Send a value, perhaps unordered, and return its number or its receipt."""
        if receipt and not ordered:
            raise LocalError(
                "an unordered message has no receipt, because nothing waits for it"
            )
        data = self.encoded(value)
        if ordered and not receipt:
            return await self.send(targets, data, wait)
        if receipt:
            return await self._send_with_receipt(targets, data, wait)
        return self._send_unordered(targets, data)

    async def _send_with_receipt(
        self, targets: Targets, data: bytes, wait: bool
    ) -> Receipt:
        """Send a message, and return its receipt."""
        engine = self._runtime.opened_engine()
        check_receipts(engine)
        targets = replace(targets, keeps_channels=True)
        number, sent = await self.start(targets, data, wait)
        await self.commit(engine)
        return self._runtime.receipts.open(engine, number, sent.channels, sent.names)

    def _send_unordered(self, targets: Targets, data: bytes) -> int:
        """Transmit a message once, or drop it; return 0, because it has no number."""
        self.check_open()
        engine = self._runtime.opened_engine()
        unordered = engine.unordered
        if not isinstance(data, bytes) or len(data) > unordered.bytes_max:
            size = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
            raise LocalError(
                f"an unordered message must be at most {unordered.bytes_max} bytes, so that"
                f" it fits into one datagram, got {size}"
            )
        if engine.process.overlay is not None:
            raise LocalError(
                f"{engine.info.name} has no unordered messages: they would reach the"
                " neighbours of a node only"
            )
        peers = engine.peers()
        names = targets.find(engine)
        for name in names:
            if name not in peers:
                raise LocalError(
                    f"{name} is not a peer of {engine.name}; call add_peer first"
                )
        now = self._runtime.now_s()
        for name in names:
            unordered.send(engine.sessions[name], data, now)
        self._runtime.schedule_output()
        return 0

    async def commit(self, engine: Engine) -> None:
        """Wait until the messages that an engine has sent are in the journal, if any."""
        if self._runtime.has_journal:
            await self._runtime.wait_for_commit()
            self._check_history(engine)

    async def start(self, targets: Targets, data: bytes, wait: bool) -> Sent:
        """Send a message, and return its number before the journal is written.

        With ``keeps_channels``, return its channels, too.
        """
        runtime = self._runtime
        engine = self._runtime.opened_engine()
        self.check_open()
        payloads = engine.fragment(data)
        is_large = len(payloads) > 1
        names = targets.find(engine)
        is_known = engine.knows_limits(names, len(data))
        if not wait and (
            not is_known
            or (is_large and self._fragment_lock.locked())
            or not engine.has_room(names)
        ):
            raise self.window_full_error(names)
        if len(data) > MESSAGE_BYTES_MIN:
            targets = await self._with_known_limits(engine, targets, len(data))
        if is_large:
            targets = replace(targets, keeps_channels=True)
            async with self._fragment_lock:  # Fragments of two messages must not mix.
                for payload in payloads:
                    number, targets = await self._send_payload(engine, targets, payload)
        else:
            number, targets = await self._send_payload(engine, targets, payloads[0])
            if engine.is_only_in_flight(names):
                # No other copy shares its datagram.
                runtime.transmit(engine, runtime.now_s())
        return number, targets

    def check_open(self) -> None:
        """Raise the error of the journal, or LocalError, if the node is closed."""
        runtime = self._runtime
        runtime.check_loop()
        if runtime.failure is not None:
            raise runtime.failure
        if runtime.is_closing:
            raise LocalError(f"cannot send: {self._name} is closed; open a new node")

    def _check_history(self, engine: Engine) -> None:
        """Raise LocalError if the node has begun a new history since a call started."""
        if self._runtime.engine is not engine:
            raise LocalError(
                f"{self._name} began a new history while the message was being sent;"
                " send it again"
            )

    async def _send_payload(self, engine: Engine, targets: Targets, payload: bytes) -> Sent:
        """Send a payload as soon as there is room."""
        runtime = self._runtime
        self._check_history(engine)
        if not engine.has_room(targets.find(engine)):
            runtime.send_watch.watch()
            return await runtime.blocked_sends.wait(targets, payload)
        now = runtime.now_s()
        sent = targets.send(engine, payload, now)
        if engine.should_flush:
            runtime.process_output(now)
        else:
            runtime.schedule_output()
        return sent

    async def _with_known_limits(
        self, engine: Engine, targets: Targets, size: int
    ) -> Targets:
        """Wait until all targets are known to accept this size, and keep these targets.

        A target that restarts while the message waits for room may accept less.
        """
        while not engine.knows_limits(targets.find(engine), size):
            await self._runtime.waiters.wait_for_handshake()
        names = targets.find(engine)
        return replace(targets, names=names, channels=tuple(engine.channels(names)))

    def window_full_error(self, targets: Sequence[str]) -> WindowFull:
        """Return the error of a send to these targets that must not wait."""
        full = [
            name for name in targets if not self._runtime.opened_engine().has_room((name,))
        ]
        reason = "another large message is being sent, or a target was not met yet"
        if full:
            reason = f"the window of {', '.join(full)} is full"
        return WindowFull(f"cannot send: {reason}; pass wait=True, or try again later")
