"""Spans of every format: inferred messages and missing information."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from antecede.errors import ConfigError
from antecede.ingest import ingest
from antecede.trace.reader import read_trace
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.foreign_samples import (
    MS,
    SHOP_HISTORIES,
    SHOP_SPANS,
    SPAN_FORMATS,
    Span,
    changed,
    histories,
    ingest_file,
    span_csv,
    verify_file,
    write_sample,
    zipkin_spans,
)


def descriptions(found: Sequence[object]) -> list[str]:
    return [str(each).split(": ")[0] for each in found]


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_every_format_gives_the_same_histories(name: str, tmp_path: Path) -> None:
    file = write_sample(tmp_path / "file", SPAN_FORMATS[name](SHOP_SPANS))
    ingested = ingest_file(file, tmp_path / "out")
    assert ingested.summary.format_name == name
    assert ingested.summary.records == len(SHOP_SPANS)
    assert histories(ingested) == SHOP_HISTORIES


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_a_request_that_overtakes_another_is_a_violation(name: str, tmp_path: Path) -> None:
    verdict = verify_file(
        write_sample(tmp_path / "file", SPAN_FORMATS[name](SHOP_SPANS)), tmp_path / "out"
    )
    assert verdict.status is Status.VIOLATED
    assert verdict.trace_verdict.counts[Property.FIFO] == 1
    assert verdict.trace_verdict.counts[Property.CAUSAL] == 1
    assert "stöck delivered shop:2" in str(verdict)
    assert "before shop:1" in str(verdict)


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_requests_in_order_are_not_a_violation(name: str, tmp_path: Path) -> None:
    spans = changed(changed(SHOP_SPANS, "e", begin=72, end=75), "d", end=85)
    verdict = verify_file(
        write_sample(tmp_path / "file", SPAN_FORMATS[name](spans)), tmp_path / "out"
    )
    assert verdict.status is Status.HELD, str(verdict)
    assert verdict.trace_verdict.messages == 4


def test_a_violation_names_the_lines_of_its_messages(tmp_path: Path) -> None:
    verdict = verify_file(
        write_sample(tmp_path / "file", span_csv(SHOP_SPANS)), tmp_path / "out"
    )
    # Span b, which sends the first message, is the second after the header.
    assert "delivered shop:2 (line 5) before shop:1 (line 3)" in str(verdict)


def test_a_span_without_a_kind_is_a_call_span_if_it_has_one_child(
    tmp_path: Path,
) -> None:
    spans = [changed(SHOP_SPANS, s.id, kind=None)[n] for n, s in enumerate(SHOP_SPANS)]
    assert (
        histories(
            ingest_file(write_sample(tmp_path / "f", span_csv(spans)), tmp_path / "o")
        )
        == SHOP_HISTORIES
    )


def test_several_calls_in_one_span_are_not_verified_and_are_located(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind=None, begin=0, end=90),
        Span(id="b", parent="a", process="stock", kind=None, begin=10, end=20),
        Span(id="c", parent="a", process="price", kind=None, begin=30, end=40),
    ]
    verdict = verify_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    assert verdict.status is Status.UNKNOWN
    assert verdict.trace_verdict.messages == 0
    (diagnostic,) = verdict.ingested.summary.missing
    assert (diagnostic.count, [each.line for each in diagnostic.locations]) == (2, [3, 4])
    assert [each.process for each in diagnostic.locations] == ["stock", "price"]
    assert verdict.ingested.summary.verified == 1


def test_a_message_of_a_producer_has_no_reply_and_many_consumers(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind="producer", begin=0, end=1),
        Span(id="b", parent="a", process="stock", kind="consumer", begin=10, end=20),
        Span(id="c", parent="a", process="price", kind=None, begin=30, end=40),
    ]
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    assert histories(ingested) == {
        "shop": [("send", "shop:1"), ("local", None)],
        "stock": [("deliver", "shop:1"), ("local", None)],
        "price": [("deliver", "shop:1"), ("local", None)],
    }
    assert ingested.summary.unknown == 0


def test_the_order_of_a_process_does_not_depend_on_the_clocks_of_others(
    tmp_path: Path,
) -> None:
    """Stock's clock is an hour late: the verdict is the same, and the skew is reported."""
    hour = 3_600_000
    late = [
        s
        if s.process == "shop"
        else changed([s], s.id, begin=s.begin - hour, end=s.end - hour)[0]
        for s in SHOP_SPANS
    ]
    verdict = verify_file(write_sample(tmp_path / "file", span_csv(late)), tmp_path / "out")
    assert histories(verdict.ingested) == SHOP_HISTORIES
    skew = verdict.ingested.summary.skew
    assert skew is not None
    assert (skew.messages, skew.count) == (4, 2)
    (pair,) = skew.pairs
    assert (pair.source, pair.target, pair.count) == ("shop", "stöck", 2)
    # The message sent at 20 arrived at 30, by a clock that is an hour late.
    assert pair.worst_ns == (hour - 10) * MS
    assert f"{hour - 10}.000 ms" in str(verdict)


def test_consistent_timestamps_have_no_skew(tmp_path: Path) -> None:
    skew = ingest_file(
        write_sample(tmp_path / "file", span_csv(SHOP_SPANS)), tmp_path / "o"
    ).summary.skew
    assert skew is not None
    assert (skew.count, skew.pairs) == (0, ())


def test_a_span_starts_after_its_parent_for_any_timestamps(tmp_path: Path) -> None:
    """Stock sends a request because of another one, so it sends it after that."""
    spans = [
        *SHOP_SPANS[:3],
        Span(id="f", parent="c", process="stöck", kind="client", begin=45, end=60),
        Span(id="g", parent="f", process="price", kind="server", begin=50, end=55),
    ]
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    assert histories(ingested)["stöck"][:2] == [("deliver", "shop:1"), ("send", "stöck:1")]
    assert descriptions(ingested.summary.notes) == [
        "1 spans that start before their cause, by their own clock"
    ]


def test_a_callback_is_delivered_after_the_call_that_caused_it(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind="server", begin=10, end=90),
        Span(id="b", parent="a", process="shop", kind="client", begin=10, end=90),
        Span(id="c", parent="b", process="stock", kind="server", begin=20, end=80),
        Span(id="d", parent="c", process="stock", kind="client", begin=30, end=70),
        Span(id="e", parent="d", process="shop", kind="server", begin=9, end=50),
    ]
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    assert histories(ingested)["shop"][:3] == [
        ("local", None), ("send", "shop:1"), ("deliver", "stock:1"),
    ]  # fmt: skip


def test_coarse_timestamps_among_finer_ones_are_noted(tmp_path: Path) -> None:
    fine = span_csv(SHOP_SPANS).replace(
        f"{1_700_000_000_010 * MS}", f"{1_700_000_000_010 * MS + 7}"
    )
    ingested = ingest_file(write_sample(tmp_path / "file", fine), tmp_path / "out")
    (note,) = ingested.summary.notes
    assert (note.count, note.locations[0].process) == (3, "shop")
    assert ingested.summary.missing == ()
    assert "whole milliseconds" in note.description


def test_the_order_of_two_calls_with_equal_timestamps_is_unknown(tmp_path: Path) -> None:
    """Stöck starts both at 30: either request may have been delivered first."""
    verdict = verify_file(
        write_sample(tmp_path / "file", span_csv(changed(SHOP_SPANS, "c", begin=30))),
        tmp_path / "out",
    )
    (diagnostic,) = verdict.ingested.summary.missing
    assert "whose order" in diagnostic.description
    assert (diagnostic.count, diagnostic.locations[0].process) == (1, "stöck")
    # The other request, and both replies.
    assert verdict.trace_verdict.messages == 3
    assert verdict.ingested.summary.unknown == 1


def test_whole_milliseconds_do_not_order_calls_within_one(tmp_path: Path) -> None:
    """A span that started in millisecond 30 may have started after 30.4."""
    begin = 1_700_000_000_030 * MS
    text = span_csv(changed(SHOP_SPANS, "c", begin=30))
    finer = text.replace(f"{begin},", f"{begin + 400_000},", 1)
    verdict = verify_file(write_sample(tmp_path / "file", finer), tmp_path / "out")
    (diagnostic,) = verdict.ingested.summary.missing
    assert (diagnostic.count, diagnostic.locations[0].line) == (1, 6)
    apart = text.replace(f"{begin},", f"{begin + MS},", 1)
    verdict = verify_file(write_sample(tmp_path / "apart", apart), tmp_path / "out 2")
    assert verdict.ingested.summary.missing == ()


def test_a_span_starts_before_its_descendants_for_any_resolution(
    tmp_path: Path,
) -> None:
    spans = [
        *SHOP_SPANS[:3],
        Span(id="f", parent="c", process="stöck", kind="client", begin=50, end=60),
        Span(id="g", parent="f", process="price", kind="server", begin=52, end=55),
    ]
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    assert ingested.summary.missing == ()
    assert histories(ingested)["stöck"][:2] == [("deliver", "shop:1"), ("send", "stöck:1")]


@pytest.mark.parametrize(
    ("spans", "description", "line"),
    [
        (
            changed(SHOP_SPANS, "e", parent="x"),
            "1 spans whose parent is not in the files",
            6,
        ),
        (changed(SHOP_SPANS, "e", id="c"), "1 spans with the id of another span", 6),
        (changed(SHOP_SPANS, "c", end=49), "1 spans that end before they start", 4),
        (
            changed(SHOP_SPANS, "a", parent="d"),
            "5 spans in a cycle of parents, or below one",
            2,
        ),
    ],
    ids=["parent missing", "same id", "backwards", "cycle"],
)
def test_missing_information_is_located_and_leaves_the_verdict_unknown(
    spans: list[Span], description: str, line: int, tmp_path: Path
) -> None:
    verdict = verify_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    missing = verdict.ingested.summary.missing
    assert descriptions(missing)[0] == description
    assert missing[0].locations[0].line == line
    assert f"file:{line}" in str(verdict)
    assert verdict.trace_verdict.statuses[Property.NO_DUPLICATION].value == "unknown"
    assert verdict.ingested.summary.unknown >= missing[0].count
    assert verdict.status is not Status.HELD


def test_the_halves_of_a_shared_span_are_a_call(tmp_path: Path) -> None:
    found = zipkin_spans(
        [
            Span(id="a", process="shop", kind="client", begin=0, end=90),
            Span(id="a", process="stock", kind="server", begin=10, end=80),
            Span(id="b", parent="a", process="stock", kind="client", begin=20, end=70),
            Span(id="b", parent="a", process="price", kind="server", begin=30, end=60),
        ]
    )
    found[1]["shared"] = found[3]["shared"] = True
    ingested = ingest_file(
        write_sample(tmp_path / "file", json.dumps(found)), tmp_path / "out"
    )
    assert ingested.summary.missing == ()
    assert histories(ingested) == {
        "shop": [("send", "shop:1"), ("deliver", "stock:2")],
        "stock": [
            ("deliver", "shop:1"), ("send", "stock:1"), ("deliver", "price:1"),
            ("send", "stock:2"),
        ],
        "price": [("deliver", "stock:1"), ("send", "price:1")],
    }  # fmt: skip


def test_a_shared_half_whose_other_half_is_missing_has_its_own_parent(
    tmp_path: Path,
) -> None:
    found = zipkin_spans(
        [
            Span(id="a", process="shop", kind="client", begin=0, end=90),
            Span(id="b", parent="a", process="stock", kind="server", begin=10, end=80),
        ]
    )
    found[1]["shared"] = True
    ingested = ingest_file(
        write_sample(tmp_path / "file", json.dumps(found)), tmp_path / "out"
    )
    assert ingested.summary.missing == ()
    assert histories(ingested)["stock"] == [("deliver", "shop:1"), ("send", "stock:1")]


def test_the_trace_has_names_times_and_missing_information(tmp_path: Path) -> None:
    spans = changed(SHOP_SPANS, "e", parent="x")
    ingested = ingest_file(
        write_sample(tmp_path / "file", span_csv(spans)), tmp_path / "out"
    )
    info = read_trace(ingested.directory).info
    assert set(info.names.values()) == {"shop", "stöck"}
    assert info.parameters["format"] == "spancsv"
    assert info.parameters["time_zero_ns"] == 1_700_000_000_000 * MS
    assert len(info.missing) == 1
    times = [event.time for event in read_trace(ingested.directory).events()]
    assert (min(times), max(times)) == (0.0, 0.09)


def test_files_that_belong_together_are_one_run(tmp_path: Path) -> None:
    first = write_sample(tmp_path / "first.csv", span_csv(SHOP_SPANS[:2]))
    second = write_sample(tmp_path / "second.csv", span_csv(SHOP_SPANS[2:]))
    (ingested,) = ingest([first, second], tmp_path / "out")
    assert histories(ingested) == SHOP_HISTORIES
    assert ingested.summary.files == (str(first), str(second))


def test_a_span_in_two_files_is_one_span(tmp_path: Path) -> None:
    """A recorder that starts a file every minute can write a span to two files."""
    first = write_sample(tmp_path / "first.csv", span_csv(SHOP_SPANS[:4]))
    second = write_sample(tmp_path / "second.csv", span_csv(SHOP_SPANS[2:]))
    (ingested,) = ingest([first, second], tmp_path / "out")
    assert histories(ingested) == SHOP_HISTORIES
    (note,) = ingested.summary.notes
    assert [(each.file, each.line) for each in note.locations] == [
        (str(second), 2), (str(second), 3),
    ]  # fmt: skip
    assert (ingested.summary.records, ingested.summary.unknown) == (7, 0)


def test_a_directory_with_a_trace_is_an_error(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "file", span_csv(SHOP_SPANS))
    ingest_file(file, tmp_path / "out")
    with pytest.raises(ConfigError, match="already holds a trace"):
        ingest_file(file, tmp_path / "out")
