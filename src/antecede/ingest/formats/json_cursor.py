"""Go through a JSON document of any size, part by part, and know on which line one is.

The standard decoder takes what is small: a span, say. What is large, the arrays and objects
around it, is gone through with :meth:`JsonCursor.members` and :meth:`JsonCursor.items`, so
that no more than one small part and some MiB of text are held at a time.
"""

import codecs
import json
from collections.abc import Iterator
from types import TracebackType

from antecede.ingest.formats.records import Unreadable
from antecede.ingest.formats.source import BYTE_ORDER_MARK, Split, open_file, read_some

__all__ = ["JsonCursor"]

READ_BYTES = 1 << 18
VALUE_CHARACTERS_MAX = 64 << 20
"""More than this of one span is no span; a damaged file would be read whole otherwise."""
WHITESPACE = " \t\r\n"
LITERAL_CHARACTERS = 16
"""Longer than any literal, escape or byte that the end of what was read may cut."""
NUMBER = frozenset("0123456789+-.eE")


class JsonCursor:
    """A place in a JSON document, or in several that follow each other in a file.

    Every method raises :class:`antecede.ingest.formats.records.Unreadable`, with the line, where
    the text is not what it must be, or ends too early.
    """

    line: int
    """The line of the next value, once one of the methods has come to it."""

    def __init__(self, split: Split, read_bytes: int = READ_BYTES) -> None:
        """Open the file at the start of a split; use it as a context manager.

        Args:
            split: What to go through: whole documents.
            read_bytes: How much to read at a time, or more if a value is longer.
        """
        self._read_bytes = read_bytes
        self.line = split.line
        self._file = open_file(split.path)
        if split.start:
            self._file.seek(split.start)
        self._rest = None if split.stop is None else split.stop - split.start
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._is_start = split.start == 0
        self._ended = False
        self._text = ""
        self._place = 0
        self._decoder = json.JSONDecoder()

    def __enter__(self) -> "JsonCursor":
        """Return the cursor; leaving the block closes the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def more(self) -> bool:
        """Return whether there is another document."""
        return self.peek() != ""

    def peek(self) -> str:
        """Return the next character that is no whitespace, or nothing at the end."""
        while True:
            text, place = self._text, self._place
            while place < len(text) and text[place] in WHITESPACE:
                place += 1
            self._pass(place)
            if place < len(text) or not self._fill():
                return self._text[self._place : self._place + 1]

    def members(self) -> Iterator[str]:
        """Go through an object: yield each key, and be at its value.

        The value must have been passed (:meth:`value`, :meth:`items`, :meth:`members`) when
        the next key is asked for.
        """
        self._expect("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise Unreadable(self.line, f"not JSON: the key {key!r}")
            self._expect(":")
            self.peek()
            yield key
            if self.peek() == ",":
                self._expect(",")
            elif self.peek() != "}":
                raise self._wrong("',' or '}'")
        self._expect("}")

    def items(self) -> Iterator[None]:
        """Go through an array: yield at each item, which must then be passed."""
        self._expect("[")
        while self.peek() != "]":
            yield
            if self.peek() == ",":
                self._expect(",")
            elif self.peek() != "]":
                raise self._wrong("',' or ']'")
        self._expect("]")

    def value(self) -> object:
        """Return the next value whole, and pass it."""
        if not self.peek():
            raise self._wrong("a value")
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string")
                cut = cut or error.pos >= len(self._text) - LITERAL_CHARACTERS
                if not cut or not self._fill():
                    line = self.line + self._text.count("\n", self._place, error.pos)
                    early = ", the file ends too early" if cut else ""
                    raise Unreadable(line, f"not JSON: {error.msg}{early}") from error
            except RecursionError as error:
                raise Unreadable(self.line, "not JSON: nested too deeply") from error
            else:
                # A number may go on after the end of what was read: 1 with .5, or e5.
                rest = self._text[end - 1 : end + LITERAL_CHARACTERS]
                is_open = len(rest) <= LITERAL_CHARACTERS and NUMBER.issuperset(rest)
                if is_open and self._fill():
                    continue
                self._pass(end)
                return found

    def _expect(self, character: str) -> None:
        if self.peek() != character:
            raise self._wrong(repr(character))
        self._pass(self._place + 1)

    def _wrong(self, wanted: str) -> Unreadable:
        found = self.peek()
        if not found:
            return Unreadable(
                self.line, f"not JSON: {wanted} is missing, the file ends too early"
            )
        return Unreadable(self.line, f"not JSON: {wanted} is missing before {found!r}")

    def _pass(self, place: int) -> None:
        self.line += self._text.count("\n", self._place, place)
        self._place = place

    def _fill(self) -> bool:
        """Read on, dropping what has been passed; return whether there was more."""
        if self._ended:
            return False
        held = len(self._text) - self._place
        if held > VALUE_CHARACTERS_MAX:
            raise Unreadable(self.line, "not JSON: a value of more than 64 MiB")
        # What is long is read in ever larger steps, since it is decoded anew each time.
        wanted = max(self._read_bytes, held)
        if self._rest is not None:
            wanted = min(wanted, self._rest)
        data, broken = read_some(self._file, wanted)
        if broken is not None and not data:
            raise Unreadable(self.line, broken)
        if self._rest is not None:
            self._rest -= len(data)
        if self._is_start:
            data, self._is_start = data.removeprefix(BYTE_ORDER_MARK), False
        self._ended = not data
        self._text = self._text[self._place :] + self._decode(data, not data)
        self._place = 0
        return not self._ended
