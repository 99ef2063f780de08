"""Glob matching against many names at once.

A pattern is compared only with candidate names: those that share its literal prefix, its literal
suffix or one of its whole words, whichever are fewest. Otherwise a search in the joined text finds
its longest literal piece. A pin for a few ops therefore costs microseconds in a graph of any size.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import translate

from meshwright.schema import TooLarge

# as fnmatch reads them: a class that is not closed is no class
WILD = re.compile(r"\*+|\?|\[!?+\]?+[^\]]*\]")
RUN = re.compile(r"\[!?+\]?+[^\]]*\]|[*?]{2,}")
WORD = re.compile(r"[^\W_]+")
SHOWN = 3  # chosen: names in a message
MOST_HELD = 5_000_000  # chosen: some seconds; 1,000 globs without literals against 5,000 ops
MOST_COMPARED = 10_000  # chosen: half a second
AFTER = "\U0010ffff"  # sorts after every character of a name


class Names:
    """Searchable names without newlines. Positions refer to the sequence passed in."""

    def __init__(self, names: Sequence[str]) -> None:
        self._positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            self._positions.setdefault(name, []).append(position)
        self._sorted = sorted(self._positions)
        self._backwards = sorted(name[::-1] for name in self._positions)
        self._with_word: dict[str, list[str]] = {}
        for name in self._sorted:
            for word in set(WORD.findall(name)):
                self._with_word.setdefault(word, []).append(name)
        self._held_against = 0
        self._text = "\n" + "\n".join(self._sorted) + "\n"

    def matching(self, pattern: str) -> list[int]:
        """Positions of the names that match, by the rules of `fnmatch.fnmatchcase`."""
        if not WILD.search(pattern):
            return self._positions.get(pattern, [])
        matches = re.compile(translate(_plain(pattern))).match
        names = self._candidates(pattern)
        self._held_against += len(names)
        if self._held_against > MOST_HELD:
            raise TooLarge(
                f"the globs would be held against names more than {MOST_HELD:,} times; name ops by "
                "whole words, or by how they begin or end"
            )
        return [position for name in names if matches(name) for position in self._positions[name]]

    def _candidates(self, pattern: str) -> Sequence[str]:
        pieces = WILD.split(pattern)
        words = [self._with_word.get(word, ()) for word in _whole_words(pieces)]
        having = min(words, key=len, default=self._sorted)
        first = _beginning(self._sorted, pieces[0])
        last = _beginning(self._backwards, pieces[-1][::-1])
        fewest = min(len(having), len(first), len(last))
        if fewest == len(self._sorted):
            return self._holding(max(pieces, key=len))
        if len(having) == fewest:
            return having
        if len(first) == fewest:
            return [self._sorted[k] for k in first]
        return [self._backwards[k][::-1] for k in last]

    def _holding(self, piece: str) -> Sequence[str]:
        if not piece:
            return self._sorted
        if "\n" in piece:
            return ()
        text, names = self._text, []
        at = text.find(piece)
        while at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            names.append(text[start:end])
            at = text.find(piece, end)
        return names


def alike(pattern: str, names: Sequence[str]) -> str:
    """Text of names similar to a pattern without matches, else of the first names."""
    known = [name for name in dict.fromkeys(names) if name][:MOST_COMPARED]
    pieces = WILD.sub(" ", pattern).split() or [pattern]
    ends: dict[str, str] = {}
    for name in known:
        ends.setdefault(name, name)
        ends.setdefault(name.rsplit(".", 1)[-1], name)
    close = get_close_matches(max(pieces, key=len).strip("."), list(ends), SHOWN)
    shown = [ends[end] for end in close] or known[:SHOWN]
    return ", ".join(map(repr, dict.fromkeys(shown)))


def _plain(pattern: str) -> str:
    """Pattern with one star per run of wildcards; `*?*?` takes time quadratic in its length."""
    return RUN.sub(
        lambda run: run[0] if run[0][0] == "[" else "?" * run[0].count("?") + "*" * ("*" in run[0]),
        pattern,
    )


def _whole_words(pieces: Sequence[str]) -> Iterator[str]:
    """Words of the literal pieces that no adjacent wildcard can extend."""
    for place, piece in enumerate(pieces):
        for word in WORD.finditer(piece):
            begins = word.start() > 0 or place == 0
            ends = word.end() < len(piece) or place == len(pieces) - 1
            if begins and ends:
                yield word[0]


def _beginning(names: Sequence[str], beginning: str) -> range:
    """Indices of the sorted names with this prefix."""
    return range(bisect_left(names, beginning), bisect_left(names, beginning + AFTER))
