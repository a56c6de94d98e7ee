"""Rows of docs/DIFFERENCES.md shown by small programs, where random ones do not meet them.

    @shows("fill-of-nan")
    def _(fluid):
        nan = run(fluid, lambda: fluid.layers.fill_constant([1], "float32", float("nan")))
        return nan, [[np.nan]]

A program is given `fluid` (or, in `of_2x` and `distributions`, `paddle`) of either system, and returns what
it found and what is right. Ours finds what is right; what PaddlePaddle found is recorded, and is something
else:

    python -m beside.row_programs.record 18

from the folder `tests` (and 26) asks PaddlePaddle again. Programs run under Python 3.7, too.
"""

import importlib
import json
import pathlib

import numpy as np

__all__ = ["RECORDED", "found_and_right", "differ", "gradient", "programs", "run", "shows"]

RECORDED = {
    door: pathlib.Path(__file__).parents[1] / "cases" / f"programs{door}.json" for door in ("18", "26")
}
MODULES = {"18": ("numbers", "gradients", "declared", "running"), "26": ("of_2x", "distributions")}
_PROGRAMS = {}


def shows(name, error=""):
    """Declare the program of a row; `error`: the class of the error in which ours ends."""

    def declare(program):
        if name in _PROGRAMS:
            raise ValueError(f"{name} has two programs")
        _PROGRAMS[name] = (program, error)
        return program

    return declare


def programs(door):
    """Row -> its program and our error, of a door."""
    modules = [importlib.import_module("beside.row_programs." + module).__name__ for module in MODULES[door]]
    return {name: made for name, made in _PROGRAMS.items() if made[0].__module__ in modules}


def found_and_right(program, error, system):
    """The values that a program finds and what is right, as JSON has them; an error is found, too."""
    try:
        found, right = program(system)
    except Exception as raised:
        names = [kind.__name__ for kind in type(raised).__mro__]
        return (error if error in names else names[0]), error
    return _plain(found), (error or _plain(right))


def _plain(item):
    return json.loads(json.dumps(item, default=_listed))


def _listed(item):
    return item.tolist() if isinstance(item, (np.ndarray, np.generic)) else str(item)


def differ(one, other):
    """True if two findings are not the same, or not nearly, where they are numbers."""
    try:
        first, second = np.array(one, "float64"), np.array(other, "float64")
    except (TypeError, ValueError):
        return one != other
    if first.shape != second.shape:
        return True
    return not np.allclose(first, second, rtol=2e-3, atol=1e-4, equal_nan=True)


# ---------------------------------------------------------------------- what programs are made with
def run(fluid, build, fetch=None, **feeds):
    """The values of what `build` gives, a Variable or several, from Variables of the feeds."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        found = build(*_declared(fluid, feeds))
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        values = exe.run(main, feed=_fed(fluid, feeds), fetch_list=outputs, return_numpy=False)
    return [np.array(value) for value in values]


def _declared(fluid, feeds):
    made = []
    for name, value in feeds.items():
        array = np.asarray(value[0] if isinstance(value, tuple) else value)
        with_levels = isinstance(value, tuple)
        shape = [None] + list(array.shape[1:]) if with_levels else list(array.shape)
        var = fluid.data(name, shape, str(array.dtype), lod_level=int(with_levels))
        var.stop_gradient = array.dtype.kind != "f"
        made.append(var)
    return made


def _fed(fluid, feeds):
    return {
        name: fluid.create_lod_tensor(value[0], [value[1]], fluid.CPUPlace())
        if isinstance(value, tuple)
        else value
        for name, value in feeds.items()
    }


def gradient(fluid, build, by=0, step=1e-4, **feeds):
    """The gradient of the sum of what `build` gives by one of the feeds, and central differences of it.

    `build` gives one number for each weight that it applies, so that it need not be the same for all.
    """
    names = list(feeds)
    name = names[by]

    def slope(*made):
        return fluid.gradients([fluid.layers.reduce_sum(build(*made))], [made[by]])[0]

    def total(array):
        value = (array, feeds[name][1]) if isinstance(feeds[name], tuple) else array
        sums = run(fluid, lambda *made: fluid.layers.reduce_sum(build(*made)), **dict(feeds, **{name: value}))
        return float(sums[0].reshape(-1)[0])

    array = np.array(feeds[name][0] if isinstance(feeds[name], tuple) else feeds[name])
    right = np.zeros(array.shape)
    for at in np.ndindex(*array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[at] += sign * step
            ends.append(total(moved))
        right[at] = (ends[0] - ends[1]) / (2 * step)
    return run(fluid, slope, **feeds)[0], right
