"""The readers: every layout, every way to be broken, and nothing is lost."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import AntecedeError, ConfigError, TraceError
from antecede.ingest import FORMATS, ReadOptions, detect_format, ingest
from antecede.ingest.formats.registry import get_format, read_file
from antecede.ingest.formats.source import Split, divide_file, read_lines
from antecede.verify import Property
from antecede.verify.verdict import Status
from tests.ingest.foreign_samples import (
    MESSAGES_CSV,
    SHIVIZ,
    SHOP_SPANS,
    SPAN_FORMATS,
    Span,
    as_shiviz,
    as_tracechecker,
    histories,
    ingest_file,
    jaeger,
    random_log,
    span_csv,
    verify_file,
    write_sample,
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
    **{name: writer(SHOP_SPANS) for name, writer in SPAN_FORMATS.items()},
    "messages": MESSAGES_CSV,
}
"""A file of every format."""


def records(path: Path, name: str, **options: object) -> list[dict[str, object]]:
    read_options = ReadOptions(**options)  # type: ignore[arg-type]
    batches = read_file(path, get_format(name), read_options)
    return [row for batch in batches for row in batch.to_pylist()]


def test_there_is_a_file_of_every_format() -> None:
    assert set(FILES) == {each.name for each in FORMATS}


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_detected_by_the_first_bytes(name: str, tmp_path: Path) -> None:
    assert (
        detect_format(write_sample(tmp_path / "x", FILES[name]), ReadOptions()).name == name
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["gzip", "crlf", "mark", "no last line end"])
def test_compression_and_line_ends_do_not_change_the_records(
    name: str, encoding: str, tmp_path: Path
) -> None:
    plain = ingest_file(write_sample(tmp_path / "plain", FILES[name]), tmp_path / "out")
    text = FILES[name]
    if encoding == "crlf":
        text = text.replace("\n", "\r\n")
    if encoding == "mark":
        text = "\ufeff" + text
    if encoding == "no last line end":
        text = text.rstrip("\n")
    file = write_sample(tmp_path / ("file.gz" if encoding == "gzip" else "file"), text)
    other = ingest_file(file, tmp_path / "other")
    assert histories(other) == histories(plain)
    assert other.summary.records == plain.summary.records
    assert other.summary.unknown == 0


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file_is_an_error(name: str, tmp_path: Path) -> None:
    file = write_sample(tmp_path / "empty", " \n")
    with pytest.raises(TraceError, match="empty: the file is empty"):
        ingest([file], tmp_path / "out")
    with pytest.raises(TraceError, match="empty"):
        ingest([file], tmp_path / "out", format_name=name)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_read_up_to_its_end(name: str, tmp_path: Path) -> None:
    """The complete records count, and a truncated record is reported with its line."""
    data = FILES[name].encode()
    whole = records(write_sample(tmp_path / "whole", FILES[name]), name)
    file = tmp_path / "cut"
    truncated = 0
    for size in range(len(data) * 9 // 10, len(data) - 1):
        file.write_bytes(data[:size])
        found = records(file, name)
        good = [row for row in found if row["problem"] is None]
        bad = [row for row in found if row["problem"] is not None]
        assert len(good) <= len(whole)
        assert len(bad) <= len(whole) + 1
        for row in bad:
            assert 1 <= row["line"] <= 1 + data[:size].count(b"\n")  # type: ignore[operator]
        truncated += bool(bad)
        if name in ("jaeger", "zipkin"):
            # A truncated document always has a problem.
            assert bad
    assert truncated


@pytest.mark.parametrize("name", ["tracechecker", "shiviz", "zipkin", "spancsv"])
def test_a_truncated_gzip_file_is_read_up_to_its_end(name: str, tmp_path: Path) -> None:
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


def test_a_gzip_file_without_readable_data_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(b"x")[:10])
    with pytest.raises(TraceError, match="line 1: damaged"):
        ingest([tmp_path / "file.gz"], tmp_path / "out")


@pytest.mark.parametrize(
    "text", [TEXT_FIRST, CLOCK_FIRST, ONE_LINE, NO_TEXT, TIMED],
    ids=["text first", "clock first", "one line", "no text", "timed"],
)  # fmt: skip
def test_the_usual_layouts_of_shiviz_logs_are_detected(text: str, tmp_path: Path) -> None:
    ingested = ingest_file(write_sample(tmp_path / "log", text), tmp_path / "out")
    assert histories(ingested) == {
        "alice": [("local", None), ("send", "alice:1")],
        "bob": [("deliver", "alice:1")],
    }
    assert ingested.summary.records == 3


def test_the_text_of_an_event_is_beside_its_clock(tmp_path: Path) -> None:
    for text in (TEXT_FIRST, CLOCK_FIRST, ONE_LINE):
        found = records(write_sample(tmp_path / "log", text), "shiviz")
        assert [row["text"] for row in found] == ["Start", "Send", "Got it"]


def test_timestamps_of_a_log_show_skew(tmp_path: Path) -> None:
    skew = ingest_file(write_sample(tmp_path / "log", TIMED), tmp_path / "out").summary.skew
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


def test_a_regular_expression_matches_events(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", BRACKETS)
    found = records(file, "shiviz", regex=EXPRESSION)
    assert [(row["line"], row["process"]) for row in found] == [
        (1, None), (2, "alice"), (3, None), (4, "bob"), (5, None), (6, "alice"),
    ]  # fmt: skip
    assert [row["line"] for row in found if row["problem"]] == [1, 3, 5]


def test_a_file_can_have_several_runs(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", BRACKETS)
    options = ReadOptions(regex=EXPRESSION, delimiter="^=== (?<run>.*) ===$")
    first, second = ingest([file], tmp_path / "out", options=options)
    assert (first.run, second.run) == ("first", "second")
    assert histories(first)["bob"] == [("deliver", "alice:1")]
    assert histories(second) == {"alice": [("local", None)]}
    assert [diagnostic.locations[0].line for diagnostic in first.summary.missing] == [3]
    assert second.summary.missing == ()
    assert first.directory != second.directory


def test_lines_before_the_first_run_belong_to_it(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", "Preface\n" + BRACKETS)
    options = ReadOptions(regex=EXPRESSION, delimiter="^=== (?<run>.*) ===$")
    first, second = ingest([file], tmp_path / "out", options=options)
    assert (first.summary.records, first.summary.unknown) == (4, 2)
    assert (second.summary.records, second.summary.unknown) == (1, 0)


def test_lines_can_be_ignored(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "log", BRACKETS)
    found = records(file, "shiviz", regex=EXPRESSION, ignore="^(===|This)")
    assert [row["line"] for row in found] == [2, 4, 6]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"regex": "("}, ConfigError, "--regex '\\('"),
        ({"regex": "(?<clock>.*)"}, ConfigError, "the group \\(\\?<host>.* is missing"),
        (
            {"regex": EXPRESSION.replace("event", "timestamp")},
            TraceError,
            "line 1: 'Got it' is not a valid time",
        ),
        (
            {"regex": "nothing (?<host>.*) like (?<clock>it)"},
            TraceError,
            "not part of an event: .*log:1",
        ),
        ({"delimiter": "["}, ConfigError, "--delimiter"),
    ],
    ids=["no expression", "no host", "no time", "no match", "delimiter"],
)
def test_an_invalid_expression_is_an_error(
    options: dict[str, str], error: type[AntecedeError], message: str, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "log", '[bob] {"bob":1} Got it\n')
    if "regex" not in options:
        options = {**options, "regex": EXPRESSION}
    with pytest.raises(error, match=message):
        ingest_file(file, tmp_path / "out", **options)


def test_an_invalid_clock_is_a_problem_of_its_record(tmp_path: Path) -> None:
    text = BRACKETS.replace('{"bob":1, "alice":1}', '{"bob":"x"}')
    found = records(write_sample(tmp_path / "log", text), "shiviz", regex=EXPRESSION)
    assert (found[3]["line"], found[3]["problem"]) == (4, "an invalid clock")


def test_a_log_of_several_pieces_is_read_like_a_short_one(
    tmp_path: Path,
) -> None:
    log = random_log(5, steps=400)
    long = [f"{'x' * 9_000} {index}" for index in range(len(log))]
    text = "".join(
        f"{words}\nnoise\n\n{event.process} {json.dumps(event.clock)}\n"
        for words, event in zip(long, log, strict=True)
    )
    assert len(text) > 3 << 20
    expression = r"^(?<event>.*)\nnoise\n\n(?<host>\S*) (?<clock>{.*})$"
    found = records(write_sample(tmp_path / "log", text), "shiviz", regex=expression)
    assert [row["line"] for row in found] == [1 + 4 * n for n in range(len(log))]
    assert [row["text"] for row in found] == long
    other = r"^(?<host>p\d) (?<clock>{.*})$"
    found = records(write_sample(tmp_path / "log", text), "shiviz", regex=other)
    problems = [row["line"] for row in found if row["problem"]]
    assert len(found) == 3 * len(log)
    assert problems == sorted(4 * n + m for n in range(len(log)) for m in (1, 2))


def test_invalid_json_lines_are_located(tmp_path: Path) -> None:
    good = as_tracechecker(random_log(1, steps=2))
    bad = [
        "{", "[1]", '{"TracerIdentity": "p"}', '{"Tag": "x"}',
        '{"TracerIdentity": "p", "Tag": "x", "VectorClock": {"p": 1.5}}',
        '{"TracerIdentity": "p", "Tag": "ReceiveTokenTrace", "VectorClock": {"p": 1}}',
    ]  # fmt: skip
    found = records(write_sample(tmp_path / "log", good + "\n".join(bad)), "tracechecker")
    assert [row["line"] for row in found if row["problem"]] == [3, 4, 5, 6, 7, 8]
    assert len(found) == 8


def test_json_spans_without_required_keys_are_located(tmp_path: Path) -> None:
    whole = zipkin_spans(SHOP_SPANS)
    for key in ("traceId", "id", "timestamp", "localEndpoint"):
        spans = [dict(span) for span in whole]
        del spans[2][key]
        text = "[\n" + ",\n".join(json.dumps(span) for span in spans) + "\n]"
        verdict = verify_file(write_sample(tmp_path / key, text), tmp_path / f"out {key}")
        summary = verdict.ingested.summary
        assert summary.missing[0].locations[0].line == 4
        assert (summary.records, summary.unknown) == (5, 1)


def test_a_span_of_an_unknown_process_is_located(tmp_path: Path) -> None:
    text = jaeger(SHOP_SPANS).replace('"processID": "p1"', '"processID": "p9"', 1)
    (diagnostic,) = verify_file(
        write_sample(tmp_path / "f", text), tmp_path / "o"
    ).ingested.summary.missing
    assert diagnostic.description == "unread: a span of an unknown process"
    assert diagnostic.locations[0].process == "p9"
    assert "operationName" in text.splitlines()[diagnostic.locations[0].line + 2]


def test_the_problem_of_an_invalid_document_has_its_line(tmp_path: Path) -> None:
    text = jaeger(SHOP_SPANS)
    position = text.index('"spanID": "d"')
    broken = text[:position] + "}" + text[position:]
    found = records(write_sample(tmp_path / "file", broken), "jaeger")
    # The processes of the two spans before it would have followed it.
    assert [row["problem"] is None for row in found] == [False] * 4
    assert "not JSON" in str(found[-1]["problem"])
    assert found[-1]["line"] == 1 + broken[:position].count("\n")


@pytest.mark.long
def test_a_document_of_several_pieces_has_the_right_lines(tmp_path: Path) -> None:
    spans = [
        Span(id=f"span {n}", process="schön" * 40, kind=None, begin=n, end=n + 1)
        for n in range(4500)
    ]
    for name in ("jaeger", "zipkin"):
        text = SPAN_FORMATS[name](spans)
        assert len(text) > 3 * (1 << 18)
        found = records(write_sample(tmp_path / name, text), name)
        rows = text.splitlines()
        key = "spanID" if name == "jaeger" else "id"
        assert [row["span"] for row in found] == [span.id for span in spans]
        for row in found[:: len(found) // 7]:
            near = rows[row["line"] - 1 : row["line"] + 4]  # type: ignore[operator]
            assert any(f'"{key}": "{row["span"]}"' in each for each in near)


def test_invalid_csv_rows_are_located(tmp_path: Path) -> None:
    rows = span_csv(SHOP_SPANS).splitlines()
    rows[2] += ",more"
    rows[3] = rows[3].replace("1700000000050000000", "soon")
    rows.insert(4, "")
    verdict = verify_file(
        write_sample(tmp_path / "file", "\n".join(rows)), tmp_path / "out"
    )
    summary = verdict.ingested.summary
    lines = sorted(
        location.line
        for each in summary.missing
        for location in each.locations
        if "unread" in each.description
    )
    assert lines == [3, 4]
    assert summary.records == len(SHOP_SPANS)


def test_columns_can_be_given(tmp_path: Path) -> None:
    text = (
        span_csv(SHOP_SPANS).replace("PodName", "wo").replace("StartTimeUnixNano", "wann")
    )
    file = write_sample(tmp_path / "file", text)
    with pytest.raises(ConfigError, match="file: line 1: no column for the process"):
        ingest_file(file, tmp_path / "out")
    with pytest.raises(ConfigError, match="no column 'who'"):
        ingest_file(file, tmp_path / "out", columns={"process": "who"})
    with pytest.raises(ConfigError, match="must be one of trace, span"):
        ingest_file(file, tmp_path / "out", columns={"wer": "wo"})
    ingested = ingest_file(
        file, tmp_path / "out", columns={"process": "wo", "start": "wann"}
    )
    assert set(histories(ingested)) == {"shop", "stöck"}


def test_a_duration_can_replace_an_end(tmp_path: Path) -> None:
    text = span_csv(SHOP_SPANS).replace("EndTimeUnixNano", "x")
    lines_of = text.splitlines()
    durations = {span.id: (span.end - span.begin) * 1000 for span in SHOP_SPANS}
    changed_lines = [
        line.rsplit(",", 1)[0] + f",{durations[line.split(',')[1]]}"
        for line in lines_of[1:]
    ]
    file = write_sample(tmp_path / "file", "\n".join([lines_of[0], *changed_lines]))
    plain = ingest_file(
        write_sample(tmp_path / "plain", span_csv(SHOP_SPANS)), tmp_path / "out"
    )
    assert histories(ingest_file(file, tmp_path / "other")) == histories(plain)


def test_messages_are_verified_in_the_order_of_each_process(tmp_path: Path) -> None:
    verdict = verify_file(write_sample(tmp_path / "file", MESSAGES_CSV), tmp_path / "out")
    assert verdict.status is Status.VIOLATED
    assert "stock delivered shop:2 (line 3) before shop:1 (line 2)" in str(verdict)


def test_messages_in_parquet_are_read_like_those_in_csv(tmp_path: Path) -> None:
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
    from_parquet = ingest_file(tmp_path / "file.parquet", tmp_path / "out")
    from_csv = ingest_file(
        write_sample(tmp_path / "file", MESSAGES_CSV), tmp_path / "other"
    )
    assert histories(from_parquet) == histories(from_csv)


def test_a_message_to_several_targets_is_one_message(tmp_path: Path) -> None:
    text = "from,to,sent,received,id\na,b,1,5,x\na,c,1,9,x\nb,c,6,7,y\n"
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert verdict.trace_verdict.messages == 2
    assert "c delivered b:1 (line 4) before a:1 (line 2)" in str(verdict)


def test_a_message_received_twice_violates_no_duplication(tmp_path: Path) -> None:
    text = "from,to,sent,received,id\na,b,1,5,x\na,b,1,6,x\n"
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert verdict.trace_verdict.statuses[Property.NO_DUPLICATION] is Status.VIOLATED


def test_a_message_without_a_receive_leaves_liveness_unknown(tmp_path: Path) -> None:
    text = MESSAGES_CSV + "shop,stock,70,\n"
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert verdict.trace_verdict.statuses[Property.LIVENESS] is Status.UNKNOWN
    assert verdict.trace_verdict.counts[Property.LIVENESS] == 1


@pytest.mark.parametrize(
    ("row", "description"),
    [
        ("shop,stock,,80", "receives without a send"),
        (",stock,70,80", "unread: no source"),
        ("shop,,70,80", "unread: no target"),
        ("shop,stock,soon,80", "unread: 'sent' is not a valid time"),
        ("shop,stock,,", "unread: neither sent nor received"),
        ("shop,stock,70", "unread: 3 columns, not 4"),
    ],
    ids=["unsent", "no source", "no target", "no time", "neither", "short"],
)
def test_an_incomplete_message_is_located(
    row: str, description: str, tmp_path: Path
) -> None:
    verdict = verify_file(
        write_sample(tmp_path / "file", f"{MESSAGES_CSV}{row}\n"), tmp_path / "out"
    )
    (diagnostic,) = verdict.ingested.summary.missing
    assert (diagnostic.description, diagnostic.count, diagnostic.locations[0].line) == (
        description,
        1,
        5,
    )
    assert verdict.ingested.summary.unknown == 1


def test_the_order_of_equal_timestamps_is_unknown(tmp_path: Path) -> None:
    """Stock received both at 50."""
    text = "source,target,sent,received\nshop,stock,10,50\nshop,stock,20,50\n"
    verdict = verify_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert verdict.status is Status.UNKNOWN
    (diagnostic,) = verdict.ingested.summary.missing
    assert "whose order" in diagnostic.description
    assert (
        diagnostic.count,
        diagnostic.locations[0].line,
        diagnostic.locations[0].process,
    ) == (1, 3, "shop")
    assert (verdict.trace_verdict.messages, verdict.ingested.summary.unknown) == (1, 1)


def test_a_cycle_of_messages_is_an_error(tmp_path: Path) -> None:
    """Each message is sent after the other is received."""
    text = "source,target,sent,received\na,b,10,1\nb,a,5,2\n"
    with pytest.raises(TraceError, match=r"file:\d \([ab]\), .*cycle"):
        ingest_file(write_sample(tmp_path / "file", text), tmp_path / "out")


def test_a_file_of_unknown_format_is_an_error(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "file", "Dear Sir,\nI have the honour\n")
    with pytest.raises(TraceError, match="line 1: unknown format"):
        ingest([file], tmp_path / "out")
    with pytest.raises(ConfigError, match="unknown format 'csv': must be one of shiviz"):
        ingest([file], tmp_path / "out", format_name="csv")
    with pytest.raises(TraceError, match="no such file"):
        ingest([tmp_path / "nowhere"], tmp_path / "out")


def test_a_file_of_our_own_trace_is_an_error(tmp_path: Path) -> None:
    ingested = ingest_file(write_sample(tmp_path / "file", SHIVIZ), tmp_path / "out")
    with pytest.raises(ConfigError, match="give the directory of the run"):
        ingest([ingested.directory / "events.parquet"], tmp_path / "other")


@pytest.mark.parametrize("name", ["tracechecker", "spancsv", "otlp", "messages"])
@pytest.mark.parametrize("size", [1, 50, 333, 5000])
def test_the_splits_of_a_file_have_all_its_records(
    name: str, size: int, tmp_path: Path
) -> None:
    file = write_sample(tmp_path / "file", FILES[name])
    chosen = get_format(name)
    splits = chosen.splits(file, size)
    assert (len(splits) > 1) == (size < len(FILES[name].encode()))
    parts = [
        row
        for split in splits
        for batch in chosen.read(split, ReadOptions())
        for row in batch.to_pylist()
    ]
    assert parts == records(file, name)


@pytest.mark.parametrize("size", range(1, 20))
def test_every_line_is_in_one_split_with_its_number(size: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one\n\ntwo\r\nthree\n\n\nfour")
    found = [each for split in divide_file(file, size) for each in read_lines(split)]
    assert found == [(1, b"one"), (3, b"two"), (4, b"three"), (7, b"four")]


def test_a_gzip_and_a_document_are_one_split(tmp_path: Path) -> None:
    packed = write_sample(tmp_path / "file.gz", FILES["spancsv"])
    assert get_format("spancsv").splits(packed, 10) == [Split(path=str(packed))]
    document = write_sample(tmp_path / "file", FILES["zipkin"])
    assert get_format("zipkin").splits(document, 10) == [Split(path=str(document))]


def test_an_instance_of_a_service_can_be_a_process(tmp_path: Path) -> None:
    found = zipkin_spans(SHOP_SPANS)
    for span, address in zip(found, "12345", strict=True):
        endpoint = span["localEndpoint"]
        assert isinstance(endpoint, dict)
        endpoint["ipv4"] = f"10.0.0.{address}"
    rows = records(
        write_sample(tmp_path / "zipkin", json.dumps(found)),
        "zipkin",
        columns={"process": "ipv4"},
    )
    assert [row["process"] for row in rows][:2] == ["shop@10.0.0.1", "shop@10.0.0.2"]
    tagged = jaeger(SHOP_SPANS).replace(
        '"serviceName": "shop"',
        '"serviceName": "shop", "tags": [{"key": "hostname", "value": "h1"}]',
    )
    rows = records(
        write_sample(tmp_path / "jaeger", tagged), "jaeger", columns={"process": "hostname"}
    )
    assert [row["process"] for row in rows][:3] == ["shop@h1", "shop@h1", "stöck"]
    named = FILES["otlp"].replace(
        '{"attributes": [',
        '{"attributes": [{"key": "service.instance.id", "value": {"stringValue": "i7"}}, ',
        1,
    )
    rows = records(write_sample(tmp_path / "otlp", named), "otlp")
    assert {row["process"] for row in rows} == {"shop@i7", "stöck"}


def test_a_span_that_follows_from_another_sends_no_reply(tmp_path: Path) -> None:
    spans = [
        Span(id="a", process="shop", kind=None, begin=0, end=10),
        Span(id="b", parent="a", process="stock", kind=None, begin=20, end=30),
    ]
    text = jaeger(spans).replace("CHILD_OF", "FOLLOWS_FROM")
    ingested = ingest_file(write_sample(tmp_path / "file", text), tmp_path / "out")
    assert histories(ingested)["shop"] == [("send", "shop:1"), ("local", None)]
    assert histories(ingested)["stock"] == [("deliver", "shop:1"), ("local", None)]
