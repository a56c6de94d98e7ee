"""Write `transpiled_differences.txt` anew: read what has changed there before you keep it.

    python tests/transpiler/make_differences.py

Only the cases that `transpiled_known.py` has a reason for are written; in all others nothing may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import test_transpiled
import transpiled_known as known

HEAD = """\
# Where our programs differ from those that PaddlePaddle 1.8.5 made, line by line; the reasons are in
# transpiled_known.py and docs/TRANSPILERS.md. Written by make_differences.py.
"""


def found() -> Iterator[tuple[str, list[str]]]:
    """case/source, and its lines."""
    for name in test_transpiled.with_new_sources():
        if known.reason_of(f"{name}/source"):
            yield f"{name}/source", test_transpiled.source_differences(name)
    for name in test_transpiled.TRANSPILED:
        for source in test_transpiled.SOURCES:
            if known.reason_of(f"{name}/{source}"):
                yield f"{name}/{source}", test_transpiled.role_differences(name, source)


def main() -> None:
    same: dict[tuple[str, ...], list[str]] = {}
    for key, lines in found():
        same.setdefault(tuple(lines), []).append(key)
    sections = [
        f"\n# {known.reason_of(keys[0])}\n{' '.join(keys)}\n" + "".join(f"  {line}\n" for line in lines)
        for lines, keys in same.items()
    ]
    known.RECORD.write_text(HEAD + "".join(sections), encoding="utf8")


if __name__ == "__main__":
    main()
