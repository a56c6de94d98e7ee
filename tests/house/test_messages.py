"""Messages are plain English: phrases that a reader has to decode are counted, and may only become fewer."""

from __future__ import annotations

import re

import pytest
from messages import Message, messages

# how a riddle is spoken -> how the field says it, and how many there are
RIDDLES = {
    r"(?<!here )\b(is|are) no (?!longer)\w": ("is not a ..., is not an integer", 0),
    r"\b(is|are) none of\b": ("is not one of", 0),
    r"\b[Ww]hole numbers?\b": ("integer", 0),
    r"\btruth values\b": ("booleans", 0),
    r"(?i)\bwhoever\b|\bnobody\b|\bwithout a word\b": ("name the process; without an error", 0),
    r"\b[Ww]hat (a|an|it|they|one|there|stands|listens|is|was|arrives|comes)\b": ("name the thing", 3),
    r"\bstands? (in|behind|after|before|there|where)\b": ("is in, comes after", 0),
    r"\bsays? (the same|two|what|which|who|how|nothing)\b": ("defines, conflicts", 0),
    r"\bknows? (what|which|its|no|how)\b": ("has, is initialised by", 0),
    r"\b(house|room|rouse|doze|crowded|guest|patience|doubt)s?\b": ("package, wake, sleep, busy, warn", 0),
    r"\bpieces?\b": ("slice, part", 0),
    r"\b(no place|place in the|place of the)\b": ("index, position", 0),
    r"(?<!')\b([Ww]hich|[Ww]here|[Hh]ow many) [\w ]+\?|: is \w+ \w+\?": ("say what is missing", 0),
    r"\bleave [^;:,]* out\b": ("remove", 0),
    r"\b(moves?|moved) (a|no|the|twice) ?(parameter)?": ("updates", 0),
}


def like(pattern: str) -> list[Message]:
    return [message for message in messages() if re.search(pattern, message.text)]


@pytest.mark.parametrize("pattern", RIDDLES)
def test_riddles_become_fewer(pattern: str) -> None:
    plain, most = RIDDLES[pattern]
    found = like(pattern)
    assert len(found) <= most, "\n".join([f"say it plainly ({plain}):", *map(str, found)])
