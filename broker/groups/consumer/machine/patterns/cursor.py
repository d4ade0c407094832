"""A position in the text of a pattern, and what is wrong there."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern that is refused; the text says why, in RE2/J's words where RE2/J refuses it, too."""


class Cursor:
    """Reads the text from its begin to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self._text)

    def next(self) -> str:
        """The next character, which is not taken; empty at the end."""
        return self._text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self._text[self.at - 1]

    def take_if(self, prefix: str) -> bool:
        """Take the prefix if it is next."""
        is_next = self._text.startswith(prefix, self.at)
        self.at += len(prefix) * is_next
        return is_next

    def is_next(self, prefix: str) -> bool:
        return self._text.startswith(prefix, self.at)

    def take_until(self, end: str) -> str | None:
        """What is before the next `end`, both taken; None, and nothing is taken, if there is none."""
        found = self._text.find(end, self.at)
        if found < 0:
            return None
        taken = self._text[self.at : found]
        self.at = found + len(end)
        return taken

    def take_all(self) -> str:
        taken = self._text[self.at :]
        self.at = len(self._text)
        return taken

    def take_while(self, characters: str, count_max: int | None = None) -> str:
        """The longest run of these characters, of a length that may be bounded."""
        end = len(self._text) if count_max is None else min(self.at + count_max, len(self._text))
        start = self.at
        while self.at < end and self._text[self.at] in characters:
            self.at += 1
        return self._text[start : self.at]
