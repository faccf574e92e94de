"""Hosts on one machine: network namespaces, and what joins them.

Two ways. *netem*: each host has one end of a veth pair whose other end is in a bridge, and
the kernel's netem loses, delays, duplicates and reorders. *wire*: each host has a TUN
device, and this process carries the packets, with the faults of the proxy; for kernels
without netem. In both, packets go through the hosts' real stacks, which cut and join them.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence

from antecede.net.proxy import Fate, Faults

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
NETEM = "delay 100ms 20ms loss 20% duplicate 5% reorder 25% 50%"
FAULTS = Faults(loss=0.2, duplicate=0.05, delay_s=0.1, jitter_s=0.04)
PACKET_MAX = 65_536


def ip(*words: str) -> None:
    """Run ip, and raise with what it says if it fails."""
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


class Hosts:
    """Namespaces, one for each name, that reach each other."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        mark = os.getpid()
        self.space = {name: f"antecede-{mark}-{name}" for name in names}
        self.hub = f"antecede-{mark}-hub"
        self.address = {name: f"10.77.0.{n}" for n, name in enumerate(names, 1)}

    def prefix(self, name: str) -> list[str]:
        """Return what to put before a command that is to run on a host."""
        return ["ip", "netns", "exec", self.space[name]]

    def part(self, side: Sequence[str]) -> None:
        """Cut some hosts off from the others, and from each other."""
        raise NotImplementedError

    def heal(self) -> None:
        raise NotImplementedError

    def _configure(self, name: str, device: str) -> None:
        space = self.space[name]
        ip("-n", space, "addr", "add", f"{self.address[name]}/24", "dev", device)
        ip("-n", space, "link", "set", device, "up")
        ip("-n", space, "link", "set", "lo", "up")


class NetemHosts(Hosts):
    """Joined by a bridge, with the kernel's faults."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge0", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge0", "up")
        for name in names:
            space, port = self.space[name], f"port-{name}"
            ip("netns", "add", space)
            pair = ("type", "veth", "peer", "name", "wire0", "netns", space)
            ip("-n", self.hub, "link", "add", port, *pair)
            ip("-n", self.hub, "link", "set", port, "master", "bridge0", "up")
            self._configure(name, "wire0")
            add = ("tc", "qdisc", "add", "dev", "wire0", "root", "netem")
            _run(*self.prefix(name), *add, *NETEM.split())

    def part(self, side: Sequence[str]) -> None:
        for name in side:
            ip("-n", self.hub, "link", "set", f"port-{name}", "down")

    def heal(self) -> None:
        for name in self.names:
            ip("-n", self.hub, "link", "set", f"port-{name}", "up")


class WiredHosts(Hosts):
    """Joined by this process; :meth:`carry` is to be called on its loop."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.fate = Fate(FAULTS, seed=1)
        self._files: dict[str, int] = {}
        self._by_address: dict[bytes, str] = {}
        for place, name in enumerate(names):
            device = f"ante{os.getpid() % 100_000}-{place}"
            self._files[name] = tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            request = struct.pack("16sH", device.encode(), IFF_TUN_WITHOUT_HEADER)
            fcntl.ioctl(tun, TUNSETIFF, request)
            ip("netns", "add", self.space[name])
            ip("link", "set", device, "netns", self.space[name])
            self._configure(name, device)
            address = bytes(map(int, self.address[name].split(".")))
            self._by_address[address] = name

    def carry(self) -> None:
        """Carry packets from now on."""
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
                delays = self.fate.delays(source, target, len(packet), loop.time())
                for delay in delays:
                    loop.call_later(delay, self._write, target, packet)

    def _write(self, target: str, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # Its queue is full, or the host has gone.
            os.write(self._files[target], packet)

    def part(self, side: Sequence[str]) -> None:
        self.fate.part(side, [name for name in self.names if name not in side])

    def heal(self) -> None:
        self.fate.heal()

    def stop(self) -> None:
        loop = asyncio.get_running_loop()
        for tun in self._files.values():
            loop.remove_reader(tun)

    def close(self) -> None:
        for tun in self._files.values():
            os.close(tun)


@contextlib.contextmanager
def open_hosts(kind: type[Hosts], names: Sequence[str]) -> Iterator[Hosts]:
    """Make hosts, and unmake them; raise OSError where that cannot be done."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise OSError("there is no ip, or no tc")
    hosts: Hosts | None = None
    try:
        hosts = kind(names)
        yield hosts
    finally:
        if isinstance(hosts, WiredHosts):
            hosts.close()
        plain = Hosts(names)
        for space in (*plain.space.values(), plain.hub):
            with contextlib.suppress(OSError):  # It was not made.
                ip("netns", "del", space)
