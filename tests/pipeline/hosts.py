"""Hosts of a cluster on one machine, each with a network address and disks of its own.

A host is a network namespace on a bridge. Every command on a host gets a mount namespace:
``/tmp`` is empty and its own, :data:`SHARED` is a directory that all hosts share, and
directories can be hidden, such as software that is not installed there. All else is the
same on all hosts, like the image of a cluster.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.net.namespaces import ip

SHARED = "/mnt"
ON_HOST = """
set -e
hostname "$1"
mount --bind "$2" /mnt
mount --bind "$2/hosts" /etc/hosts
for hidden in $3; do mount -t tmpfs tmpfs "$hidden"; done
mount -t tmpfs tmpfs /tmp
shift 3
exec "$@"
"""


class ClusterHosts:
    """Hosts that reach each other by name."""

    def __init__(
        self, names: Sequence[str], shared: Path, hidden: Mapping[str, Sequence[Path]]
    ) -> None:
        self.shared = shared
        self.address = {name: f"10.78.0.{n}" for n, name in enumerate(names, 1)}
        self._hidden = hidden
        pid = os.getpid()
        self._namespace = {name: f"antecede-{pid}-{name}" for name in names}
        self._hub = f"antecede-{pid}-hub"

    def start(self) -> None:
        """Create the network; raise OSError if the system does not allow it."""
        lines = [f"{address} {name}" for name, address in self.address.items()]
        (self.shared / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        ip("netns", "add", self._hub)
        ip("-n", self._hub, "link", "add", "bridge0", "type", "bridge")
        ip("-n", self._hub, "link", "set", "bridge0", "up")
        for name, namespace in self._namespace.items():
            ip("netns", "add", namespace)
            pair = ("type", "veth", "peer", "name", "wire0", "netns", namespace)
            ip("-n", self._hub, "link", "add", f"port-{name}", *pair)
            ip("-n", self._hub, "link", "set", f"port-{name}", "master", "bridge0", "up")
            address = f"{self.address[name]}/24"
            ip("-n", namespace, "addr", "add", address, "dev", "wire0")
            ip("-n", namespace, "link", "set", "wire0", "up")
            ip("-n", namespace, "link", "set", "lo", "up")
        done = subprocess.run([*self.prefix("master"), "true"], capture_output=True)
        if done.returncode:
            raise OSError(done.stderr.decode().strip())

    def prefix(self, name: str) -> list[str]:
        """Return the prefix that makes a command run on a host."""
        hidden = " ".join(map(str, self._hidden.get(name, ())))
        return [
            *("ip", "netns", "exec", self._namespace[name]),
            *("unshare", "--mount", "--propagation", "private", "--uts"),
            *("sh", "-c", ON_HOST, "sh", name, str(self.shared), hidden),
        ]

    def stop(self) -> None:
        for namespace in (*self._namespace.values(), self._hub):
            with contextlib.suppress(OSError):
                ip("netns", "delete", namespace)


@contextmanager
def open_cluster_hosts(
    names: Sequence[str], shared: Path, hidden: Mapping[str, Sequence[Path]]
) -> Iterator[ClusterHosts]:
    """Yield hosts; raise OSError if the system does not allow namespaces."""
    hosts = ClusterHosts(names, shared, hidden)
    try:
        hosts.start()
        yield hosts
    finally:
        hosts.stop()
