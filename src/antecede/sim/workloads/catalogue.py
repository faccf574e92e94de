"""The workloads by name, for the command line and studies.

``hotspot:hot=0.05,share=0.9`` is the workload ``hotspot`` with two parameters;
``program:FILE.json`` and ``replay:DIRECTORY`` take a path.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from antecede.errors import ConfigError
from antecede.sim.distribution import parameters
from antecede.sim.workloads.program import Program, load_program, replay
from antecede.sim.workloads.services import (
    Conversation,
    Microservices,
    Pipeline,
    RequestReply,
)
from antecede.sim.workloads.synthetic import Broadcast, Groups, Hotspot, Pace, Uniform
from antecede.sim.workloads.workload import Workload

__all__ = ["WORKLOADS", "make_workload", "workload_parameters"]

WORKLOADS: dict[str, tuple[Callable[..., Workload], dict[str, type[int] | type[float]]]] = {
    "uniform": (Uniform, {"fan_out": int, "peers": int}),
    "hotspot": (Hotspot, {"hot": float, "share": float}),
    "groups": (Groups, {"group": int}),
    "broadcast": (Broadcast, {"senders": int}),
    "pipeline": (Pipeline, {}),
    "request-reply": (RequestReply, {"servers": float}),
    "conversation": (Conversation, {"reply_share": float, "depth": int}),
    "microservices": (Microservices, {"layers": int, "fan_out": int}),
}
"""The class of each workload, and the types of its parameters."""


def make_workload(text: str, processes: int, messages: int, pace: Pace) -> Workload:
    """Make the workload named by ``text``; raise ConfigError if it is not valid.

    A program or a replay has its own number of processes and messages.
    """
    name, _, rest = text.partition(":")
    if name == "program":
        return load_program(Path(rest))
    if name == "replay":
        return _make_replay(Path(rest))
    if name not in WORKLOADS:
        names = ", ".join((*WORKLOADS, "program:FILE", "replay:DIRECTORY"))
        raise ConfigError(f"unknown workload {name!r}; choose one of: {names}")
    factory, known = WORKLOADS[name]
    return factory(processes, messages, pace, **parameters(f"workload {name}", rest, known))


def workload_parameters(text: str) -> dict[str, int | float]:
    """Return the parameters in ``text``; raise ConfigError if one is not valid."""
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        return {}
    return parameters(f"workload {name}", rest, WORKLOADS[name][1])


def _make_replay(path: Path) -> Workload:
    from antecede.trace.schema import EVENTS_NAME

    # A study makes the workload of every cell several times. A trace changes only if it is
    # replaced.
    try:
        written_ns = (path / EVENTS_NAME).stat().st_mtime_ns
    except OSError:
        written_ns = 0  # Not a run: read_trace raises the specific error.
    return _read_replay(path.absolute(), written_ns).fresh()


@lru_cache(maxsize=1)
def _read_replay(path: Path, written_ns: int) -> Program:
    from antecede.trace.reader import read_trace

    trace = read_trace(path)
    events = list(trace.events())
    processes = trace.info.processes
    if processes is None:
        processes = 1 + max((event.process for event in events), default=1)
    return replay(events, processes)
