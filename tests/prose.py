"""Rules of prose for Markdown pages, as regular expressions: `python -m tests.prose PAGE...`.

Code, tables, headings, links and the insides of backticks are left out. A line break ends no
sentence; a list item and a paragraph do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 35  # words of a sentence
PRIVATE = {
    r"\bdone again\b|\bmade again\b|\bmakes again\b": "recomputed",
    r"\bpasses by\b|\bpass by\b": "transient memory",
    r"\bdealt out\b|\bdeals out\b": "assigned whole",
    r"\bthe judge\b|\bone judge\b": "the evaluator",
    r"\bwould do\b": "an imperative: use ...",
    r"\bfor want of\b": "because there is no",
    r"\bso many\b|\bso much\b|\bas many as that\b": "a number",
    r"\bfullest moment\b": "peak",
    r"\bwhoever\b|\bnobody\b|\bsomebody\b": "the component",
    r"\bas ever\b": "as before",
    r"\bwishes\b": "options",
    r"\bsigns? of life\b": "heartbeat",
    r"\bstates? that you state\b": "given configuration",
}
HEADLESS = re.compile(r"(?:What|Where|Whatever|Wherever|Whoever|Who)\b[^?]*$")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", " x ", text, flags=re.DOTALL)
    text = re.sub(r"^(?:    |\|).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        joined = " ".join(paragraph.replace("*", "").split())
        yield from (part for part in re.split(r"(?<=[.!?:;])\s+(?=[A-Z(])", joined) if part)


def faults(text: str) -> Iterator[str]:
    """The sentences that break a rule, with the rule."""
    for sentence in sentences(text):
        words = len(sentence.split())
        if words > LONGEST:
            yield f"{words} words: {sentence}"
        if HEADLESS.match(sentence):
            yield f"begin with the noun: {sentence}"
        for pattern, instead in PRIVATE.items():
            if re.search(pattern, sentence, re.IGNORECASE):
                yield f"write {instead!r}: {sentence}"


def main() -> None:
    """Name the faults of the pages on the command line."""
    count = 0
    for name in sys.argv[1:]:
        for fault in faults(Path(name).read_text(encoding="utf-8")):
            sys.stdout.write(f"{name}: {fault}\n")
            count += 1
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
