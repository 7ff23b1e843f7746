"""The text of a Java properties file, read as `java.util.Properties` reads it: executors read the same file in Java."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PAIR = re.compile(r"(?P<name>(?:\\.|[^\\\s=:])*)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_MEANS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    r"""Return names and values; of a name that is there twice the last value counts.

    >>> parse("# a comment\nsasl.mechanism = PLAIN\nssl.key: one \\\n   two\nempty")
    {'sasl.mechanism': 'PLAIN', 'ssl.key': 'one two', 'empty': ''}
    >>> parse(r"path=C\:\\keys\tb")
    {'path': 'C:\\keys\tb'}
    """
    pairs = (_PAIR.match(line) for line in _lines(text))
    return {_plain(pair["name"]): _plain(pair["value"]) for pair in pairs if pair}


def _lines(text: str) -> Iterator[str]:
    """Yield the logical lines: a backslash at the end continues a line, but not a comment."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        rest = line.lstrip(" \t\f")
        if not begun and (not rest or rest[0] in "#!"):
            continue
        begun += rest
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def _plain(text: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) == 5 else _MEANS.get(found, found)

    return _ESCAPE.sub(meaning, text)
