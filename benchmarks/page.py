"""Tables of a Markdown page that commands write: `<!-- begin NAME -->` ... `<!-- end NAME -->`."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable

__all__ = ["around", "facts", "fill"]


def around(path: str, section: str) -> tuple[str, str]:
    """The text before and behind a section; LookupError where the page has none."""
    before, begin, rest = (
        pathlib.Path(path).read_text(encoding="utf8").partition(f"<!-- begin {section} -->\n")
    )
    _, end, after = rest.partition(f"<!-- end {section} -->\n")
    if not begin or not end:
        raise LookupError(f"{path} has no section <!-- begin {section} --> ... <!-- end {section} -->")
    return before + begin, end + after


def fill(path: str, section: str, text: str) -> None:
    """Put `text` between the marks of a section, whole or not at all."""
    before, after = around(path, section)
    fresh = pathlib.Path(f"{path}.new")
    fresh.write_text(f"{before}\n{text.strip()}\n\n{after}", encoding="utf8")
    fresh.replace(path)


def facts(threads: int, versions: Iterable[str]) -> str:
    """A sentence about the machine, the commit and the peers, behind a table."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    machine = f"{_processor()}, {cores} cores, {threads} used, {platform.system()} {platform.release()}"
    return f"{machine}; {datetime.date.today()}, {_commit()}, load {load:.1f}; {', '.join(versions)}."


def _processor() -> str:
    """The model of the processor."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """The commit of this checkout, marked where files are changed."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True)
    return found.stdout.strip() or "no commit"
