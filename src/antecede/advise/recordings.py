"""Recorded files as workloads: for advice on one of them, and for studies of several."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from antecede.advise.network import Delays, find_delays, typical_delay
from antecede.advise.traffic import (
    RecordedTraffic,
    extract_traffic,
    with_pauses,
    write_traffic,
)
from antecede.errors import ConfigError
from antecede.ingest.conversion import ingest
from antecede.ingest.formats.records import ReadOptions
from antecede.pipeline.study.recordings import RecordedWorkload
from antecede.trace.reader import read_trace

__all__ = ["RecordingReader", "average_messages", "paced_traffic"]


def paced_traffic(
    traffic: RecordedTraffic, delay: str | None = None
) -> tuple[RecordedTraffic, Delays, float | None]:
    """Return the traffic with times, its delays, and the pause if it had no times.

    Args:
        traffic: From :func:`antecede.advise.traffic.extract_traffic`.
        delay: The delay to use; None for that of the recording.

    Raises:
        ConfigError: The delay is not valid.
    """
    delays = find_delays(traffic.events, delay)
    if traffic.has_times:
        return traffic, delays, None
    pause_s = typical_delay(delays.delay)
    return with_pauses(traffic, pause_s), delays, pause_s


def average_messages(traffic: RecordedTraffic) -> int:
    """Return the number of messages of a process, on average, at least 1."""
    return max(1, traffic.messages // traffic.processes)


class RecordingReader:
    """Reads the recordings of a study from one directory, and writes their workloads."""

    def __init__(
        self, source: Path, out: Path, on_progress: Callable[[str], None] | None = None
    ) -> None:
        """Set the directories; ``on_progress`` is called with the name of each file.

        Raises:
            ConfigError: ``source`` is not a directory.
        """
        if not source.is_dir():
            raise ConfigError(f"--recordings: {source} is not a directory")
        self._source = source
        self._out = out
        self._on_progress = on_progress

    def __call__(self, name: str, keys: Mapping[str, str]) -> RecordedWorkload | None:
        """Write the workload of a recording; return None if its file is absent.

        Raises:
            ConfigError: The file has several runs, or nothing to replay.
            TraceError: The file cannot be read.
        """
        path = self._source / keys["file"]
        if not path.is_file():
            return None
        if self._on_progress is not None:
            self._on_progress(f"read {keys['file']}")
        options = ReadOptions(**{k: v for k, v in keys.items() if k != "file"})  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory(prefix="antecede-") as temporary:
            runs = ingest([path], temporary, options=options)
            if len(runs) > 1:
                raise ConfigError(f"recordings.{name}: {path} has {len(runs)} runs")
            trace = read_trace(runs[0].directory)
            traffic = extract_traffic(trace, messages_max=sys.maxsize)
        traffic, delays, _ = paced_traffic(traffic)
        write_traffic(traffic, self._out / name)
        return RecordedWorkload(
            workload=f"replay:{(self._out / name).absolute()}",
            processes=traffic.processes,
            messages=average_messages(traffic),
            delay=delays.delay,
        )
