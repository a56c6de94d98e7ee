"""Tables that `make bench` writes into a page."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "before\n<!-- begin small -->\nold\n<!-- end small -->\nbehind\n"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "benchmarks" / "run.py", "chain_64", "--peers", "fluidlite", *options]
    command += ["--rounds", "1", "--seconds", "0.01"]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_section_is_written_and_the_rest_stays(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = run("--page", str(page), "--section", "small", "--numpy-only")
    assert done.returncode == 0, done.stderr
    before, _, rest = page.read_text().partition("<!-- begin small -->\n\n")
    table, _, behind = rest.partition("\n\n<!-- end small -->\n")
    assert (before, behind) == ("before\n", "behind\n")
    assert table.strip() == done.stdout.strip()
    assert "| chain_64 | " in table and "(NumPy " in table and " cores, 2 used, " in table


def test_a_page_without_the_section_is_refused_at_once(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for options, reason in (
        (("--page", str(page), "--section", "large"), "has no section <!-- begin large -->"),
        (("--page", str(tmp_path / "none.md")), "No such file"),
    ):
        done = run(*options)
        assert done.returncode == 2 and reason in done.stderr.splitlines()[-1] and done.stdout == ""
    assert page.read_text() == PAGE


def test_the_sections_of_make_bench_are_there() -> None:
    page = (ROOT / "docs" / "BENCHMARKS.md").read_text(encoding="utf8")
    for section in ("workloads", "numpy-only", "networks"):
        assert page.count(f"<!-- begin {section} -->\n") == page.count(f"<!-- end {section} -->\n") == 1
