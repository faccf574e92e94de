"""The readers: every layout, every way to be broken, and nothing is lost."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError
from antecede.ingest import FORMATS, Options, find_format, ingest
from antecede.ingest.formats.registry import format_named, read_file
from antecede.ingest.formats.source import Split, cut, lines
from antecede.ingest.timestamps import moments, nanoseconds
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.story import (
    MESSAGES_CSV,
    SHIVIZ,
    SPAN_FORMATS,
    STORY,
    Span,
    as_shiviz,
    as_tracechecker,
    histories,
    jaeger,
    judge,
    random_log,
    read,
    span_csv,
    write,
    zipkin_spans,
)

CLOCK_FIRST = """alice {"alice":1}
Start
alice {"alice":2}
Send
bob {"bob":1, "alice":2}
Got it
"""
ONE_LINE = """alice {"alice":1} Start
alice {"alice":2} Send
bob {"bob":1, "alice":2} Got it
"""
NO_TEXT = """alice {"alice":1}
alice {"alice":2}
bob {"bob":1, "alice":2}
"""
TIMED = """1700000000000000000 Start
alice {"alice":1}
1700000000000000005 Send
alice {"alice":2}
1700000000000000003 Got it
bob {"bob":1, "alice":2}
"""
TEXT_FIRST = "".join(SHIVIZ.splitlines(keepends=True)[:6])

FILES = {
    "shiviz": SHIVIZ,
    "tracechecker": as_tracechecker(random_log(1, steps=12)),
    **{name: writer(STORY) for name, writer in SPAN_FORMATS.items()},
    "messages": MESSAGES_CSV,
}
"""A whole file of every format."""


def records(path: Path, name: str, **options: object) -> list[dict[str, object]]:
    told = Options(**options)  # type: ignore[arg-type]
    batches = read_file(path, format_named(name), told)
    return [row for batch in batches for row in batch.to_pylist()]


def test_there_is_a_file_of_every_format() -> None:
    assert set(FILES) == {each.name for each in FORMATS}


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_found_out_by_its_first_bytes(name: str, tmp_path: Path) -> None:
    assert find_format(write(tmp_path / "x", FILES[name]), Options()).name == name


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["gzip", "crlf", "mark", "no last line end"])
def test_it_does_not_matter_how_a_file_is_stored(
    name: str, way: str, tmp_path: Path
) -> None:
    plain = read(write(tmp_path / "plain", FILES[name]), tmp_path / "out")
    text = FILES[name]
    if way == "crlf":
        text = text.replace("\n", "\r\n")
    if way == "mark":
        text = "\ufeff" + text
    if way == "no last line end":
        text = text.rstrip("\n")
    file = write(tmp_path / ("file.gz" if way == "gzip" else "file"), text)
    other = read(file, tmp_path / "other")
    assert histories(other) == histories(plain)
    assert other.findings.records == plain.findings.records
    assert other.findings.unknown == 0


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file_is_refused(name: str, tmp_path: Path) -> None:
    file = write(tmp_path / "empty", " \n")
    with pytest.raises(ConfigError, match="empty is empty"):
        ingest([file], tmp_path / "out")
    with pytest.raises(ConfigError, match="empty"):
        ingest([file], tmp_path / "out", format_name=name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_anywhere_is_read_up_to_there(name: str, tmp_path: Path) -> None:
    """What is left of it counts, and if a record is cut, that is told with its line."""
    data = FILES[name].encode()
    whole = records(write(tmp_path / "whole", FILES[name]), name)
    file = tmp_path / "cut"
    told = 0
    for size in range(len(data) * 9 // 10, len(data) - 1):
        file.write_bytes(data[:size])
        found = records(file, name)
        good = [row for row in found if row["problem"] is None]
        bad = [row for row in found if row["problem"] is not None]
        assert len(good) <= len(whole)
        assert len(bad) <= len(whole) + 1
        for row in bad:
            assert 1 <= row["line"] <= 1 + data[:size].count(b"\n")  # type: ignore[operator]
        told += bool(bad)
        if name in ("jaeger", "zipkin"):
            # A document that is not closed is never taken for a whole one.
            assert bad
    assert told


@pytest.mark.parametrize("name", ["tracechecker", "shiviz", "zipkin", "spancsv"])
def test_a_gzip_that_ends_too_early_is_read_up_to_there(name: str, tmp_path: Path) -> None:
    log = random_log(1, steps=3000)
    spans = [
        Span(id=f"{n}", process=f"p{n * n % 101}", kind=None, begin=n, end=n + n % 7)
        for n in range(3000)
    ]
    text = {
        "tracechecker": as_tracechecker(log),
        "shiviz": as_shiviz(log),
        "zipkin": SPAN_FORMATS["zipkin"](spans),
        "spancsv": span_csv(spans),
    }[name]
    data = gzip.compress(text.encode())
    (tmp_path / "file.gz").write_bytes(data[: len(data) * 9 // 10])
    found = records(tmp_path / "file.gz", name)
    good = [row for row in found if row["problem"] is None]
    assert 2400 < len(good) < 2950
    last = found[-1]
    assert "damaged: Compressed file ended" in str(last["problem"])
    assert last["line"] >= good[-1]["line"]  # type: ignore[operator]


def test_a_gzip_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(b"x")[:10])
    with pytest.raises(ConfigError, match="line 1: damaged"):
        ingest([tmp_path / "file.gz"], tmp_path / "out")


@pytest.mark.parametrize(
    "text", [TEXT_FIRST, CLOCK_FIRST, ONE_LINE, NO_TEXT, TIMED],
    ids=["text first", "clock first", "one line", "no text", "timed"],
)  # fmt: skip
def test_the_usual_layouts_of_shiviz_logs_are_found_out(text: str, tmp_path: Path) -> None:
    ingested = read(write(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested) == {
        "alice": [("local", None), ("send", "alice:1")],
        "bob": [("deliver", "alice:1")],
    }
    assert ingested.findings.records == 3


def test_the_text_of_an_event_is_the_one_beside_its_clock(tmp_path: Path) -> None:
    for text in (TEXT_FIRST, CLOCK_FIRST, ONE_LINE):
        found = records(write(tmp_path / "log", text), "shiviz")
        assert [row["text"] for row in found] == ["Start", "Send", "Got it"]


def test_timestamps_of_a_log_show_skew(tmp_path: Path) -> None:
    skew = read(write(tmp_path / "log", TIMED), tmp_path / "out").findings.skew
    assert skew is not None
    assert (skew.count, skew.pairs[0].worst_ns) == (1, 2)


EXPRESSION = r"\[(?<host>\w+)\] (?<clock>\{.*?\}) (?<event>.*)"
BRACKETS = """=== first ===
[alice] {"alice":1} Send
This is not an event.
[bob] {"bob":1, "alice":1} Got it
=== second ===
[alice] {"alice":1} Start
"""


def test_an_expression_tells_what_an_event_is(tmp_path: Path) -> None:
    file = write(tmp_path / "log", BRACKETS)
    found = records(file, "shiviz", regex=EXPRESSION)
    assert [(row["line"], row["process"]) for row in found] == [
        (1, None), (2, "alice"), (3, None), (4, "bob"), (5, None), (6, "alice"),
    ]  # fmt: skip
    assert [row["line"] for row in found if row["problem"]] == [1, 3, 5]


def test_a_file_may_hold_several_runs(tmp_path: Path) -> None:
    file = write(tmp_path / "log", BRACKETS)
    options = Options(regex=EXPRESSION, delimiter="^=== (?<run>.*) ===$")
    first, second = ingest([file], tmp_path / "out", options=options)
    assert (first.run, second.run) == ("first", "second")
    assert histories(first)["bob"] == [("deliver", "alice:1")]
    assert histories(second) == {"alice": [("local", None)]}
    assert [hole.places[0].line for hole in first.findings.holes] == [3]
    assert second.findings.holes == ()
    assert first.directory != second.directory


def test_lines_before_the_first_run_are_counted_to_it(tmp_path: Path) -> None:
    file = write(tmp_path / "log", "Preface\n" + BRACKETS)
    options = Options(regex=EXPRESSION, delimiter="^=== (?<run>.*) ===$")
    first, second = ingest([file], tmp_path / "out", options=options)
    assert (first.findings.records, first.findings.unknown) == (4, 2)
    assert (second.findings.records, second.findings.unknown) == (1, 0)


def test_lines_can_be_ignored(tmp_path: Path) -> None:
    file = write(tmp_path / "log", BRACKETS)
    found = records(file, "shiviz", regex=EXPRESSION, ignore="^(===|This)")
    assert [row["line"] for row in found] == [2, 4, 6]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regex": "("}, "--regex '\\('"),
        ({"regex": "(?<clock>.*)"}, "needs a group \\(\\?<host>"),
        (
            {"regex": EXPRESSION.replace("event", "timestamp")},
            "line 1: 'Got it' is no time",
        ),
        ({"regex": "nothing (?<host>.*) like (?<clock>it)"}, "part of no event: .*log:1"),
        ({"delimiter": "["}, "--delimiter"),
    ],
    ids=["no expression", "no host", "no time", "fits nowhere", "delimiter"],
)
def test_a_wrong_expression_is_refused(
    options: dict[str, str], words: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "log", '[bob] {"bob":1} Got it\n')
    if "regex" not in options:
        options = {**options, "regex": EXPRESSION}
    with pytest.raises(ConfigError, match=words):
        read(file, tmp_path / "out", **options)


def test_a_clock_that_is_none_is_a_record_that_was_not_read(tmp_path: Path) -> None:
    text = BRACKETS.replace('{"bob":1, "alice":1}', '{"bob":"x"}')
    found = records(write(tmp_path / "log", text), "shiviz", regex=EXPRESSION)
    assert (found[3]["line"], found[3]["problem"]) == (4, "a clock that is none")


def test_a_log_longer_than_what_is_read_at_once_is_read_like_a_short_one(
    tmp_path: Path,
) -> None:
    log = random_log(5, steps=400)
    long = [f"{'x' * 9_000} {place}" for place in range(len(log))]
    text = "".join(
        f"{words}\nnoise\n\n{event.process} {json.dumps(event.clock)}\n"
        for words, event in zip(long, log, strict=True)
    )
    assert len(text) > 3 << 20
    expression = r"^(?<event>.*)\nnoise\n\n(?<host>\S*) (?<clock>{.*})$"
    found = records(write(tmp_path / "log", text), "shiviz", regex=expression)
    assert [row["line"] for row in found] == [1 + 4 * n for n in range(len(log))]
    assert [row["text"] for row in found] == long
    other = r"^(?<host>p\d) (?<clock>{.*})$"
    found = records(write(tmp_path / "log", text), "shiviz", regex=other)
    problems = [row["line"] for row in found if row["problem"]]
    assert len(found) == 3 * len(log)
    assert problems == sorted(4 * n + m for n in range(len(log)) for m in (1, 2))


def test_lines_of_json_that_are_broken_are_named(tmp_path: Path) -> None:
    good = as_tracechecker(random_log(1, steps=2))
    bad = [
        "{", "[1]", '{"TracerIdentity": "p"}', '{"Tag": "x"}',
        '{"TracerIdentity": "p", "Tag": "x", "VectorClock": {"p": 1.5}}',
        '{"TracerIdentity": "p", "Tag": "ReceiveTokenTrace", "VectorClock": {"p": 1}}',
    ]  # fmt: skip
    found = records(write(tmp_path / "log", good + "\n".join(bad)), "tracechecker")
    assert [row["line"] for row in found if row["problem"]] == [3, 4, 5, 6, 7, 8]
    assert len(found) == 8


def test_spans_of_json_that_say_too_little_are_named(tmp_path: Path) -> None:
    whole = zipkin_spans(STORY)
    for key in ("traceId", "id", "timestamp", "localEndpoint"):
        spans = [dict(span) for span in whole]
        del spans[2][key]
        text = "[\n" + ",\n".join(json.dumps(span) for span in spans) + "\n]"
        told = judge(write(tmp_path / key, text), tmp_path / f"out {key}")
        findings = told.ingested.findings
        assert findings.holes[0].places[0].line == 4
        assert (findings.records, findings.unknown) == (5, 1)


def test_a_span_of_an_unknown_process_is_named(tmp_path: Path) -> None:
    text = jaeger(STORY).replace('"processID": "p1"', '"processID": "p9"', 1)
    (hole,) = judge(write(tmp_path / "f", text), tmp_path / "o").ingested.findings.holes
    assert hole.what == "unread: of an unknown process"
    assert hole.places[0].process == "p9"
    assert "operationName" in text.splitlines()[hole.places[0].line + 2]


def test_a_document_is_broken_from_where_it_is(tmp_path: Path) -> None:
    text = jaeger(STORY)
    place = text.index('"spanID": "d"')
    broken = text[:place] + "}" + text[place:]
    found = records(write(tmp_path / "file", broken), "jaeger")
    # Two spans were read before it, whose processes would have come after it.
    assert [row["problem"] is None for row in found] == [False] * 4
    assert "not JSON" in str(found[-1]["problem"])
    assert found[-1]["line"] == 1 + broken[:place].count("\n")


def test_a_document_of_many_pieces_is_read_with_the_right_lines(tmp_path: Path) -> None:
    spans = [
        Span(id=f"span {n}", process="schön" * 40, kind=None, begin=n, end=n + 1)
        for n in range(4500)
    ]
    for name in ("jaeger", "zipkin"):
        text = SPAN_FORMATS[name](spans)
        assert len(text) > 3 * (1 << 18)
        found = records(write(tmp_path / name, text), name)
        rows = text.splitlines()
        key = "spanID" if name == "jaeger" else "id"
        assert [row["span"] for row in found] == [span.id for span in spans]
        for row in found[:: len(found) // 7]:
            near = rows[row["line"] - 1 : row["line"] + 4]  # type: ignore[operator]
            assert any(f'"{key}": "{row["span"]}"' in each for each in near)


def test_rows_of_a_csv_that_are_broken_are_named(tmp_path: Path) -> None:
    rows = span_csv(STORY).splitlines()
    rows[2] += ",more"
    rows[3] = rows[3].replace("1700000000050000000", "soon")
    rows.insert(4, "")
    told = judge(write(tmp_path / "file", "\n".join(rows)), tmp_path / "out")
    findings = told.ingested.findings
    lines_named = sorted(
        p.line for h in findings.holes for p in h.places if "unread" in h.what
    )
    assert lines_named == [3, 4]
    assert findings.records == len(STORY)


def test_columns_can_be_told(tmp_path: Path) -> None:
    text = span_csv(STORY).replace("PodName", "wo").replace("StartTimeUnixNano", "wann")
    file = write(tmp_path / "file", text)
    with pytest.raises(ConfigError, match=r"file: line 1: which column is the process\?"):
        read(file, tmp_path / "out")
    with pytest.raises(ConfigError, match="no column 'who'"):
        read(file, tmp_path / "out", columns={"process": "who"})
    with pytest.raises(ConfigError, match="known are trace, span"):
        read(file, tmp_path / "out", columns={"wer": "wo"})
    ingested = read(file, tmp_path / "out", columns={"process": "wo", "start": "wann"})
    assert set(histories(ingested)) == {"shop", "stöck"}


def test_a_duration_serves_for_an_end(tmp_path: Path) -> None:
    text = span_csv(STORY).replace("EndTimeUnixNano", "x")
    lines_of = text.splitlines()
    lasted = {span.id: (span.end - span.begin) * 1000 for span in STORY}
    changed_lines = [
        line.rsplit(",", 1)[0] + f",{lasted[line.split(',')[1]]}" for line in lines_of[1:]
    ]
    file = write(tmp_path / "file", "\n".join([lines_of[0], *changed_lines]))
    plain = read(write(tmp_path / "plain", span_csv(STORY)), tmp_path / "out")
    assert histories(read(file, tmp_path / "other")) == histories(plain)


def test_messages_are_judged_in_the_order_of_each_process(tmp_path: Path) -> None:
    told = judge(write(tmp_path / "file", MESSAGES_CSV), tmp_path / "out")
    assert told.exit_code == 1
    assert "stock delivered shop:2 (line 3) before shop:1 (line 2)" in str(told)


def test_messages_in_parquet_are_judged_like_those_in_csv(tmp_path: Path) -> None:
    rows = [line.split(",") for line in MESSAGES_CSV.splitlines()]
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    table = pa.table(
        {
            "source": columns["source"],
            "target": columns["target"],
            "sent": [int(each) for each in columns["sent"]],
            "received": [float(each) for each in columns["received"]],
        }
    )
    pq.write_table(table, tmp_path / "file.parquet")
    ours = read(tmp_path / "file.parquet", tmp_path / "out")
    theirs = read(write(tmp_path / "file", MESSAGES_CSV), tmp_path / "other")
    assert histories(ours) == histories(theirs)


def test_a_message_to_several_is_one_message(tmp_path: Path) -> None:
    text = "from,to,sent,received,id\na,b,1,5,x\na,c,1,9,x\nb,c,6,7,y\n"
    told = judge(write(tmp_path / "file", text), tmp_path / "out")
    assert told.report.messages == 2
    assert "c delivered b:1 (line 4) before a:1 (line 2)" in str(told)


def test_a_message_received_twice_is_not_delivered_once(tmp_path: Path) -> None:
    text = "from,to,sent,received,id\na,b,1,5,x\na,b,1,6,x\n"
    told = judge(write(tmp_path / "file", text), tmp_path / "out")
    assert told.report.statuses[Property.ONCE] is Status.VIOLATED


def test_a_message_that_was_not_received_leaves_liveness_unknown(tmp_path: Path) -> None:
    text = MESSAGES_CSV + "shop,stock,70,\n"
    told = judge(write(tmp_path / "file", text), tmp_path / "out")
    assert told.report.statuses[Property.LIVE] is Status.UNKNOWN
    assert told.report.counts[Property.LIVE] == 1


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("shop,stock,,80", "receives without a send"),
        (",stock,70,80", "unread: it has no source"),
        ("shop,,70,80", "unread: it has no target"),
        ("shop,stock,soon,80", "unread: 'sent' is no time"),
        ("shop,stock,,", "unread: neither sent nor received"),
        ("shop,stock,70", "unread: 3 columns, not 4"),
    ],
    ids=["unsent", "no source", "no target", "no time", "neither", "short"],
)
def test_a_message_with_a_hole_is_named(row: str, what: str, tmp_path: Path) -> None:
    told = judge(write(tmp_path / "file", f"{MESSAGES_CSV}{row}\n"), tmp_path / "out")
    (hole,) = told.ingested.findings.holes
    assert (hole.what, hole.count, hole.places[0].line) == (what, 1, 5)
    assert told.ingested.findings.unknown == 1


def test_two_events_of_one_moment_are_not_guessed_at(tmp_path: Path) -> None:
    """Stock has received both at 50, who knows in which order."""
    text = "source,target,sent,received\nshop,stock,10,50\nshop,stock,20,50\n"
    told = judge(write(tmp_path / "file", text), tmp_path / "out")
    assert told.exit_code == 4
    (hole,) = told.ingested.findings.holes
    assert "whose order" in hole.what
    assert (hole.count, hole.places[0].line, hole.places[0].process) == (1, 3, "shop")
    assert (told.report.messages, told.ingested.findings.unknown) == (1, 1)


def test_messages_that_go_round_in_a_circle_are_refused(tmp_path: Path) -> None:
    """Each is sent after the other is received."""
    text = "source,target,sent,received\na,b,10,1\nb,a,5,2\n"
    with pytest.raises(ConfigError, match=r"file:\d \([ab]\), .*circle"):
        read(write(tmp_path / "file", text), tmp_path / "out")


def test_a_file_like_no_format_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "file", "Dear Sir,\nI have the honour\n")
    with pytest.raises(ConfigError, match="line 1: not like any format"):
        ingest([file], tmp_path / "out")
    with pytest.raises(ConfigError, match="no format 'csv'; there are shiviz"):
        ingest([file], tmp_path / "out", format_name="csv")
    with pytest.raises(ConfigError, match="no such file"):
        ingest([tmp_path / "nowhere"], tmp_path / "out")


def test_the_file_of_a_trace_of_our_own_is_refused(tmp_path: Path) -> None:
    ingested = read(write(tmp_path / "file", SHIVIZ), tmp_path / "out")
    with pytest.raises(ConfigError, match="give the directory of the run"):
        ingest([ingested.directory / "events.parquet"], tmp_path / "other")


@pytest.mark.parametrize("name", ["tracechecker", "spancsv", "otlp", "messages"])
@pytest.mark.parametrize("size", [1, 50, 333, 5000])
def test_splits_of_a_file_are_together_the_file(
    name: str, size: int, tmp_path: Path
) -> None:
    file = write(tmp_path / "file", FILES[name])
    chosen = format_named(name)
    splits = chosen.splits(file, size)
    assert (len(splits) > 1) == (size < len(FILES[name].encode()))
    parts = [
        row
        for split in splits
        for batch in chosen.read(split, Options())
        for row in batch.to_pylist()
    ]
    assert parts == records(file, name)


@pytest.mark.parametrize("size", range(1, 20))
def test_every_line_is_in_one_split_with_its_number(size: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one\n\ntwo\r\nthree\n\n\nfour")
    found = [each for split in cut(file, size) for each in lines(split)]
    assert found == [(1, b"one"), (3, b"two"), (4, b"three"), (7, b"four")]


def test_a_gzip_and_a_document_are_one_split(tmp_path: Path) -> None:
    packed = write(tmp_path / "file.gz", FILES["spancsv"])
    assert format_named("spancsv").splits(packed, 10) == [Split(path=str(packed))]
    document = write(tmp_path / "file", FILES["zipkin"])
    assert format_named("zipkin").splits(document, 10) == [Split(path=str(document))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1700000000", 1_700_000_000 * 10**9),
        ("1700000000123", 1_700_000_000_123 * 10**6),
        ("1700000000123456", 1_700_000_000_123_456 * 10**3),
        ("1700000000123456789", 1_700_000_000_123_456_789),
        ("0.5", 500_000_000),
        ("8999999999", 8_999_999_999 * 10**9),
        ("9000000000", 9_000_000_000 * 10**6),
        ("-3", -3 * 10**9),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * 10**9),
        ("2023-11-14 22:13:20.25", 1_700_000_000 * 10**9 + 250_000_000),
        ("soon", None),
        ("nan", None),
        ("99999999999999999999", None),
    ],
)
def test_a_moment_is_read_however_it_is_written(text: str, wanted: int | None) -> None:
    assert nanoseconds(text) == wanted
    assert moments(pa.array([text, None])).to_pylist() == [wanted, None]


def test_an_instance_of_a_service_is_a_process_if_told(tmp_path: Path) -> None:
    found = zipkin_spans(STORY)
    for span, address in zip(found, "12345", strict=True):
        endpoint = span["localEndpoint"]
        assert isinstance(endpoint, dict)
        endpoint["ipv4"] = f"10.0.0.{address}"
    rows = records(
        write(tmp_path / "zipkin", json.dumps(found)), "zipkin", columns={"process": "ipv4"}
    )
    assert [row["process"] for row in rows][:2] == ["shop@10.0.0.1", "shop@10.0.0.2"]
    tagged = jaeger(STORY).replace(
        '"serviceName": "shop"',
        '"serviceName": "shop", "tags": [{"key": "hostname", "value": "h1"}]',
    )
    rows = records(
        write(tmp_path / "jaeger", tagged), "jaeger", columns={"process": "hostname"}
    )
    assert [row["process"] for row in rows][:3] == ["shop@h1", "shop@h1", "stöck"]
    named = FILES["otlp"].replace(
        '{"attributes": [',
        '{"attributes": [{"key": "service.instance.id", "value": {"stringValue": "i7"}}, ',
        1,
    )
    rows = records(write(tmp_path / "otlp", named), "otlp")
    assert {row["process"] for row in rows} == {"shop@i7", "stöck"}


def test_what_follows_from_a_span_does_not_reply(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind=None, begin=0, end=10),
        Span(id="b", parent="a", process="stock", kind=None, begin=20, end=30),
    ]
    text = jaeger(spans).replace("CHILD_OF", "FOLLOWS_FROM")
    ingested = read(write(tmp_path / "file", text), tmp_path / "out")
    assert histories(ingested)["shop"] == [("send", "shop:1"), ("local", None)]
    assert histories(ingested)["stock"] == [("deliver", "shop:1"), ("local", None)]
