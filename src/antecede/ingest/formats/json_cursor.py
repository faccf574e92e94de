"""Read JSON documents of any size part by part, with line numbers.

The standard decoder parses small values, such as a span. :meth:`JsonCursor.members` and
:meth:`JsonCursor.items` iterate over the large objects and arrays around them, so that only
one small value and some MiB of text are in memory.
"""

import codecs
import json
from collections.abc import Iterator
from types import TracebackType

from antecede.ingest.formats.records import UnreadableError
from antecede.ingest.formats.source import BYTE_ORDER_MARK, Split, open_file, read_up_to

__all__ = ["JsonCursor"]

READ_BYTES = 1 << 18
VALUE_CHARACTERS_MAX = 64 << 20
"""The longest value; it limits the memory for a damaged file."""
WHITESPACE = " \t\r\n"
LITERAL_CHARACTERS = 16
"""Longer than a literal or an escape sequence, which a read can split."""
NUMBER = frozenset("0123456789+-.eE")


class JsonCursor:
    """A position in the JSON documents of a file.

    Every method raises UnreadableError, with the line, if the JSON is invalid or truncated.
    """

    def __init__(self, split: Split, read_bytes: int = READ_BYTES) -> None:
        """Open the file at the start of a split; leaving the context closes it.

        Args:
            split: A part of a file with whole documents.
            read_bytes: The bytes per read; longer values need longer reads.
        """
        self._read_bytes = read_bytes
        self.line = split.line
        """The line of the next value, when a method has reached it."""
        self._file = open_file(split.path)
        if split.start:
            self._file.seek(split.start)
        self._rest = None if split.stop is None else split.stop - split.start
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._is_start = split.start == 0
        self._ended = False
        self._text = ""
        self._position = 0
        self._decoder = json.JSONDecoder()

    def __enter__(self) -> "JsonCursor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def has_more(self) -> bool:
        """Return whether there is another document."""
        return self.peek() != ""

    def peek(self) -> str:
        """Return the next character that is not whitespace, or "" at the end."""
        while True:
            text, position = self._text, self._position
            while position < len(text) and text[position] in WHITESPACE:
                position += 1
            self._advance(position)
            if position < len(text) or not self._fill():
                return self._text[self._position : self._position + 1]

    def members(self) -> Iterator[str]:
        """Yield each key of an object, at the position of its value.

        The caller must consume the value before the next key, by :meth:`value`,
        :meth:`items` or :meth:`members`.
        """
        self._expect("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise UnreadableError(self.line, f"not JSON: the key {key!r}")
            self._expect(":")
            self.peek()
            yield key
            if self.peek() == ",":
                self._expect(",")
            elif self.peek() != "}":
                raise self._syntax_error("',' or '}'")
        self._expect("}")

    def items(self) -> Iterator[None]:
        """Yield at the position of each item of an array; the caller must consume it."""
        self._expect("[")
        while self.peek() != "]":
            yield
            if self.peek() == ",":
                self._expect(",")
            elif self.peek() != "]":
                raise self._syntax_error("',' or ']'")
        self._expect("]")

    def value(self) -> object:
        """Consume and return the next value."""
        if not self.peek():
            raise self._syntax_error("a value")
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._position)
            except json.JSONDecodeError as error:
                is_split = error.msg.startswith("Unterminated string")
                is_split |= error.pos >= len(self._text) - LITERAL_CHARACTERS
                if not is_split or not self._fill():
                    line = self.line + self._text.count("\n", self._position, error.pos)
                    hint = ", the file is truncated" if is_split else ""
                    raise UnreadableError(line, f"not JSON: {error.msg}{hint}") from error
            except RecursionError as error:
                raise UnreadableError(self.line, "not JSON: nested too deeply") from error
            else:
                # A read can split a number, such as 1.5 or 1e5.
                rest = self._text[end - 1 : end + LITERAL_CHARACTERS]
                is_open = len(rest) <= LITERAL_CHARACTERS and NUMBER.issuperset(rest)
                if is_open and self._fill():
                    continue
                self._advance(end)
                return found

    def _expect(self, character: str) -> None:
        if self.peek() != character:
            raise self._syntax_error(repr(character))
        self._advance(self._position + 1)

    def _syntax_error(self, wanted: str) -> UnreadableError:
        found = self.peek()
        if not found:
            return UnreadableError(
                self.line, f"not JSON: {wanted} is missing, the file is truncated"
            )
        return UnreadableError(self.line, f"not JSON: {wanted} is missing before {found!r}")

    def _advance(self, position: int) -> None:
        self.line += self._text.count("\n", self._position, position)
        self._position = position

    def _fill(self) -> bool:
        """Read more text, drop the consumed text, and return whether there was more."""
        if self._ended:
            return False
        held = len(self._text) - self._position
        if held > VALUE_CHARACTERS_MAX:
            raise UnreadableError(self.line, "not JSON: a value of more than 64 MiB")
        # A long value is decoded again after each read, so the reads become longer.
        wanted = max(self._read_bytes, held)
        if self._rest is not None:
            wanted = min(wanted, self._rest)
        data, damage = read_up_to(self._file, wanted)
        if damage is not None and not data:
            raise UnreadableError(self.line, damage)
        if self._rest is not None:
            self._rest -= len(data)
        if self._is_start:
            data, self._is_start = data.removeprefix(BYTE_ORDER_MARK), False
        self._ended = not data
        self._text = self._text[self._position :] + self._decode(data, not data)
        self._position = 0
        return not self._ended
