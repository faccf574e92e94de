"""Calls that ended before their reply, repeated calls, and cycles of happened-before."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from antecede.ingest import IngestedVerdict
from antecede.ingest.event_table import DELIVER, LOCAL, SEND
from antecede.ingest.inference.cycles import messages_in_cycles
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.foreign_samples import (
    SPAN_FORMATS,
    Span,
    histories,
    verify_file,
    write_sample,
)

LATE = "calls that ended before their reply"


def verdict_on(
    spans: Sequence[Span], path: Path, format_name: str = "spancsv"
) -> IngestedVerdict:
    path.mkdir(exist_ok=True)
    file = write_sample(path / "file", SPAN_FORMATS[format_name](spans))
    return verify_file(file, path / "out")


def missing(verdict: IngestedVerdict) -> dict[str, int]:
    return {each.description: each.count for each in verdict.ingested.summary.missing}


RETRIED = (
    Span(id="a", process="shop", kind="client", begin=0, end=100),
    Span(id="b", parent="a", process="stock", kind="server", begin=1010, end=1150),
    Span(id="c", process="shop", kind="client", begin=101, end=140),
    Span(id="d", parent="c", process="stock", kind="server", begin=1105, end=1130),
)
"""Shop gives up after 100 ms and calls again, while stock answers the first call until 150.
Stock's clock is 1 s ahead. If the first reply were delivered at 100, it would have been
sent after the second request, which was sent after 100: a cycle."""


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_the_reply_of_a_call_that_ended_earlier_is_not_delivered(
    name: str, tmp_path: Path
) -> None:
    verdict = verdict_on(RETRIED, tmp_path, name)
    assert histories(verdict.ingested) == {
        "shop": [
            ("send", "shop:1"), ("local", None), ("send", "shop:2"), ("deliver", "stock:1"),
        ],
        "stock": [
            ("deliver", "shop:1"), ("deliver", "shop:2"), ("send", "stock:1"),
            ("missing", None),
        ],
    }  # fmt: skip
    assert missing(verdict) == {LATE: 1}
    (diagnostic,) = verdict.ingested.summary.missing
    assert diagnostic.locations[0].process == "shop"
    assert verdict.status is Status.UNKNOWN


def test_a_late_reply_is_not_a_violation(tmp_path: Path) -> None:
    """At the end of its call, the reply would overtake that of another call."""
    spans = (
        Span(id="a", process="shop", kind="client", begin=0, end=50),
        Span(id="b", parent="a", process="stock", kind="server", begin=10, end=90),
        Span(id="c", process="shop", kind="client", begin=5, end=80),
        Span(id="d", parent="c", process="stock", kind="server", begin=20, end=60),
    )
    verdict = verdict_on(spans, tmp_path)
    assert verdict.trace_verdict.counts[Property.CAUSAL] == 0
    assert missing(verdict) == {LATE: 1}
    # Two requests, the reply of c, and one reply that is not known.
    assert verdict.trace_verdict.delivery_counts(Property.CAUSAL) == (3, 0, 1)


DELAYED = (
    Span(id="r", process="shop", kind="server", begin=0, end=400),
    Span(id="a", parent="r", process="shop", kind="client", begin=10, end=60),
    Span(id="b", parent="a", process="stock", kind="server", begin=1020, end=1040),
    Span(id="c", parent="r", process="shop", kind="client", begin=100, end=150),
    Span(id="d", parent="c", process="stock", kind="server", begin=1300, end=1310),
    Span(id="e", parent="r", process="shop", kind="client", begin=20, end=300),
    Span(id="f", parent="e", process="stock", kind="server", begin=1030, end=1200),
)
"""Stock's clock is 1 s ahead. The request of c is delayed, so that stock serves it at 300,
when shop has given it up. If its reply were delivered at 150, it would overtake that of e.
The call a shows that the difference of the clocks is at most 1,010 ms."""


def test_a_call_whose_request_was_delayed_has_no_reply(tmp_path: Path) -> None:
    verdict = verdict_on(DELAYED, tmp_path)
    assert missing(verdict) == {LATE: 1}
    assert verdict.trace_verdict.counts[Property.FIFO] == 0
    # Three requests, two replies, and one reply that is not known.
    assert verdict.trace_verdict.delivery_counts(Property.FIFO) == (5, 0, 1)
    # Without the call a, the difference of the clocks may be 1,200 ms.
    without = [each for each in DELAYED if each.id not in "abef"]
    assert missing(verdict_on(without, tmp_path / "without")) == {}


@pytest.mark.parametrize(("end", "expected"), [(1311, {}), (1312, {LATE: 1})])
def test_a_time_in_whole_milliseconds_may_be_a_millisecond_too_early(
    end: int, expected: dict[str, int], tmp_path: Path
) -> None:
    # The request of a was received at 1,021 at the latest, so the difference of the clocks
    # is at most 1,011 ms, and c may have ended at 300.
    spans = (
        *DELAYED[:3],
        replace(DELAYED[3], end=299),
        replace(DELAYED[4], end=end),
    )
    assert missing(verdict_on(spans, tmp_path)) == expected


def test_a_called_span_as_long_as_its_call_has_a_reply(tmp_path: Path) -> None:
    spans = (
        Span(id="a", process="shop", kind="client", begin=0, end=50),
        Span(id="b", parent="a", process="stock", kind="server", begin=500, end=550),
    )
    verdict = verdict_on(spans, tmp_path)
    assert verdict.status is Status.HELD
    assert verdict.trace_verdict.deliveries == 2


def test_the_message_of_a_producer_has_no_late_reply(tmp_path: Path) -> None:
    spans = (
        Span(id="a", process="shop", kind="producer", begin=0, end=1),
        Span(id="b", parent="a", process="stock", kind="consumer", begin=10, end=90),
    )
    verdict = verdict_on(spans, tmp_path)
    assert missing(verdict) == {}
    assert verdict.status is Status.HELD


def test_a_client_span_with_repeated_calls_is_unknown(tmp_path: Path) -> None:
    """Stock serves two attempts of one call, and a second call in between."""
    spans = (
        Span(id="a", process="shop", kind="client", begin=0, end=100),
        Span(id="b", parent="a", process="stock", kind="server", begin=10, end=150),
        Span(id="c", parent="a", process="stock", kind="server", begin=70, end=90),
        Span(id="d", process="shop", kind="client", begin=20, end=50),
        Span(id="e", parent="d", process="stock", kind="server", begin=30, end=40),
    )
    verdict = verdict_on(spans, tmp_path)
    assert missing(verdict) == {
        "calls by a span of another process that is not a call span": 2
    }
    assert not verdict.trace_verdict.violations
    # The call d has two deliveries; two attempts would have four.
    for which in (Property.CAUSAL, Property.FIFO, Property.NO_DUPLICATION):
        assert verdict.trace_verdict.delivery_counts(which) == (2, 0, 4)


def test_an_orphan_without_a_kind_is_not_a_call_span(tmp_path: Path) -> None:
    """Its unknown parent may have called it, so that it calls at an unknown time."""
    spans = (
        Span(id="a", parent="x", process="shop", kind=None, begin=0, end=100),
        Span(id="b", parent="a", process="stock", kind=None, begin=50, end=60),
        Span(id="c", process="shop", kind="client", begin=5, end=40),
        Span(id="d", parent="c", process="stock", kind="server", begin=10, end=30),
    )
    verdict = verdict_on(spans, tmp_path)
    assert verdict.trace_verdict.counts[Property.FIFO] == 0
    # The request that a may have delivered; the request and the reply of its call.
    assert verdict.trace_verdict.delivery_counts(Property.CAUSAL) == (2, 0, 3)


def test_the_children_of_spans_with_one_id_are_unknown(tmp_path: Path) -> None:
    spans = (
        Span(id="a", process="shop", kind="client", begin=0, end=100),
        Span(id="a", process="bank", kind="client", begin=200, end=300),
        Span(id="b", parent="a", process="stock", kind="server", begin=50, end=60),
    )
    verdict = verdict_on(spans, tmp_path)
    assert missing(verdict) == {
        "spans with the id of another span": 1,
        "spans with several possible parents": 1,
    }
    assert verdict.trace_verdict.messages == 0


def test_a_span_that_ends_before_it_starts_has_no_messages(tmp_path: Path) -> None:
    """Its clock was set back while it lasted, so its order is not known."""
    spans = (
        Span(id="a", process="shop", kind="client", begin=20, end=10),
        Span(id="b", parent="a", process="stock", kind="server", begin=50, end=40),
        Span(id="c", process="shop", kind="client", begin=0, end=60),
        Span(id="d", parent="c", process="stock", kind="server", begin=55, end=57),
    )
    verdict = verdict_on(spans, tmp_path)
    assert not verdict.trace_verdict.violations
    assert verdict.trace_verdict.delivery_counts(Property.CAUSAL) == (2, 0, 2)


CYCLE = (
    Span(id="a", process="shop", kind="client", begin=0, end=60),
    Span(id="b", parent="a", process="stock", kind="server", begin=50, end=90),
    Span(id="c", process="shop", kind="client", begin=70, end=99),
    Span(id="d", parent="c", process="stock", kind="server", begin=80, end=85),
    Span(id="e", process="bank", kind="client", begin=0, end=20),
    Span(id="f", parent="e", process="stock", kind="server", begin=5, end=15),
)
"""The call a ended at 60 without its reply, of a span that began late and did not last
longer. The durations do not show it, but c was sent after a ended, and delivered before b
ended."""


def test_a_reply_in_a_cycle_is_dropped_and_all_else_verified(tmp_path: Path) -> None:
    verdict = verdict_on(CYCLE, tmp_path)
    assert missing(verdict) == {"spans with a message in a cycle of happened-before": 2}
    # Three requests and two replies remain.
    assert verdict.trace_verdict.delivery_counts(Property.FIFO) == (5, 0, 1)
    assert histories(verdict.ingested)["stock"][-1] == ("local", None)
    assert ("missing", None) in histories(verdict.ingested)["shop"]
    assert verdict.ingested.summary.unknown == 2


def test_a_cycle_of_requests_is_dropped(tmp_path: Path) -> None:
    """By the clocks of shop and stock, each called before it was called."""
    spans = (
        Span(id="a", process="shop", kind="producer", begin=50, end=51),
        Span(id="b", parent="a", process="stock", kind="consumer", begin=10, end=11),
        Span(id="c", process="stock", kind="producer", begin=50, end=51),
        Span(id="d", parent="c", process="shop", kind="consumer", begin=10, end=11),
        Span(id="e", process="shop", kind="producer", begin=70, end=71),
        Span(id="f", parent="e", process="stock", kind="consumer", begin=90, end=91),
    )
    verdict = verdict_on(spans, tmp_path)
    assert missing(verdict) == {"spans with a message in a cycle of happened-before": 4}
    assert verdict.trace_verdict.delivery_counts(Property.CAUSAL) == (1, 0, 2)


def removed(rows: list[tuple[int, int, int]], doubtful: Sequence[int] = ()) -> set[int]:
    """Return the removed messages of rows of process, kind and message."""
    process, kind, message = (np.array(each) for each in zip(*rows, strict=True))
    is_doubtful = np.isin(np.arange(message.max() + 1), doubtful)
    return set(
        messages_in_cycles(process.astype(np.int32), kind, message, is_doubtful).tolist()
    )


def test_only_messages_of_cycles_are_removed() -> None:
    before = [(0, SEND, 0), (1, DELIVER, 0)]
    assert removed(before) == set()
    # 0 and 1 form a cycle; 2 comes before it, 3 after it, and 4 leads from it to nothing.
    cycle = [
        (0, DELIVER, 2), (0, DELIVER, 1), (0, SEND, 0), (0, SEND, 3),
        (1, SEND, 2), (1, LOCAL, -1), (1, DELIVER, 0), (1, SEND, 1), (1, SEND, 4),
        (2, DELIVER, 3), (2, DELIVER, 4),
    ]  # fmt: skip
    assert removed(cycle) == {0, 1}
    assert removed(cycle, doubtful=[1, 3]) == {1}


def test_a_message_delivered_before_its_send_in_one_process_is_removed() -> None:
    assert removed([(0, DELIVER, 0), (0, SEND, 0), (0, SEND, 1), (0, DELIVER, 1)]) == {0}


def test_a_cycle_that_remains_without_doubtful_messages_is_removed() -> None:
    """Messages 0 and 1 form a cycle, and 0 and the doubtful 2 another one."""
    rows = [
        (0, DELIVER, 1), (0, DELIVER, 2), (0, SEND, 0),
        (1, DELIVER, 0), (1, SEND, 1), (1, SEND, 2),
    ]  # fmt: skip
    assert removed(rows, doubtful=[2]) == {0, 1, 2}


@pytest.mark.parametrize("count", [200_000])
def test_a_long_cycle_needs_no_recursion(count: int) -> None:
    """Each process delivers from the previous one, and the first from the last."""
    rows = [
        row for p in range(count) for row in ((p, DELIVER, (p - 1) % count), (p, SEND, p))
    ]
    assert removed(rows) == set(range(count))
