"""The removal of a peer, which lasts until the end of its lease."""

from antecede.net.runtime import NodeRuntime

__all__ = ["remove_peer"]


async def remove_peer(runtime: NodeRuntime, name: str, *, stopped: bool) -> None:
    """Remove a peer, and wait until the copies to it are abandoned."""
    runtime.opened_socket()
    now = runtime.now_s()
    lease_ends = runtime.opened_engine().remove_peer(name, now, stopped=stopped)
    runtime.process_output(now)
    while now < lease_ends:
        await runtime.waiters.sleep(lease_ends - now)
        now = runtime.now_s()
    runtime.run_timers()
