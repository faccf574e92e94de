"""Going through JSON part by part, however it is cut."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.ingest.formats.json_cursor import JsonCursor
from antecede.ingest.formats.records import Unreadable
from antecede.ingest.formats.source import Split, blocks, whole

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


def go_through(cursor: JsonCursor) -> object:
    """Take a document apart as far as that can be done."""
    if cursor.peek() == "[":
        return [go_through(cursor) for _ in cursor.items()]
    if cursor.peek() == "{":
        return {key: go_through(cursor) for key in cursor.members()}
    return cursor.value()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json") / "file"


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
    for take in (go_through, JsonCursor.value):
        with JsonCursor(whole(file), size) as cursor:
            assert take(cursor) == found
            assert not cursor.more()


@given(found=values, size=st.integers(1, 20), data=st.data())
def test_a_document_that_is_cut_is_never_taken_for_a_whole_one(
    found: object, size: int, data: st.DataObject, file: Path
) -> None:
    text = json.dumps([found], indent=1)
    end = data.draw(st.integers(0, len(text) - 1))
    file.write_text(text[:end], encoding="utf-8")
    for take in (go_through, JsonCursor.value):
        with (
            JsonCursor(whole(file), size) as cursor,
            pytest.raises(Unreadable) as caught,
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
def test_what_is_not_json_is_told_with_its_line(
    text: str, line: int, size: int, file: Path
) -> None:
    file.write_text(text, encoding="utf-8")
    for take in (JsonCursor.value, go_through):
        if text.startswith("[[") and take is go_through:
            continue  # Whoever goes through it decides how deep.
        with (
            JsonCursor(whole(file), size) as cursor,
            pytest.raises(Unreadable) as caught,
        ):
            take(cursor)
        assert caught.value.line == line


def test_documents_may_follow_each_other(file: Path) -> None:
    file.write_text('{"a": 1}\n\n[2]\n3 4', encoding="utf-8")
    found = []
    with JsonCursor(whole(file), 2) as cursor:
        while cursor.more():
            line = cursor.line
            found.append((line, cursor.value()))
    assert found == [(1, {"a": 1}), (3, [2]), (4, 3), (4, 4)]


@given(
    lines=st.lists(st.binary(max_size=6).filter(lambda b: b"\n" not in b), max_size=8),
    size=st.integers(1, 12),
)
def test_blocks_are_whole_lines_and_together_the_file(
    lines: list[bytes], size: int, file: Path
) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"end"
    file.write_bytes(b"-" + data)
    found = list(blocks(Split(path=str(file), start=1, line=1), size))
    assert b"".join(block for _, block in found) == data
    for (line, block), (after, _) in pairwise(found):
        assert block.endswith(b"\n")
        assert after == line + block.count(b"\n")
