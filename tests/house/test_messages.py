"""Messages and pages are plain English: phrases that a reader has to decode may only become fewer."""

from __future__ import annotations

import re

import pytest
from messages import messages
from pages import PAGES, read

from fluidlite.cli.docs import page_names

# how a riddle is spoken -> how the field says it, and how many there are in messages and on pages
RIDDLES = {
    r"(?<!here )\b(is|are) no (?!longer)\w": ("is not a ..., is not an integer", 0, 0),
    r"\b(is|are) none of\b": ("is not one of", 0, 0),
    r"\b[Ww]hole numbers?\b": ("integer", 0, 0),
    r"\btruth values\b": ("booleans", 0, 0),
    r"(?i)\bwhoever\b|\bnobody\b|\bwithout a word\b": ("name the process; without an error", 0, 0),
    r"\b[Ww]hat (stands|listens|arrives|comes|follows|belongs)\b": ("name the thing", 0, 0),
    r"\bstands? (in|behind|after|before|there|where)\b": ("is in, comes after", 0, 0),
    r"\bsays? (the same|two|who|how)\b": ("defines, conflicts", 0, 0),
    r"\bknows? (what|which|its|no|how)\b": ("has, is initialised by", 0, 0),
    r"\b(rooms|doors?|rouse|doze|crowded|guest|patience|doubts?) ": (
        "package, wake, sleep, busy, warn",
        0,
        1,
    ),
    r"\bpieces? (of|at|go)\b": ("slice, part", 0, 0),
    r"\b(in one place and|no place|place in the|place of the)\b": ("index, position", 0, 0),
    r"(^|[:.] )([Ww]hich|[Ww]here|[Hh]ow many) [\w ]+\?|: is \w+ \w+\?": ("say what is missing", 0, 0),
    r"\bleave [^;:,]* out\b": ("remove", 0, 0),
    r"\bmove[sd]? (no|the) parameter|\bmoved twice": ("updates", 0, 0),
    r"\b(all the same|as ever|its kin|their kin)\b": ("nevertheless, as before, similar functions", 0, 0),
}
GENERATED = ("docs/NAMES.md", "docs/OPS.md")


@pytest.mark.parametrize("pattern", RIDDLES)
def test_riddles_become_fewer(pattern: str) -> None:
    plain, most, _ = RIDDLES[pattern]
    found = [message for message in messages() if re.search(pattern, message.text)]
    assert len(found) <= most, "\n".join([f"say it plainly ({plain}):", *map(str, found)])


@pytest.mark.parametrize("pattern", RIDDLES)
def test_pages_have_no_riddles(pattern: str) -> None:
    plain, _, most = RIDDLES[pattern]
    read_pages = (read(path) for path in PAGES)
    found = [
        f"{page.name}: {line}"
        for page in read_pages
        if page.name not in GENERATED
        for line in re.sub("<!--.*?-->", "", page.prose).splitlines()
        if re.search(pattern, line)
    ]
    assert len(found) <= most, "\n".join([f"say it plainly ({plain}):", *found])


def test_pages_are_named_by_the_command() -> None:
    """Pages are installed, but readers do not know where: `fluidlite docs launch` finds them."""
    texts = [message.text for message in messages()]
    assert not [text for text in texts if re.search(r"docs/[A-Z]+\.md", text)]
    named = {name for text in texts for name in re.findall(r"fluidlite docs (\w+)\)", text)}
    assert {"fleet", "running"} <= named <= set(page_names())
