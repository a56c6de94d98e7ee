"""Dataclasses that are completed at their first use are those of the standard library."""

import dataclasses
import importlib
import inspect
import itertools
import os
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import pytest

from fluidlite.base import records

FORMS = [
    {"frozen": frozen, "eq": eq, "repr": shown, "order": order}
    for frozen, eq, shown, order in itertools.product((False, True), repeat=4)
    if eq or not order
]


def classes(dataclass, options):
    """A class, and one that derives from it, as `dataclass` makes them."""

    @dataclass(**options)
    class Point:
        """A point."""

        x: int
        y: float = 2.0
        tags: list = dataclasses.field(default_factory=list, compare=False)
        norm: float = dataclasses.field(init=False, repr=False, default=0.0)

        def __post_init__(self):
            object.__setattr__(self, "norm", self.x + self.y)

    @dataclass(**options)
    class Named(Point):
        name: str = "origin"

        @property
        def title(self):
            """The name in capitals."""
            return self.name.upper()

    class Kept(Named):
        """A class that is no dataclass, with a start of its own."""

        def __init__(self, x):
            super().__init__(x, name="kept")

    return Point, Named, Kept


def outcome(call):
    """The result of a call as text, or the kind and the text of its error."""
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__, re.sub("0x[0-9a-f]+", "", str(error))


def told(kinds, order):
    """All that can be asked of the classes, the classes themselves in an order."""
    point, named, kept = kinds
    asked = [
        lambda: (point(1).norm, point(1, 3.5).y, point(x=2, tags=[1]).tags),
        lambda: (named(1, name="a").title, named(1).norm),
        lambda: (kept(4).name, kept(4).x, kept(4) == kept(4)),
        lambda: point(1) == point(1),
        lambda: point(1) == named(1),
        lambda: point(1) < point(2),
        lambda: {point(1): 3, point(2): 4}[point(1)],
        lambda: setattr(point(1), "x", 5),
        lambda: dataclasses.replace(named(1), x=7).norm,
        lambda: [field.name for field in dataclasses.fields(named)],
        lambda: dataclasses.asdict(point(3)),
        lambda: str(inspect.signature(named)),
        lambda: (point.__match_args__, named.__match_args__),
        lambda: point(),
        lambda: point(1, 2, 3, 4, 5),
        lambda: "object at" in repr(point(1)) or repr(point(1)),
        lambda: hasattr(point(1), "__setstate__"),
        lambda: dataclasses.is_dataclass(kept),
        lambda: (
            (point(1), named(1)) and [[below.__name__ for below in kind.__subclasses__()] for kind in kinds]
        ),
    ]
    return {index: outcome(asked[index]) for index in order(len(asked))}


def test_every_class_of_the_package_can_be_completed():
    """Abstract classes, and those that derive from others, too: each module that has records is imported."""
    root = pathlib.Path(__file__).resolve().parents[2]
    for room in ("fluidlite", "executor", "transpiler"):
        for path in sorted((root / room).rglob("*.py")):
            if "fluidlite.base.records import" not in path.read_text(encoding="utf8"):
                continue
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts if room == "fluidlite" else ("fluidlite", *parts))
            module = importlib.import_module(name.removesuffix(".__init__"))
            classes_here = [kind for kind in vars(module).values() if isinstance(kind, type)]
            for kind in filter(dataclasses.is_dataclass, classes_here):
                assert callable(kind.__init__)
                assert kind.__name__ not in [below.__name__ for below in kind.__subclasses__()]


@pytest.mark.parametrize("options", FORMS, ids=str)
@pytest.mark.parametrize("order", [range, lambda count: range(count)[::-1]], ids=["forwards", "backwards"])
def test_a_late_dataclass_is_a_dataclass(options, order):
    late = told(classes(records.dataclass, options), order)
    assert late == told(classes(dataclasses.dataclass, options), order)


def of_its_own(dataclass):
    """Classes that are complete at once, and what they tell."""

    @dataclass
    class Started:
        x: int = 1

        def __init__(self):
            self.x = 5

    @dataclass
    class Loaded:
        x: int = 1

        def __setstate__(self, state):
            self.x = state["x"] + 1

    @dataclass(slots=True, frozen=True)
    class Slotted:
        x: int = 1

    @dataclass(kw_only=True)
    class Named:
        x: int
        y: int = 2

    @dataclass(init=False)
    class Bare:
        x: int = 1

    loaded = Loaded()
    loaded.__setstate__({"x": 3})
    return Started().x, loaded.x, Slotted().__slots__, outcome(lambda: Named(1)), Named(x=1).y, Bare().x


def test_a_class_keeps_what_it_has_written_itself():
    assert of_its_own(records.dataclass) == of_its_own(dataclasses.dataclass)


def test_many_threads_make_the_first_instance():
    """The first instance of each class is made by eight threads at once, fifty times."""
    for _ in range(50):
        _, named, _ = classes(records.dataclass, {"frozen": True})
        start = threading.Barrier(8)
        made = []

        def make(named=named, start=start, made=made):
            start.wait()
            made.append(named(1, name="n"))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8 and len(set(made)) == 1


def test_a_fork_waits_for_a_class(monkeypatch):
    """A child never has a class of which a part of the methods is written."""
    _, named, _ = classes(records.dataclass, {"frozen": True, "order": True})
    is_half, go_on = threading.Event(), threading.Event()
    real = dataclasses.dataclass

    def slow(*arguments, **options):
        decorator = real(*arguments, **options)

        def decorated(cls):
            made = decorator(cls)
            is_half.set()
            go_on.wait(0.2)
            return made

        return decorated

    monkeypatch.setattr(dataclasses, "dataclass", slow)
    thread = threading.Thread(target=named, args=(1,))
    thread.start()
    is_half.wait()
    child = os.fork()
    if not child:
        os._exit(0 if named(1) < named(2) and repr(named(3, name="n")).endswith("name='n')") else 1)
    go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_loaded_instance_completes_its_class():
    """An instance that comes from another process is compared by its values."""
    from fluidlite.base.place import CUDAPlace

    code = (
        "import pickle, sys; from fluidlite.base.place import CUDAPlace\n"
        "one = pickle.loads(sys.stdin.buffer.read()); print(one == pickle.loads(pickle.dumps(one)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(CUDAPlace(3)), capture_output=True)
    assert done.stdout.split() == [b"True"], done.stderr.decode()
