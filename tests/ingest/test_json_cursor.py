"""Reading JSON part by part, with reads of any size."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.ingest.formats.json_cursor import JsonCursor
from antecede.ingest.formats.records import UnreadableError
from antecede.ingest.formats.source import Split, read_blocks, whole_file

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def consume(cursor: JsonCursor) -> object:
    """Consume a value by members and items as far as possible."""
    if cursor.peek() == "[":
        return [consume(cursor) for _ in cursor.items()]
    if cursor.peek() == "{":
        return {key: consume(cursor) for key in cursor.members()}
    return cursor.value()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json") / "file"


@pytest.mark.long
@given(
    found=values, indent=st.sampled_from([None, 0, 2]), size=st.integers(1, 20),
    ascii_only=st.booleans(),
)  # fmt: skip
def test_the_parts_of_a_document_are_the_document(
    found: object, indent: int | None, size: int, ascii_only: bool, file: Path
) -> None:
    text = json.dumps(found, indent=indent, ensure_ascii=ascii_only)
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    if "\ud800" <= max(text) <= "\udfff":
        return
    for take in (consume, JsonCursor.value):
        with JsonCursor(whole_file(file), size) as cursor:
            assert take(cursor) == found
            assert not cursor.has_more()


@pytest.mark.long
@given(found=values, size=st.integers(1, 20), data=st.data())
def test_a_truncated_document_is_an_error(
    found: object, size: int, data: st.DataObject, file: Path
) -> None:
    text = json.dumps([found], indent=1)
    end = data.draw(st.integers(0, len(text) - 1))
    file.write_text(text[:end], encoding="utf-8")
    for take in (consume, JsonCursor.value):
        with (
            JsonCursor(whole_file(file), size) as cursor,
            pytest.raises(UnreadableError) as caught,
        ):
            take(cursor)
        assert 1 <= caught.value.line <= 1 + text[:end].count("\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[1,\n2 3]", 2),
        ("[1,\n\n nope]", 3),
        ('{"a": 1,\n"b" 2}', 2),
        ("{\n1: 2}", 2),
        ('{"a": 1\n"b": 2}', 2),
        ("[" * 100_000, 1),
    ],
    ids=["comma", "literal", "colon", "key", "member", "deep"],
)
@pytest.mark.parametrize("size", [1, 1 << 18])
def test_invalid_json_is_an_error_with_its_line(
    text: str, line: int, size: int, file: Path
) -> None:
    file.write_text(text, encoding="utf-8")
    for take in (JsonCursor.value, consume):
        if text.startswith("[[") and take is consume:
            continue  # Only consume() limits the depth.
        with (
            JsonCursor(whole_file(file), size) as cursor,
            pytest.raises(UnreadableError) as caught,
        ):
            take(cursor)
        assert caught.value.line == line


def test_a_file_can_have_several_documents(file: Path) -> None:
    file.write_text('{"a": 1}\n\n[2]\n3 4', encoding="utf-8")
    found = []
    with JsonCursor(whole_file(file), 2) as cursor:
        while cursor.has_more():
            line = cursor.line
            found.append((line, cursor.value()))
    assert found == [(1, {"a": 1}), (3, [2]), (4, 3), (4, 4)]


@given(
    lines=st.lists(st.binary(max_size=6).filter(lambda b: b"\n" not in b), max_size=8),
    size=st.integers(1, 12),
)
def test_blocks_are_whole_lines_and_cover_the_file(
    lines: list[bytes], size: int, file: Path
) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"end"
    file.write_bytes(b"-" + data)
    found = list(read_blocks(Split(path=str(file), start=1, line=1), size))
    assert b"".join(block for _, block in found) == data
    for (line, block), (after, _) in pairwise(found):
        assert block.endswith(b"\n")
        assert after == line + block.count(b"\n")
