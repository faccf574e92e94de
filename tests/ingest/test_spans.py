"""Spans of every format: what messages they tell of, and what they leave open."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from antecede.errors import ConfigError
from antecede.ingest import ingest
from antecede.trace.reader import read_trace
from antecede.verify import Property
from tests.ingest.story import (
    HISTORIES,
    MS,
    SPAN_FORMATS,
    STORY,
    Span,
    changed,
    histories,
    judge,
    read,
    span_csv,
    write,
    zipkin_spans,
)


def whats(found: Sequence[object]) -> list[str]:
    return [str(each).split(": ")[0] for each in found]


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_every_format_tells_the_same_story(name: str, tmp_path: Path) -> None:
    file = write(tmp_path / "file", SPAN_FORMATS[name](STORY))
    ingested = read(file, tmp_path / "out")
    assert ingested.findings.format_name == name
    assert ingested.findings.records == len(STORY)
    assert histories(ingested) == HISTORIES


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_a_request_that_overtakes_another_is_a_violation(name: str, tmp_path: Path) -> None:
    told = judge(write(tmp_path / "file", SPAN_FORMATS[name](STORY)), tmp_path / "out")
    assert told.exit_code == 1
    assert told.report.counts[Property.FIFO] == 1
    assert told.report.counts[Property.CAUSAL] == 1
    assert "stöck delivered shop:2" in str(told)
    assert "before shop:1" in str(told)


@pytest.mark.parametrize("name", SPAN_FORMATS)
def test_requests_in_their_order_are_none(name: str, tmp_path: Path) -> None:
    spans = changed(changed(STORY, "e", begin=72, end=75), "d", end=85)
    told = judge(write(tmp_path / "file", SPAN_FORMATS[name](spans)), tmp_path / "out")
    assert told.exit_code == 0, str(told)
    assert told.report.messages == 4


def test_a_violation_names_the_lines_of_its_messages(tmp_path: Path) -> None:
    told = judge(write(tmp_path / "file", span_csv(STORY)), tmp_path / "out")
    # Span b, which sends the first message, is the second after the header.
    assert "delivered shop:2 (line 5) before shop:1 (line 3)" in str(told)


def test_calls_are_known_without_a_kind_if_a_span_has_no_other_child(
    tmp_path: Path,
) -> None:
    spans = [changed(STORY, s.id, kind=None)[n] for n, s in enumerate(STORY)]
    assert (
        histories(read(write(tmp_path / "f", span_csv(spans)), tmp_path / "o")) == HISTORIES
    )


def test_several_calls_in_one_span_are_not_judged_and_are_named(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind=None, begin=0, end=90),
        Span(id="b", parent="a", process="stock", kind=None, begin=10, end=20),
        Span(id="c", parent="a", process="price", kind=None, begin=30, end=40),
    ]
    told = judge(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    assert told.exit_code == 4
    assert told.report.messages == 0
    (hole,) = told.ingested.findings.holes
    assert (hole.count, [place.line for place in hole.places]) == (2, [3, 4])
    assert [place.process for place in hole.places] == ["stock", "price"]
    assert told.ingested.findings.judged == 1


def test_a_message_of_a_producer_has_no_reply_and_many_consumers(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind="producer", begin=0, end=1),
        Span(id="b", parent="a", process="stock", kind="consumer", begin=10, end=20),
        Span(id="c", parent="a", process="price", kind=None, begin=30, end=40),
    ]
    ingested = read(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    assert histories(ingested) == {
        "shop": [("send", "shop:1"), ("local", None)],
        "stock": [("deliver", "shop:1"), ("local", None)],
        "price": [("deliver", "shop:1"), ("local", None)],
    }
    assert ingested.findings.unknown == 0


def test_the_order_of_a_process_does_not_depend_on_the_clocks_of_others(
    tmp_path: Path,
) -> None:
    """Stock's clock is an hour late: the verdict is the same, and the skew is told."""
    hour = 3_600_000
    late = [
        s
        if s.process == "shop"
        else changed([s], s.id, begin=s.begin - hour, end=s.end - hour)[0]
        for s in STORY
    ]
    told = judge(write(tmp_path / "file", span_csv(late)), tmp_path / "out")
    assert histories(told.ingested) == HISTORIES
    skew = told.ingested.findings.skew
    assert skew is not None
    assert (skew.messages, skew.count) == (4, 2)
    (pair,) = skew.pairs
    assert (pair.source, pair.target, pair.count) == ("shop", "stöck", 2)
    # What was sent at 20 arrived at 30, an hour before; what was sent at 10, at 50.
    assert pair.worst_ns == (hour - 10) * MS
    assert f"{hour - 10}.000 ms" in str(told)


def test_without_skew_there_is_none(tmp_path: Path) -> None:
    skew = read(write(tmp_path / "file", span_csv(STORY)), tmp_path / "o").findings.skew
    assert skew is not None
    assert (skew.count, skew.pairs) == (0, ())


def test_a_span_starts_after_its_parent_whatever_the_clock_says(tmp_path: Path) -> None:
    """What stock asks was asked for: its request comes after the one that it serves."""
    spans = [
        *STORY[:3],
        Span(id="f", parent="c", process="stöck", kind="client", begin=45, end=60),
        Span(id="g", parent="f", process="price", kind="server", begin=50, end=55),
    ]
    ingested = read(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    assert histories(ingested)["stöck"][:2] == [("deliver", "shop:1"), ("send", "stöck:1")]
    assert whats(ingested.findings.notes) == [
        "1 spans that start before one that caused them, by their own clock"
    ]


def test_a_call_back_comes_after_what_it_was_called_for(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind="server", begin=10, end=90),
        Span(id="b", parent="a", process="shop", kind="client", begin=10, end=90),
        Span(id="c", parent="b", process="stock", kind="server", begin=20, end=80),
        Span(id="d", parent="c", process="stock", kind="client", begin=30, end=70),
        Span(id="e", parent="d", process="shop", kind="server", begin=9, end=50),
    ]
    ingested = read(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    assert histories(ingested)["shop"][:3] == [
        ("local", None), ("send", "shop:1"), ("deliver", "stock:1"),
    ]  # fmt: skip


def test_rough_timestamps_among_finer_ones_are_noted(tmp_path: Path) -> None:
    fine = span_csv(STORY).replace(
        f"{1_700_000_000_010 * MS}", f"{1_700_000_000_010 * MS + 7}"
    )
    ingested = read(write(tmp_path / "file", fine), tmp_path / "out")
    (note,) = ingested.findings.notes
    assert (note.count, note.places[0].process) == (3, "shop")
    assert ingested.findings.holes == ()
    assert "whole milliseconds" in note.what


def test_the_order_of_two_calls_of_one_moment_is_not_guessed_at(tmp_path: Path) -> None:
    """Stöck begins both at 30: what was asked first may have begun first."""
    told = judge(
        write(tmp_path / "file", span_csv(changed(STORY, "c", begin=30))), tmp_path / "out"
    )
    (hole,) = told.ingested.findings.holes
    assert "whose order" in hole.what
    assert (hole.count, hole.places[0].process) == (1, "stöck")
    # The other request, and both replies, which overtook each other.
    assert told.report.messages == 3
    assert told.ingested.findings.unknown == 1


def test_the_order_of_calls_is_not_told_by_whole_milliseconds(tmp_path: Path) -> None:
    """What began in the 30th millisecond may have begun after 30.4."""
    begin = 1_700_000_000_030 * MS
    text = span_csv(changed(STORY, "c", begin=30))
    finer = text.replace(f"{begin},", f"{begin + 400_000},", 1)
    told = judge(write(tmp_path / "file", finer), tmp_path / "out")
    (hole,) = told.ingested.findings.holes
    assert (hole.count, hole.places[0].line) == (1, 6)
    apart = text.replace(f"{begin},", f"{begin + MS},", 1)
    told = judge(write(tmp_path / "apart", apart), tmp_path / "out 2")
    assert told.ingested.findings.holes == ()


def test_a_span_is_before_all_that_it_causes_whatever_the_resolution(
    tmp_path: Path,
) -> None:
    spans = [
        *STORY[:3],
        Span(id="f", parent="c", process="stöck", kind="client", begin=50, end=60),
        Span(id="g", parent="f", process="price", kind="server", begin=52, end=55),
    ]
    ingested = read(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    assert ingested.findings.holes == ()
    assert histories(ingested)["stöck"][:2] == [("deliver", "shop:1"), ("send", "stöck:1")]


@pytest.mark.parametrize(
    ("spans", "what", "line"),
    [
        (changed(STORY, "e", parent="x"), "1 spans whose parent is not in the files", 6),
        (changed(STORY, "e", id="c"), "1 spans with the id of another span", 6),
        (changed(STORY, "c", end=49), "1 spans that end before they start", 4),
        (
            changed(STORY, "a", parent="d"),
            "5 spans in a circle of parents, or below one",
            2,
        ),
    ],
    ids=["parent missing", "same id", "backwards", "circle"],
)
def test_a_hole_leaves_the_verdict_unknown_and_names_the_line(
    spans: list[Span], what: str, line: int, tmp_path: Path
) -> None:
    told = judge(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    holes = told.ingested.findings.holes
    assert whats(holes)[0] == what
    assert holes[0].places[0].line == line
    assert f"file:{line}" in str(told)
    assert told.report.statuses[Property.ONCE].value == "unknown"
    assert told.ingested.findings.unknown >= holes[0].count
    assert told.exit_code in (1, 4)


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
    ingested = read(write(tmp_path / "file", json.dumps(found)), tmp_path / "out")
    assert ingested.findings.holes == ()
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
    ingested = read(write(tmp_path / "file", json.dumps(found)), tmp_path / "out")
    assert ingested.findings.holes == ()
    assert histories(ingested)["stock"] == [("deliver", "shop:1"), ("send", "stock:1")]


def test_the_trace_tells_names_times_and_what_is_missing(tmp_path: Path) -> None:
    spans = changed(STORY, "e", parent="x")
    ingested = read(write(tmp_path / "file", span_csv(spans)), tmp_path / "out")
    info = read_trace(ingested.directory).info
    assert set(info.names.values()) == {"shop", "stöck"}
    assert info.parameters["format"] == "spancsv"
    assert info.parameters["time_zero_ns"] == 1_700_000_000_000 * MS
    assert len(info.holes) == 1
    times = [event.time for event in read_trace(ingested.directory).events()]
    assert (min(times), max(times)) == (0.0, 0.09)


def test_files_that_belong_together_are_one_run(tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", span_csv(STORY[:2]))
    second = write(tmp_path / "second.csv", span_csv(STORY[2:]))
    (ingested,) = ingest([first, second], tmp_path / "out")
    assert histories(ingested) == HISTORIES
    assert ingested.findings.files == (str(first), str(second))


def test_a_span_that_is_in_two_files_is_one_span(tmp_path: Path) -> None:
    """As where a recorder cuts its files by the minute, and a request goes on."""
    first = write(tmp_path / "first.csv", span_csv(STORY[:4]))
    second = write(tmp_path / "second.csv", span_csv(STORY[2:]))
    (ingested,) = ingest([first, second], tmp_path / "out")
    assert histories(ingested) == HISTORIES
    (note,) = ingested.findings.notes
    assert [(place.file, place.line) for place in note.places] == [
        (str(second), 2), (str(second), 3),
    ]  # fmt: skip
    assert (ingested.findings.records, ingested.findings.unknown) == (7, 0)


def test_a_directory_that_holds_a_trace_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "file", span_csv(STORY))
    read(file, tmp_path / "out")
    with pytest.raises(ConfigError, match="holds a trace already"):
        read(file, tmp_path / "out")
