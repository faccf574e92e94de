"""The roles of the benchmark of the node that send length-prefixed messages on a stream.

The stream is a TCP connection of asyncio, or a stream of a QUIC connection of aioquic. The
sender writes batches of messages; the receiver parses them in the callback of the protocol,
which is faster than a ``StreamReader``. aioquic is imported only where it is measured.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bench.net_task import (
    BATCH_MESSAGES,
    MESSAGE_TIMEOUT_S,
    PAYLOAD_BYTES,
    Task,
    check_payloads,
    read_task,
    report,
    report_start,
)

if TYPE_CHECKING:
    from aioquic.quic.configuration import QuicConfiguration

__all__ = [
    "MessageParser",
    "frame_messages",
    "quic_receive",
    "quic_send",
    "tcp_receive",
    "tcp_send",
]

PREFIX_BYTES = 4
QUIC_WINDOW_BYTES = 1 << 26
"""The flow control window of aioquic, so large that only congestion control limits it."""


def frame_messages(payloads: Sequence[bytes]) -> bytes:
    """Return the payloads, each after its length, as one string of bytes."""
    parts = []
    for payload in payloads:
        parts.append(len(payload).to_bytes(PREFIX_BYTES, "big"))
        parts.append(payload)
    return b"".join(parts)


class MessageParser:
    """Splits a stream into its length-prefixed messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that end in ``data``, and keep the begun one."""
        if self._rest:
            data = self._rest + data
        messages = []
        start = 0
        while (begin := start + PREFIX_BYTES) <= len(data):
            end = begin + int.from_bytes(data[start:begin], "big")
            if end > len(data):
                break
            messages.append(data[begin:end])
            start = end
        self._rest = data[start:]
        return messages


class Receiver:
    """Parses the stream of one sender until all messages have arrived."""

    def __init__(self, messages: int) -> None:
        self._missing = messages
        self._parser = MessageParser()
        self._received = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Parse data of the stream."""
        self._missing -= check_payloads(self._parser.feed(data))
        if self._missing <= 0:
            self._received.set()

    async def report_end(self) -> None:
        """Wait for the last message, and report the time."""
        async with asyncio.timeout(MESSAGE_TIMEOUT_S):
            await self._received.wait()
        report("received", time.perf_counter())


class _TcpProtocol(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def data_received(self, data: bytes) -> None:
        self._receiver.feed(data)


async def tcp_receive(task: Task) -> None:
    """Receive messages on a TCP connection."""
    receiver = Receiver(task["messages"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _TcpProtocol(receiver), "127.0.0.1", 0)
    report("ready", server.sockets[0].getsockname()[1])
    await receiver.report_end()


async def tcp_send(task: Task) -> None:
    """Send batches of messages on a TCP connection; wait while its buffer is full."""
    report("bound", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", read_task()["ports"][0])
    report_start()
    for _ in range(task["messages"] // BATCH_MESSAGES + 1):
        writer.write(frame_messages([bytes(PAYLOAD_BYTES)] * BATCH_MESSAGES))
        await writer.drain()
    await asyncio.sleep(MESSAGE_TIMEOUT_S)  # The parent process kills this process.


def _quic_configuration(task: Task, *, is_client: bool) -> "QuicConfiguration":
    """Return the settings of one end of a QUIC connection."""
    from aioquic.quic.configuration import QuicConfiguration

    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=["bench"],
        max_data=QUIC_WINDOW_BYTES,
        max_stream_data=QUIC_WINDOW_BYTES,
        max_datagram_size=task["datagram_bytes"],
        verify_mode=ssl.CERT_NONE if is_client else None,
    )


def _add_certificate(configuration: "QuicConfiguration") -> None:
    """Make a key and a certificate for the listening end, valid for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
    configuration.certificate = builder.sign(key, hashes.SHA256())
    configuration.private_key = key


async def quic_receive(task: Task) -> None:
    """Receive messages on a stream of aioquic."""
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.asyncio.server import QuicServer
    from aioquic.quic.events import QuicEvent, StreamDataReceived

    receiver = Receiver(task["messages"])

    class Protocol(QuicConnectionProtocol):
        def quic_event_received(self, event: QuicEvent) -> None:
            if isinstance(event, StreamDataReceived):
                receiver.feed(event.data)

    configuration = _quic_configuration(task, is_client=False)
    _add_certificate(configuration)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicServer(configuration=configuration, create_protocol=Protocol),
        local_addr=("127.0.0.1", 0),
    )
    report("ready", transport.get_extra_info("sockname")[1])
    await receiver.report_end()


async def quic_send(task: Task) -> None:
    """Send batches of messages on a stream of aioquic, which buffers without a limit."""
    from aioquic.asyncio.client import connect

    report("bound", 0)
    port = read_task()["ports"][0]
    configuration = _quic_configuration(task, is_client=True)
    async with connect("127.0.0.1", port, configuration=configuration) as connection:
        _, writer = await connection.create_stream()
        report_start()
        for _ in range(task["messages"] // BATCH_MESSAGES + 1):
            writer.write(frame_messages([bytes(PAYLOAD_BYTES)] * BATCH_MESSAGES))
            await asyncio.sleep(0)  # aioquic transmits, and reads acknowledgements.
        await asyncio.sleep(MESSAGE_TIMEOUT_S)  # The parent process kills this process.
