"""Facts of one case in one system: what it declares, computes, differentiates and keeps, as JSON.

Facts, each a part of its own, with "error" in place of what a part could not give:

    build     declared shapes, dtypes and levels of detail of the outputs; parameters; types of ops
    runs      values of the outputs: of the case, of other data (twice, by the same plan), of twice the batch
    state     persistable variables behind the first run
    test      values of `clone(for_test=True)`
    grads     gradients of `wrt` and of parameters, for the incoming gradients `weights`
    second    gradients by `wrt` of the sum of the squares of the first ones
    slopes    differences of the weighted sum of the outputs along a direction, by input of float64
    rough     the same by all inputs and parameters, from larger steps
    bends     differences of the sum of the squares of the first gradients, by input of float64
    roughly bends    the same by all inputs and parameters, from larger steps
"""

from __future__ import annotations

import base64
from typing import Any, Dict, Iterable, List, Set

import numpy as np

from .language import DTYPES, Case, Player, array_of, dtype_of, flat, is_floating

Facts = Dict[str, Any]
Feeds = Dict[str, Any]
STEP = 1e-5
ROUGH_STEP = 2e-3
PARTS = ("runs", "test", "slopes", "grads", "second", "bends")


def shown(array: Any) -> Facts:
    """An array as JSON: its dtype, its shape, its bytes."""
    array = np.asarray(array)
    if array.dtype == object:
        raise TypeError("an array of objects")
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def numbers_of(fact: Facts) -> np.ndarray:
    """The array that `shown` has written."""
    return np.frombuffer(base64.b64decode(fact["data"]), fact["dtype"]).reshape(fact["shape"])


def weights(shape: Iterable[int], dtype: Any) -> np.ndarray:
    """Incoming gradients: between -1 and 1, another one for each element."""
    shape = tuple(shape)
    return np.cos(1.0 + np.arange(int(np.prod(shape)))).reshape(shape).astype(dtype)


def parameter_values(index: int, start: np.ndarray, shake: int = 0) -> np.ndarray:
    """Values for a parameter: constants move up a little, so that variances stay positive. A single number
    is a constant if it is 0 or 1: other ones were drawn, by each system for itself.

    `shake` 1, 2, ...: others that differ from them as much as rounding does.
    """
    rng = np.random.RandomState(1000 + index)
    one = start.reshape(-1)[0] if start.size else 0
    if (start == one).all() and (start.size > 1 or one in (0, 1)):
        found = start + rng.uniform(0.05, 0.35, start.shape)
    else:
        found = rng.uniform(-0.6, 0.6, start.shape)
    if shake:
        step = 1e-14 if start.dtype == np.float64 else 1e-6
        found = found * (1 + step * np.sin(shake * (1.0 + np.arange(found.size))).reshape(found.shape))
    return found.astype(start.dtype)


def error_of(error: BaseException, stage: str) -> Facts:
    """The type, the message and the stage of an exception."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = str(error)
    if len(text) > 900:  # ours say most in front, PaddlePaddle's behind their stack
        text = f"{text[:300]} ... {text[-600:]}"
    return {"error": kinds[0], "kinds": kinds, "text": text, "stage": stage}


class Observer:
    """Builds and runs one case in one system.

    `system` has `paddle`, `fluid` (what is left of it in 2.6.2), and `static`: whose programs and executor
    are used, fluid's or those of `paddle.static`.
    """

    def __init__(self, system: Any, case: Case) -> None:
        self.system, self.case = system, case
        self.fluid = system.fluid
        self.player = Player({"fluid": system.fluid, "paddle": system.paddle})
        self.main, self.startup = system.static.Program(), system.static.Program()
        self.main.random_seed = self.startup.random_seed = 7
        self.exe = system.static.Executor(self.fluid.CPUPlace())
        self.names: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.shapes: list[Any] = []
        self.levels: list[Any] = []
        self.shake = case.get("shake", 0)

    def observe(self, parts: Iterable[str]) -> Facts:
        """The facts named by `parts`; what comes behind an error at the first run is left out."""
        facts: Facts = {}
        with self.fluid.unique_name.guard(), self.system.static.program_guard(self.main, self.startup):
            try:
                self.build()
                facts["build"] = self.declared()
            except Exception as error:
                return {"build": dict(error_of(error, "build"), at=self.player.at)}
        for part in parts:
            try:
                # names that no name of the build is like
                with self.fluid.unique_name.guard("later_"):
                    facts[part] = getattr(self, "part_" + part.replace(" ", "_"))()
            except Exception as error:
                facts[part] = error_of(error, part)
                if part == "runs":
                    break
        return facts

    # ------------------------------------------------------------------ building
    def build(self) -> None:
        """Declare what is fed, and run the statements."""
        if self.case["door"] == "26":
            self.system.paddle.set_default_dtype("float32")  # a case before may have changed it
        for name, feed in self.case["feeds"].items():
            level = len(feed.get("lengths", ()))
            var = self.system.declare(name, feed["declared"], feed["dtype"], level)
            var.stop_gradient = feed.get("stop", True)
            self.names[name] = var
        self.player.play(self.case["calls"], self.names)
        found = flat([self.names[name] for name in self.case["outputs"]])
        variables = [var for var in found if isinstance(var, self.fluid.framework.Variable)]
        self.outputs = list({var.name: var for var in variables}.values())

    def declared(self) -> Facts:
        return {
            "outputs": [self._declared(var) for var in self.outputs],
            "parameters": [
                [param.name, list(param.shape), dtype_of(param)] for param in self.main.all_parameters()
            ],
            "handed": self.player.handed,
            "ops": [op.type for block in self.main.blocks for op in block.ops],
        }

    @staticmethod
    def _declared(var: Any) -> List[Any]:  # noqa: UP006
        level = 0
        try:
            level = int(var.lod_level)
        except Exception:
            level = -1  # kinds of variables that have none
        try:
            return [[max(int(size), -1) for size in var.shape], dtype_of(var), level]
        except Exception as error:
            return [type(error).__name__]

    # ------------------------------------------------------------------ running
    def feeds(self, change: int = 0, batches: int = 1) -> Feeds:
        """The arrays to feed: the case's values, other ones (`change` 1, 2, ...), or several times as many
        rows.
        """
        made: Feeds = {}
        for name, feed in self.case["feeds"].items():
            array = array_of(feed)
            if change and not feed.get("fixed"):
                array = np.roll(array.reshape(-1), change).reshape(array.shape)
            lengths = feed.get("lengths")
            if batches > 1 and feed["declared"][:1] == [-1]:
                array = np.concatenate([array] * batches)
                lengths = [list(level) * batches for level in lengths or ()]
            if feed.get("columns"):
                array = np.asfortranarray(array)
            made[name] = self.with_lengths(array, lengths)
        return made

    def with_lengths(self, array: np.ndarray, lengths: Any) -> Any:
        if not lengths:
            return array
        tensor = self.fluid.core.LoDTensor()
        tensor.set(array, self.fluid.CPUPlace())
        tensor.set_recursive_sequence_lengths(lengths)
        return tensor

    def start(self) -> Any:
        """A scope with the parameters' values."""
        scope = self.fluid.core.Scope()
        with self.system.static.scope_guard(scope):
            self.exe.run(self.startup)
            joined = self.joined()
            for index, param in enumerate(self.parameters()):
                if param.name in joined:
                    continue
                tensor = scope.find_var(param.name).get_tensor()
                tensor.set(parameter_values(index, np.array(tensor), self.shake), self.fluid.CPUPlace())
        return scope

    def joined(self) -> Set[str]:  # noqa: UP006
        """Variables whose memory is that of several parameters side by side, in 2.6.2."""
        ops = [op for op in self.startup.global_block().ops if op.type == "coalesce_tensor"]
        return {name for op in ops for name in op.output("FusedOutput")}

    def run(self, program: Any, feeds: Feeds, fetches: List[Any], scope: Any) -> List[Any]:  # noqa: UP006
        with self.system.static.scope_guard(scope):
            return self.exe.run(
                program, feed=feeds, fetch_list=list(fetches), return_numpy=False, use_program_cache=True
            )

    def values(self, program: Any, feeds: Feeds, scope: Any) -> List[Facts]:  # noqa: UP006
        return [self._fetched(item) for item in self.run(program, feeds, self.outputs, scope)]

    def _fetched(self, tensor: Any) -> Facts:
        if isinstance(tensor, list) or type(tensor).__name__ in ("LoDTensorArray", "LodTensorArray"):
            return {"array": [self._fetched(item) for item in tensor]}
        if hasattr(tensor, "rows"):
            return {"rows": list(tensor.rows()), **shown(np.array(tensor.get_tensor()))}
        found = shown(np.array(tensor))
        if 0 in tensor.shape():  # 1.8.5's arrays of nothing have the shape [0], whatever they were
            found.update(shape=list(tensor.shape()), dtype=DTYPES[int(tensor._dtype())])
        return dict(found, lengths=tensor.recursive_sequence_lengths())

    def part_runs(self) -> Facts:
        scope = self.start()
        found: Facts = {"first": self.values(self.main, self.feeds(), scope)}
        self.shapes = [item.get("shape") for item in found["first"]]
        self.levels = [item.get("lengths") for item in found["first"]]
        found["state"] = self.state(scope)
        changes = [("again", {"change": 1}), ("third", {"change": 2})]
        if self.may_double():
            changes.append(("double", {"batches": 2}))
        for name, change in changes:
            try:
                found[name] = self.values(self.main, self.feeds(**change), scope)
            except Exception as error:
                found[name] = error_of(error, name)
            if name == "third":
                found["state behind three"] = self.state(scope)
        return found

    def may_double(self) -> bool:
        """True if all batches may grow: twice one of them beside once another is a mistake."""
        if self.case.get("viewed"):  # the first dimension is another one
            return False
        feeds = self.case["feeds"].values()
        return all(feed.get("known") or feed["declared"][:1] == [-1] for feed in feeds)

    def part_shaken(self) -> List[Facts]:  # noqa: UP006
        """`runs` and `parallel` from parameters that rounding might have given, and `runs` of networks that
        round otherwise: how far they can be trusted. Of our systems alone.
        """
        found = []
        for self.shake in (1, 2, 3):
            facts = {"runs": self.part_runs()}
            if self.case["function"] == "network":
                try:
                    facts["parallel"] = self.part_parallel()
                except Exception as error:
                    facts["parallel"] = error_of(error, "parallel")
            found.append(facts)
        self.shake = self.case.get("shake", 0)
        if self.case["function"] == "network":
            found += [{"runs": self.otherwise(seed)} for seed in (1, 2, 3)]
        return found

    def otherwise(self, seed: int) -> Facts:
        """`runs` with another rounding of each result."""
        from .rounding import rounded_otherwise  # for a Python that PaddlePaddle 1.8.5 does not have

        with rounded_otherwise(self.exe, seed):
            return self.part_runs()

    def part_program(self) -> Facts:
        """The programs as bytes, for the other system to load."""
        programs = [("main", self.main), ("startup", self.startup)]
        found: Facts = {
            name: base64.b64encode(program.desc.serialize_to_string()).decode() for name, program in programs
        }
        found["parameters"] = [param.name for param in self.parameters()]
        found["outputs"] = [var.name for var in self.outputs]
        return found

    def part_parallel(self) -> Facts:
        """Two steps on two devices: losses, and the state behind them."""
        compiled = self.fluid.CompiledProgram(self.main).with_data_parallel(
            loss_name=self.outputs[0].name, places=self.fluid.cpu_places(2)
        )
        scope = self.start()
        found = [self.run(compiled, self.feeds(change), self.outputs[:1], scope) for change in (0, 1)]
        return {"first": [self._fetched(run[0]) for run in found], "state": self.state(scope)}

    def parameters(self) -> list[Any]:
        """Parameters, in the order of their making."""
        return list(self.main.all_parameters())

    def state(self, scope: Any) -> Facts:
        found = {}
        others = {"feed", "fetch", *self.joined()}
        for var in self.main.list_vars():
            if var.persistable and var.name not in others:
                held = scope.find_var(var.name)
                found[var.name] = shown(np.array(held.get_tensor())) if held is not None else None
        return found

    def part_test(self) -> Facts:
        return {"first": self.values(self.main.clone(for_test=True), self.feeds(), self.start())}

    # ------------------------------------------------------------------ gradients
    def targets(self) -> List[int]:  # noqa: UP006
        """Outputs that have gradients: floating ones."""
        return [at for at, var in enumerate(self.outputs) if is_floating(var) and self.shapes[at] is not None]

    def part_grads(self) -> Facts:
        targets = self.targets()
        if not targets or not self.case["wrt"]:
            return {}
        with self.system.static.program_guard(self.main, self.startup):
            self.incoming = self.given(targets)
            inputs = [self.names[name] for name in self.case["wrt"]]
            inputs += [param for param in self.main.all_parameters() if param.trainable]
            self.inputs = [var for var in inputs if is_floating(var)]
            outputs, incoming = [self.outputs[at] for at in targets], self.given_variables(targets)
            if self.are_chained(outputs):
                outputs, incoming = [self.system.weighted_sum(outputs, incoming)], None
            self.first = self.system.gradients(outputs, self.inputs, incoming)
        fetches = [grad for grad in self.first if grad is not None]
        found = iter(self.run(self.main, dict(self.feeds(), **self.incoming), fetches, self.start()))
        return {
            var.name: None
            if grad is None
            else dict(self._fetched(next(found)), declared=self._declared(grad))
            for var, grad in zip(self.inputs, self.first)
        }

    def are_chained(self, outputs: List[Any]) -> bool:  # noqa: UP006
        """True if an output is computed from another: 1.8.5 loses the gradient of one of them, and is right
        about a sum.
        """
        names = {var.name for var in outputs}
        behind: dict[str, set[str]] = {}
        for op in self.main.global_block().ops:
            found: set[str] = set()
            for name in op.input_arg_names:
                found |= behind.get(name, set()) | (names & {name})
            for name in op.output_arg_names:
                behind[name] = behind.get(name, set()) | found
        return any(behind.get(name, set()) - {name} for name in names)

    def given(self, targets: List[int]) -> Feeds:  # noqa: UP006
        """Incoming gradients by name, as they are fed; none where the case asks for sums."""
        if self.case.get("sums"):
            return {}
        made: Feeds = {}
        for at in targets:
            array = weights(self.shapes[at], dtype_of(self.outputs[at]))
            lengths = self.levels[at]
            # a reshape may hand on a level that says nothing about the rows that it gives
            fits = bool(lengths) and sum(lengths[-1]) == len(array)
            made[f"incoming_{at}"] = self.with_lengths(array, lengths if fits else None)
        return made

    def given_variables(self, targets: List[int]) -> Any:  # noqa: UP006
        if self.case.get("sums"):
            return None
        made = []
        for at in targets:
            shape, dtype = list(self.outputs[at].shape), dtype_of(self.outputs[at])
            var = self.system.declare(f"incoming_{at}", shape, dtype, len(self.levels[at] or ()))
            var.stop_gradient = False
            made.append(var)
        return made

    def part_second(self) -> Facts:
        first = [grad for grad in getattr(self, "first", ()) if grad is not None and is_floating(grad)]
        if not first:
            return {}
        with self.system.static.program_guard(self.main, self.startup):
            squares = [self.system.sum_of_squares(grad) for grad in first]
            found = self.system.gradients(squares, self.inputs, None)
        fetches = [grad for grad in found if grad is not None]
        feeds = dict(self.feeds(), **self.incoming)
        values = iter(self.run(self.main, feeds, fetches, self.start()))
        return {
            var.name: None if grad is None else self._fetched(next(values))
            for var, grad in zip(self.inputs, found)
        }

    def part_slopes(self) -> Facts:
        """Differences of the weighted sum of the outputs along a direction, for each input of float64."""
        return self.slopes(self.doubles(), STEP, self.loss)

    def part_rough(self) -> Facts:
        """The same for all inputs, from steps that are large enough for float32."""
        return self.slopes(self.moved(), ROUGH_STEP, self.loss)

    def part_bends(self) -> Facts:
        """Differences of the sum of the squares of the first gradients, for each input of float64, where
        these are, too.
        """
        single = any(dtype_of(grad) == "float32" for grad in getattr(self, "first", ()) if grad is not None)
        return {} if single else self.slopes(self.doubles(), STEP, self.squares)

    def part_roughly_bends(self) -> Facts:
        """The same for all inputs, from steps that are large enough for float32."""
        return self.slopes(self.moved(), ROUGH_STEP, self.squares)

    def moved(self) -> Dict[str, np.ndarray]:  # noqa: UP006
        """Inputs and trainable parameters, with their values."""
        found = {name: array_of(self.case["feeds"][name]) for name in self.case["wrt"]}
        if not found:
            return {}
        scope, joined = self.start(), self.joined()
        for param in self.parameters():
            if getattr(param, "trainable", False) and param.name not in joined:
                found[param.name] = np.array(scope.find_var(param.name).get_tensor())
        return {name: array for name, array in found.items() if array.dtype.kind == "f"}

    def doubles(self) -> Dict[str, np.ndarray]:  # noqa: UP006
        """Those of float64, where all outputs are, too."""
        if any(dtype_of(self.outputs[at]) == "float32" for at in self.targets()):
            return {}
        return {name: array for name, array in self.moved().items() if array.dtype == "float64"}

    def slopes(self, moved: Dict[str, np.ndarray], step: float, total: Any) -> Facts:  # noqa: UP006
        """Differences of a number, which `total` computes of feeds and a scope."""
        found: Facts = {}
        for name, array in moved.items() if self.targets() else ():
            direction = direction_of(array.shape)
            sums = {
                times: total(*self.with_moved(name, (array + step * times * direction).astype(array.dtype)))
                for times in (-2, -1, 0, 1, 2)
            }
            found[name] = [*differences(sums, step), sums[0]]
        return found

    def with_moved(self, name: str, array: np.ndarray) -> Any:
        """Feeds and a scope where one input or parameter has other values."""
        feeds, scope = self.feeds(), self.start()
        array = np.asarray(array)  # sums of arrays without dimensions are numbers
        if name in feeds:
            feeds[name] = self.with_lengths(array, self.case["feeds"][name].get("lengths"))
        else:
            scope.find_var(name).get_tensor().set(array, self.fluid.CPUPlace())
        return feeds, scope

    def loss(self, feeds: Feeds, scope: Any) -> float:
        """The weighted sum of the outputs."""
        values = self.run(self.main, feeds, self.outputs, scope)
        total = 0.0
        for at in self.targets():
            value = np.array(values[at]).astype("float64")
            factor = 1.0 if self.case.get("sums") else weights(self.shapes[at], "float64")
            total += float((value * factor).sum())
        return total

    def squares(self, feeds: Feeds, scope: Any) -> float:
        """The sum of the squares of the first gradients."""
        first = [grad for grad in getattr(self, "first", ()) if grad is not None and is_floating(grad)]
        values = self.run(self.main, dict(feeds, **self.incoming), first, scope) if first else []
        return sum(float((np.array(value).astype("float64") ** 2).sum()) for value in values)


class Loaded(Observer):
    """Runs programs that another system wrote: `given` is what its `part_program` gave."""

    def __init__(self, system: Any, case: Case, given: Facts) -> None:
        super().__init__(system, case)
        self.given_programs = given

    def build(self) -> None:
        """Read the programs, and find the outputs by name."""
        parse = self.system.static.Program.parse_from_string
        self.main = parse(base64.b64decode(self.given_programs["main"]))
        self.startup = parse(base64.b64decode(self.given_programs["startup"]))
        block = self.main.global_block()
        self.outputs = [block.var(name) for name in self.given_programs["outputs"]]

    def parameters(self) -> list[Any]:
        """The variables of these names: not every system keeps Parameters in files."""
        block = self.main.global_block()
        return [block.var(name) for name in self.given_programs["parameters"]]


def differences(sums: Dict[int, float], step: float) -> List[float]:  # noqa: UP006
    """Slopes on the left, on the right, of the middle, and of the middle with the double step; and how much
    more the slopes of double steps differ than those of single ones: twice where the function is smooth.
    """
    left = (sums[0] - sums[-1]) / step
    right = (sums[1] - sums[0]) / step
    wide = (sums[2] - sums[-2]) / (4 * step)
    central = (sums[1] - sums[-1]) / (2 * step)
    bend = (sums[2] + sums[-2] - 2 * sums[0]) / (2 * step)
    return [left, right, central, wide, bend / (right - left) if right != left else 2.0]


def direction_of(shape: Iterable[int]) -> np.ndarray:
    """The direction along which `Observer.part_slopes` moves an input."""
    shape = tuple(shape)
    return np.sin(2.0 + np.arange(int(np.prod(shape)))).reshape(shape)
