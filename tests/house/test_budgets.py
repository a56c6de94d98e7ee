"""The numbers of `measure.py`, held to limits: a limit that nobody holds is decoration.

A limit goes down when the number does; raising one is a commit of its own, with the reason.
"""

from __future__ import annotations

import gc
import pathlib
import textwrap
from collections.abc import Callable, Iterator

import measure
import pytest
from measure import ROOT, Source, sources

# steps written by hand as straight lines, to be read beside each other (benchmarks/floors/README.md)
OTHERS = ("benchmarks/floors/",)
# place by place: at most so many
AT_MOST = {
    "entries at the top of fluidlite/": 58,
    "circles of modules": 0,
    "imports inside functions": 19,
    "lines over 110 columns": 0,
    "functions over 40 lines": 0,
    "files over 600 lines": 0,
    "nested conditional expressions": 0,
    "docstrings that begin with a question": 0,
    "class names with two meanings": 5,
    "copies of thirty names or more": 24,  # most are signatures that fluid and 2.x dictate
    "global statements": 0,
    "tables of op types outside ops/": 28,
}
# figure -> (at least, at most)
BETWEEN = {
    "lines of a function, median": (1, 7),
    "lines of a function, 90 %": (1, 28),
    "tokens a line": (5, 9.75),  # kernels of linear algebra have 14
    "public functions with a docstring, %": (98, 100),
    "comments per 100 lines of code": (2, 14),
}


@pytest.fixture(scope="module", autouse=True)
def no_collector() -> Iterator[None]:
    """The parsed files are millions of objects, and none is garbage while these tests run: to go over them
    took half of their time. Afterwards they go: the collector would go over them in all later tests.
    """
    gc.disable()
    yield
    sources.cache_clear()
    gc.enable()


def beside() -> list[Source]:
    """Tests, examples and benchmarks."""
    files = sources(ROOT, ("tests", "examples", "benchmarks"))
    return [file for file in files if not file.name.startswith(OTHERS)]


@pytest.mark.parametrize("name", AT_MOST)
def test_places(name: str) -> None:
    found = measure.PLACES[name](ROOT)
    assert len(found) <= AT_MOST[name], "\n".join([f"{len(found)} {name}:", *found])


@pytest.mark.parametrize("name", BETWEEN)
def test_figures(name: str) -> None:
    least, most = BETWEEN[name]
    assert least <= measure.FIGURES[name](ROOT) <= most


@pytest.mark.parametrize(
    "places",
    [measure.long_lines, measure.long_files, measure.nested_conditions, measure.riddles],
    ids=lambda places: places.__name__,
)
def test_tests_are_held_to_the_same(places: Callable[[list[Source]], list[str]]) -> None:
    assert not places(beside())


@pytest.mark.parametrize("files", ["fluidlite/show/page/*", "executor/cuda/*.cu*", "tests/gpu_sim/*.[ch]*"])
def test_other_languages_are_held_to_the_same_lengths(files: str) -> None:
    """The page's scripts, style and frame; kernels in CUDA C, and what runs them without a device."""
    found = sorted(ROOT.glob(files))
    assert found
    for path in found:
        lines = path.read_text(encoding="utf8").splitlines()
        assert max(map(len, lines)) <= measure.COLUMNS, path.name
        assert len(lines) <= measure.FILE_LINES, path.name


def test_functions_of_tests_are_short() -> None:
    """But for lists of recorded cases; those of other tables may be half as long again."""
    long = [place for place in measure.long_functions(beside()) if not place.startswith("tests/recorded/")]
    assert not [place for place in long if not place.startswith("tests/")]
    assert not [place for place in long if int(place.split()[-1]) > 60]


# ---------------------------------------------------------------------- the measures themselves
def house(folder: pathlib.Path, **files: str) -> pathlib.Path:
    """A small house; a double underscore in a name is a slash."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf8")
    return folder


def test_what_is_counted(tmp_path: pathlib.Path) -> None:
    root = house(
        tmp_path,
        fluidlite__one='''
            """What is here."""
            from fluidlite import two


            class Thing:
                def bare(self):  # a reason
                    return 1 if two else 2 if self else 3
        ''',
        fluidlite__two='''
            """A module."""


            class _Thing:
                """A thing."""


            def late():
                """Return the other module."""
                global found
                from fluidlite import one  # noqa: F401

                return one
        ''',
    )
    counted = {name: places(root) for name, places in measure.PLACES.items()}
    assert counted["entries at the top of fluidlite/"] == ["one.py", "two.py"]
    assert counted["circles of modules"] == ["fluidlite.one fluidlite.two"]
    assert counted["imports inside functions"] == ["fluidlite.two:12 fluidlite.one"]
    assert counted["nested conditional expressions"] == ["fluidlite/one.py:8"]
    assert counted["docstrings that begin with a question"] == ["fluidlite/one.py:2 What is here."]
    assert counted["class names with two meanings"] == ["Thing fluidlite/one.py fluidlite/two.py"]
    assert counted["global statements"] == ["fluidlite/two.py:11 found"]
    assert not counted["tables of op types outside ops/"]
    figures = {name: figure(root) for name, figure in measure.FIGURES.items()}
    assert figures["lines of code"] == 9 and figures["public functions with a docstring, %"] == 50
    assert figures["comments per 100 lines of code"] == 100 / 9


def test_tables_of_ops(tmp_path: pathlib.Path) -> None:
    root = house(
        tmp_path,
        fluidlite__facts="""
            _ONE = frozenset(["relu"])
            _TYPES = frozenset(name + end for name in ("relu", "tanh") for end in ("", "_grad"))
            _OTHERS = {"small": "relu tanh_grad", "large": "mul"}
            _FEW = ("relu", "tanh", *("no", "op", "types"))
            __all__ = ["relu", "tanh"]


            def known(op):
                return op.type in ("feed", "fetch") or op.type == "relu"
        """,
        fluidlite__ops__family='_TYPES = ("relu", "tanh")',
    )
    found = measure.op_tables(sources(root))
    assert found == [f"fluidlite/facts.py:{place}" for place in ("3 _TYPES 2", "4 _OTHERS 3", "10 in 2")]


def test_copies(tmp_path: pathlib.Path) -> None:
    """The same names in the same order, however they are laid out and whatever the numbers."""
    terms = [f"term{number}" for number in range(31)]
    root = house(
        tmp_path,
        fluidlite__flat="total = 1 + " + " + ".join(terms),
        fluidlite__tall="total = (\n    2 + " + "\n    + ".join(terms) + "\n)\n",
    )
    assert measure.copies(sources(root)) == ["fluidlite/flat.py:1 fluidlite/tall.py:1 32"]
    row = "make(a, b, c, d, e)\n"
    assert not measure.copies(sources(house(tmp_path / "table", fluidlite__rows=row * 7)))
