"""Generate spans of a service graph: ``python -m bench.generate_spans OUT --spans N``.

The spans are those of random trees of calls between services, in Parquet files, with ids
like those of OpenTelemetry. The clock
of each service has a constant offset of up to 50 ms and drifts by up to 1 part in 100,000.
In a thousandth of the calls each, the client times out before the reply, the client tries
again, or a span is lost.

The trees are copies of some templates, whose times are stretched by a random factor, so
that 50 million spans take a few minutes.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START_NS = 1_700_000_000_000_000_000
TEMPLATES = 500
SERVICES = 60
FILE_SPANS = 2_000_000
SPANS_PER_SECOND = 20_000
RARE = 0.001
SKEW_NS = 50_000_000
DRIFT = 1e-5
KINDS = pa.array(["server", "client"])
SPAN_BITS = 6
DIGITS = np.array([tuple(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
"""By byte, its two hexadecimal digits."""

__all__ = ["generate_spans"]


@dataclass
class Template:
    """A tree of spans; times are relative to its start."""

    parent: list[int]
    service: list[int]
    kind: list[int]
    start: list[int]
    end: list[int]


def _serve(found: Template, random: Random, parent: int, service: int, at: int) -> int:
    """Add the span of a request with all its calls; return its end."""
    index = _add(found, parent, service, 0, at)
    depth_left = 30 - len(found.parent)
    at += random.randint(10_000, 500_000)
    for _ in range(random.choice((0, 1, 1, 2, 3)) if depth_left > 0 else 0):
        at = _call(found, random, index, service, at) + random.randint(10_000, 500_000)
    found.end[index] = at
    return at


def _call(found: Template, random: Random, parent: int, service: int, at: int) -> int:
    """Add a client span and the span of the service that it calls; return its end."""
    index = _add(found, parent, service, 1, at)
    target = (service + random.choice((1, 2, 3, 5, 8))) % SERVICES
    served = _serve(found, random, index, target, at + random.randint(100_000, 2_000_000))
    end = served + random.randint(100_000, 2_000_000)
    if random.random() < RARE:  # The client gives up, and the server continues.
        end = at + (served - at) // 2
    found.end[index] = end
    if random.random() < RARE:  # The client tries again.
        return _call(found, random, parent, service, end + 1_000)
    return end


def _add(found: Template, parent: int, service: int, kind: int, at: int) -> int:
    found.parent.append(parent)
    found.service.append(service)
    found.kind.append(kind)
    found.start.append(at)
    found.end.append(at)
    return len(found.parent) - 1


def _templates(random: Random) -> list[Template]:
    templates: list[Template] = []
    while len(templates) < TEMPLATES:
        found = Template([], [], [], [], [])
        _serve(found, random, -1, random.randrange(SERVICES), 0)
        if len(found.parent) > 1:
            templates.append(found)
    return templates


def generate_spans(directory: Path, spans: int, *, seed: int = 1) -> None:
    """Write about ``spans`` spans as Parquet files, unless the directory is complete."""
    if (directory / "_SUCCESS").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    random, numbers = Random(seed), np.random.default_rng(seed)
    templates = _templates(random)
    offset = numbers.integers(-SKEW_NS, SKEW_NS, SERVICES)
    drift = numbers.uniform(-DRIFT, DRIFT, SERVICES)
    written, trace, index = 0, 0, 0
    while written < spans:
        wanted = min(FILE_SPANS, spans - written)
        begin = int(written / SPANS_PER_SECOND * 1e9)
        duration = int(wanted / SPANS_PER_SECOND * 1e9)
        table, traces = _file(templates, numbers, wanted, trace, begin, duration)
        service = table["service"].to_numpy()
        columns = {}
        for name in ("start", "end"):
            time = table[name].to_numpy()
            shown = time + offset[service] + (time * drift[service]).astype(np.int64)
            columns[f"{name}_ns"] = pa.array(START_NS + shown)
        names = pa.array([f"service-{i:02}" for i in range(SERVICES)])
        process = pa.DictionaryArray.from_arrays(pa.array(service.astype(np.int8)), names)
        kept = pa.array(numbers.random(len(service)) >= RARE)
        full = pa.table(
            {
                **{name: table[name] for name in ("trace", "span", "parent", "kind")},
                "process": process.cast(pa.string()),
                **columns,
            }
        )
        pq.write_table(full.filter(kept), directory / f"part-{index:04}.parquet")
        written, trace, index = written + len(service), trace + traces, index + 1
        print(f"{written:,} spans", file=sys.stderr, flush=True)
    (directory / "_SUCCESS").touch()


def _file(
    templates: list[Template],
    numbers: np.random.Generator,
    spans: int,
    first_trace: int,
    begin: int,
    duration: int,
) -> tuple[pa.Table, int]:
    """Return about ``spans`` spans, and the number of their traces."""
    sizes = np.array([len(each.parent) for each in templates])
    count = max(1, int(spans / sizes.mean()))
    chosen = numbers.integers(len(templates), size=count)
    rows: dict[str, list[np.ndarray]] = {}
    for number in np.unique(chosen):
        template = templates[number]
        which = np.flatnonzero(chosen == number)
        stretch = numbers.uniform(0.5, 2.0, len(which))[:, None]
        at = begin + numbers.integers(duration, size=len(which))[:, None]
        size = len(template.parent)
        parts = {
            "trace": np.repeat(first_trace + which, size),
            "index": np.tile(np.arange(size), len(which)),
            "parent": np.tile(template.parent, len(which)),
            "service": np.tile(template.service, len(which)),
            "kind": np.tile(template.kind, len(which)),
            "start": (at + (stretch * template.start).astype(np.int64)).ravel(),
            "end": (at + (stretch * template.end).astype(np.int64)).ravel(),
        }
        for name, part in parts.items():
            rows.setdefault(name, []).append(part)
    found = {name: np.concatenate(parts) for name, parts in rows.items()}
    order = np.argsort(found["end"])  # Spans are recorded when they end.
    found = {name: column[order] for name, column in found.items()}
    own = (found["trace"] << SPAN_BITS) + found["index"]
    parent = (found["trace"] << SPAN_BITS) + found["parent"]
    table = pa.table(
        {
            "trace": _hex_ids(found["trace"], words=2),
            "span": _hex_ids(own, words=1),
            "parent": _hex_ids(parent, words=1, is_null=found["parent"] < 0),
            "kind": KINDS.take(pa.array(found["kind"])),
            "service": found["service"],
            "start": found["start"],
            "end": found["end"],
        }
    )
    return table, count


def _hex_ids(
    number: np.ndarray, *, words: int, is_null: np.ndarray | None = None
) -> pa.Array:
    """Return a different text of 16 hexadecimal digits per word for each number.

    Ids of OpenTelemetry have this form: 16 bytes for a trace, and 8 bytes for a span.
    """
    parts = np.empty((len(number), words), np.uint64)
    for word in range(words):
        parts[:, word] = _scrambled(number.astype(np.uint64) + np.uint64(word << 56))
    data = DIGITS[parts.view(np.uint8)].tobytes()
    offsets = np.arange(len(number) + 1, dtype=np.int32) * (16 * words)
    texts = pa.StringArray.from_buffers(
        len(number), pa.py_buffer(offsets), pa.py_buffer(data)
    )
    if is_null is None:
        return texts
    return pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), texts)


def _scrambled(number: np.ndarray) -> np.ndarray:
    """Return the finalizer of SplitMix64 of each number, which is a bijection."""
    found: np.ndarray = number * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found


def main() -> int:
    """Generate the spans that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="directory for the Parquet files")
    parser.add_argument("--spans", type=int, default=1_000_000, help="number of spans")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    options = parser.parse_args()
    generate_spans(options.out, options.spans, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
