"""Hosts on one machine: network namespaces that a faulty network connects.

There are two kinds of network. *netem*: a bridge with veth pairs connects the hosts, and
the kernel's netem loses, delays, duplicates and reorders packets. *TUN*: each host has a
TUN device, and this process forwards the packets with the faults of the proxy; for kernels
without netem. In both, packets pass the IP stacks of the hosts, which segment and
reassemble them.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence

from antecede.net.faults import FaultInjector, Faults

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
NETEM = "delay 100ms 20ms loss 20% duplicate 5% reorder 25% 50%"
FAULTS = Faults(loss=0.2, duplicate=0.05, delay_s=0.1, jitter_s=0.04)
PACKET_MAX = 65_536


def ip(*words: str) -> None:
    """Run ip; raise OSError with its error output if it fails."""
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


class Hosts:
    """One namespace for each name; all can reach each other."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        pid = os.getpid()
        self.namespace = {name: f"antecede-{pid}-{name}" for name in names}
        self.hub = f"antecede-{pid}-hub"
        self.address = {name: f"10.77.0.{n}" for n, name in enumerate(names, 1)}

    def prefix(self, name: str) -> list[str]:
        """Return the prefix that makes a command run on a host."""
        return ["ip", "netns", "exec", self.namespace[name]]

    def partition(self, side: Sequence[str]) -> None:
        """Separate the hosts in ``side`` from the other hosts."""
        raise NotImplementedError

    def heal(self) -> None:
        raise NotImplementedError

    def _configure(self, name: str, device: str) -> None:
        namespace = self.namespace[name]
        ip("-n", namespace, "addr", "add", f"{self.address[name]}/24", "dev", device)
        ip("-n", namespace, "link", "set", device, "up")
        ip("-n", namespace, "link", "set", "lo", "up")


class NetemHosts(Hosts):
    """Hosts on a bridge, with the faults of netem."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge0", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge0", "up")
        for name in names:
            namespace, port = self.namespace[name], f"port-{name}"
            ip("netns", "add", namespace)
            pair = ("type", "veth", "peer", "name", "wire0", "netns", namespace)
            ip("-n", self.hub, "link", "add", port, *pair)
            ip("-n", self.hub, "link", "set", port, "master", "bridge0", "up")
            self._configure(name, "wire0")
            add = ("tc", "qdisc", "add", "dev", "wire0", "root", "netem")
            _run(*self.prefix(name), *add, *NETEM.split())

    def partition(self, side: Sequence[str]) -> None:
        for name in side:
            ip("-n", self.hub, "link", "set", f"port-{name}", "down")

    def heal(self) -> None:
        for name in self.names:
            ip("-n", self.hub, "link", "set", f"port-{name}", "up")


class TunHosts(Hosts):
    """Hosts with TUN devices; call :meth:`forward` on the event loop."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.injector = FaultInjector(FAULTS, seed=1)
        self._files: dict[str, int] = {}
        self._by_address: dict[bytes, str] = {}
        for index, name in enumerate(names):
            device = f"ante{os.getpid() % 100_000}-{index}"
            self._files[name] = tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            request = struct.pack("16sH", device.encode(), IFF_TUN_WITHOUT_HEADER)
            fcntl.ioctl(tun, TUNSETIFF, request)
            ip("netns", "add", self.namespace[name])
            ip("link", "set", device, "netns", self.namespace[name])
            self._configure(name, device)
            address = bytes(map(int, self.address[name].split(".")))
            self._by_address[address] = name

    def forward(self) -> None:
        """Start to forward packets."""
        loop = asyncio.get_running_loop()
        for name, tun in self._files.items():
            loop.add_reader(tun, self._read, name)

    def _read(self, source: str) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self._files[source], PACKET_MAX)
                target = (
                    self._by_address.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                )
                if target is None:
                    continue
                delays = self.injector.delays(source, target, len(packet), loop.time())
                for delay in delays:
                    loop.call_later(delay, self._write, target, packet)

    def _write(self, target: str, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # The queue is full, or the host was deleted.
            os.write(self._files[target], packet)

    def partition(self, side: Sequence[str]) -> None:
        self.injector.partition(side, [name for name in self.names if name not in side])

    def heal(self) -> None:
        self.injector.heal()

    def stop(self) -> None:
        loop = asyncio.get_running_loop()
        for tun in self._files.values():
            loop.remove_reader(tun)

    def close(self) -> None:
        for tun in self._files.values():
            os.close(tun)


@contextlib.contextmanager
def open_hosts(kind: type[Hosts], names: Sequence[str]) -> Iterator[Hosts]:
    """Create hosts, and delete them; raise OSError if the system does not allow it."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise OSError("the command ip or tc is missing")
    hosts: Hosts | None = None
    try:
        hosts = kind(names)
        yield hosts
    finally:
        if isinstance(hosts, TunHosts):
            hosts.close()
        created = Hosts(names)
        for namespace in (*created.namespace.values(), created.hub):
            with contextlib.suppress(OSError):  # It was not created.
                ip("netns", "del", namespace)
