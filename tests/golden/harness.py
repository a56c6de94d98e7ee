"""Read golden files, run their programs, and compare programs that were built here with the recorded ones.

`fluid` is an argument everywhere: the same checks run under FluidLite and, to try the checks themselves,
under PaddlePaddle.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np

from .cases import Built, construct, load_cases

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = os.path.join(HERE, "runs")
RTOL = 1e-4  # of each element, and of the largest magnitude in the array: Adam turns rounding into steps
FLOOR = 1e-7  # sums that cancel leave rounding noise of about this size
FLOORS = {
    "vgg": 3e-6,
    "alexnet": 1e-6,
    "norm_layers": 1e-6,
    "v2_half_precision": 4e-6,
    "v2_images": 1e-6,
}  # the bias before a normalisation: nothing but noise

SHARED = re.compile(r"(lstm|gru|simple_rnn)_\d+\.w_0")

Values = Dict[str, np.ndarray]
Lengths = List[List[int]]

# Attributes that steer PaddlePaddle's other back ends, or that only Paddle's debugging reads.
IGNORED = frozenset(
    [
        "op_callstack",
        "op_device",
        "use_mkldnn",
        "use_cudnn",
        "use_quantizer",
        "mkldnn_data_type",
        "exhaustive_search",
        "workspace_size_MB",
        "Scale_in",
        "Scale_out",
        "Scale_in_eltwise",
        "Scale_weights",
        "force_fp32_output",
        "fuse_relu",
        "fuse_brelu",
        "fuse_brelu_threshold",
        "fuse_activation",
        "fuse_alpha",
        "fuse_beta",
        "fuse_residual_connection",
        "fuse_relu_before_depthwise_conv",
        "fuse_with_relu",
        "x_data_format",
        "y_data_format",
        "scale_x",
        "scale_y",
        "scale_out",
        "grad_inplace",
        "is_test_grad",
        "sub_block",
        "grad_block",
        "skip_eager_deletion_vars",
        "__fusion_type",
        "with_quant_attr",
        "cudnn_is_available",
    ]
)


@dataclass(frozen=True)
class Fetched:
    """One recorded value of one fetched variable."""

    name: str
    value: np.ndarray
    lengths: Lengths


class Golden:
    """One recorded case."""

    def __init__(self, name: str) -> None:
        self.name = name
        with np.load(os.path.join(RUNS, name + ".npz")) as archive:
            self.arrays: Values = {key: archive[key] for key in archive.files}
        self.meta: dict[str, Any] = json.loads(self.arrays["meta"].tobytes().decode())
        self.runs: list[dict[str, Any]] = self.meta["runs"]
        self.step_runs: int = self.meta["step_runs"]
        self.last_run = len(self.runs) - self.meta.get("unrun", 0)
        # what a single number is
        self.of_2x = self.meta["paddle"].startswith("2")

    def program(self, index: int | None) -> bytes:
        """The program of one run; without an index, the startup program."""
        return self.arrays["startup" if index is None else f"program{index}"].tobytes()

    def persistables(self, moment: str) -> Values:
        """The persistables that are new or have changed at this moment."""
        values: Values = {}
        offsets: dict[str, int] = {}
        for name, dtype, shape in self.meta["persistables"][moment]:
            start = offsets.get(dtype, 0)
            offsets[dtype] = end = start + int(np.prod(shape, dtype=int))
            values[name] = self.arrays[moment + "." + dtype][start:end].reshape(shape)
        return values

    def feeds(self, index: int, step: int) -> dict[str, Fetched]:
        return {fed.name: fed for fed in self._tracks("feed", index, step)}

    def fetches(self, index: int, step: int) -> list[Fetched]:
        return list(self._tracks("fetch", index, step))

    def _tracks(self, kind: str, index: int, step: int) -> Iterator[Fetched]:
        for number, track in enumerate(self.runs[index]["feeds" if kind == "feed" else "fetches"]):
            sizes = [int(np.prod(shape, dtype=int)) for shape in track["shapes"]]
            start = sum(sizes[:step])
            shape = track["shapes"][step]
            flat = self.arrays[f"{kind}/{index}/{number}"][start : start + sizes[step]]
            lengths = track["lengths"][step] if "lengths" in track else []
            yield Fetched(track["name"], flat.reshape(shape), lengths)


def recorded_cases() -> list[str]:
    return sorted(name[: -len(".npz")] for name in os.listdir(RUNS) if name.endswith(".npz"))


# --------------------------------------------------------------------- running
def check_close(what: str, found: Any, wanted: np.ndarray, rtol: float = RTOL, floor: float = FLOOR) -> None:
    """Numbers within the tolerance, everything else equal; shapes always equal."""
    found = np.asarray(found)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, Paddle has {wanted.shape}"
    assert found.dtype.kind == wanted.dtype.kind, f"{what}: dtype {found.dtype}, Paddle has {wanted.dtype}"
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted, err_msg=what)
        return
    largest = float(np.abs(wanted).max()) if wanted.size else 0.0
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * largest + floor, err_msg=what)


def to_feed(fluid: Any, fed: Fetched) -> Any:
    if not fed.lengths:
        return fed.value
    return fluid.create_lod_tensor(fed.value, fed.lengths, fluid.CPUPlace())


class Replay:
    """A case's programs in a scope of their own that starts from the recorded values."""

    def __init__(self, fluid: Any, golden: Golden) -> None:
        self.fluid, self.golden = fluid, golden
        self.scope, self.exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        self.programs = [
            fluid.Program.parse_from_string(golden.program(index)) for index in range(len(golden.runs))
        ]
        # 2.x lays the weights of an `rnn` into one variable that no op reads, and writes it with them
        names = golden.persistables("init") if golden.of_2x else ()
        self.shared = {name for name in names if SHARED.fullmatch(name)}
        self.floor = FLOORS.get(golden.name, FLOOR)
        self.expected = golden.persistables("init")
        for name, value in self.expected.items():
            self.scope.var(name).get_tensor().set(value, fluid.CPUPlace())

    def fetch(self, index: int, step: int) -> dict[str, Any]:
        """Run one program once: what the recording fetches, by name."""
        feeds = {name: to_feed(self.fluid, fed) for name, fed in self.golden.feeds(index, step).items()}
        names = [one.name for one in self.golden.fetches(index, step)]
        found = self.exe.run(
            self.programs[index], feed=feeds, fetch_list=names, scope=self.scope, return_numpy=False
        )
        return dict(zip(names, found))

    def run(self, index: int, step: int) -> None:
        """Run one program once and compare what it fetches."""
        found = self.fetch(index, step)
        for one in self.golden.fetches(index, step):
            value = found[one.name]
            what = f"{one.name} of run {index} in step {step}"
            check_close(what, np.array(value), one.value, floor=self.floor)
            if one.lengths:
                assert value.recursive_sequence_lengths() == one.lengths, what

    def compare_persistables(self, moment: str) -> None:
        self.expected.update(self.golden.persistables(moment))
        for name, value in self.expected.items():
            if name in self.shared:
                continue
            found = self.scope.find_var(name)
            assert found is not None, f"{name} is missing after {moment}"
            check_close(f"{name} ({moment})", np.array(found.get_tensor()), value, floor=self.floor)


def replay(fluid: Any, golden: Golden) -> None:
    """Run all recorded steps from the recorded start; compare every fetched value and every persistable."""
    again = Replay(fluid, golden)
    for step in range(golden.meta["steps"]):
        for index in range(golden.step_runs):
            again.run(index, step)
    again.compare_persistables("final")
    for number, index in enumerate(range(golden.step_runs, golden.last_run)):
        again.run(index, 0)
        again.compare_persistables(f"after{number}")


# ------------------------------------------------------------------- comparing
def load_protos() -> dict[str, Any]:
    with gzip.open(os.path.join(HERE, "op_protos.json.gz"), "rt") as source:
        protos: dict[str, Any] = json.load(source)
    return protos


PROTOS = load_protos()


STAMPS: dict[str, Any] = {"op_role": 0, "op_role_var": [], "op_namescope": "/"}


def default_of(op_type: str, attr: str) -> Any:
    """An operator's attribute when nobody sets it, or None; a gradient op has its forward op's."""
    if attr in STAMPS:
        return STAMPS[attr]
    while op_type not in PROTOS and op_type.endswith("_grad"):
        op_type = op_type[: -len("_grad")]
    entry = PROTOS.get(op_type, {"attrs": {}})["attrs"].get(attr)
    return None if entry is None or entry[1] == "required" else entry[1]


def plain(value: Any) -> Any:
    """An attribute as compared: lists for sequences, no difference between 1 and 1.0."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return float(value) if isinstance(value, (int, float, np.number)) else value


def same_attr(left: Any, right: Any) -> bool:
    left, right = plain(left), plain(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same_attr(*pair) for pair in zip(left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-30) or left == right
    return bool(left == right)


def attrs_of(op: Any) -> dict[str, Any]:
    """The attributes that count; name scopes without their numbers, which count up through a process."""
    found = {name: op.attr(name) for name in op.attr_names if name not in IGNORED}
    if "original_output_grad" in found:  # from a set of strings, like the slots (see slots_of)
        found["original_output_grad"] = sorted(found["original_output_grad"])
    if "op_namescope" in found:
        found["op_namescope"] = re.sub(r"_\d+/", "/", found["op_namescope"])
    return found


def slots_of(op: Any) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Inputs and outputs by slot, empty slots left out.

    Paddle fills the slots of operators with a block from sets of strings: their order differs from process to
    process, so they are sorted here.
    """
    order = sorted if "sub_block" in op.attr_names else list
    inputs = {slot: order(op.input(slot)) for slot in op.input_names if op.input(slot)}
    return inputs, {slot: order(op.output(slot)) for slot in op.output_names if op.output(slot)}


def op_differences(where: str, built: Any, recorded: Any) -> Iterator[str]:
    for kind, mine, theirs in zip(("inputs", "outputs"), slots_of(built), slots_of(recorded)):
        for slot in sorted(set(mine) | set(theirs)):
            if mine.get(slot) != theirs.get(slot):
                yield f"{where}: {kind} {slot} is {mine.get(slot)}, Paddle has {theirs.get(slot)}"
    mine, theirs = attrs_of(built), attrs_of(recorded)
    for name in sorted(set(mine) | set(theirs)):
        default = default_of(recorded.type, name)
        left, right = mine.get(name, default), theirs.get(name, default)
        if not same_attr(left, right) and not (name not in theirs and name.startswith(("op_", "_"))):
            yield f"{where}: attribute {name} is {left!r}, Paddle has {right!r}"


def type_differences(where: str, built: Sequence[str], recorded: Sequence[str]) -> list[str]:
    """The first place where two lists of operator types part."""
    for index in range(max(len(built), len(recorded))):
        mine, theirs = built[index : index + 1], recorded[index : index + 1]
        if mine != theirs:
            return [
                (
                    f"{where}: operators part at {index}: {list(built[index : index + 4])}; "
                    f"Paddle has {list(recorded[index : index + 4])}"
                )
            ]
    return []


def facts_of(var: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": int(var.type), "persistable": bool(var.persistable)}
    for name in ("shape", "dtype", "lod_level"):
        try:
            value = getattr(var, name)
        except Exception:  # Paddle's arrays and step scopes have none of these
            continue
        if name == "shape":
            facts[name] = [max(size, -1) for size in value]
        else:
            facts[name] = None if value is None else int(value)
    return facts


def var_differences(where: str, built: Any, recorded: Any) -> Iterator[str]:
    mine, theirs = facts_of(built), facts_of(recorded)
    if theirs.get("shape") == []:  # 1.8.5 has no scalars: it never inferred this variable
        theirs = {"type": theirs["type"], "persistable": theirs["persistable"]}
    if theirs.get("shape") and not any(theirs["shape"]):
        del theirs["shape"]  # expand_as of 1.8.5 says zeros until it runs
    if "@GRAD" in recorded.name or recorded.name.startswith("beam_search_"):
        theirs.pop("lod_level", None)  # 1.8.5's depends on which op wrote the gradient first
    is_position = recorded.name.startswith("sequence_pool_") and recorded.name.endswith(".tmp_1")
    if is_position or recorded.name.startswith("edit_distance_"):
        theirs.pop("dtype", None)  # positions are integers and distances are not, whatever 1.8.5 declares
    if recorded.name.startswith(("matrix_nms_", "yolov3_loss_")) and recorded.name.endswith(".tmp_1"):
        theirs.pop("dtype", None)  # Index has 32 bits and ObjectnessMask is real, whatever 1.8.5 declares
    if recorded.name.startswith("sequence_pad_"):
        theirs.pop("shape", None)  # 1.8.5 takes the longest sequence for known, and for 1
    if recorded.name.startswith(("isinf_", "isnan_")):
        del theirs["dtype"]  # 1.8.5 leaves these truth values the dtype of what was asked about
    if recorded.name.endswith("_shape") and theirs.get("dtype") == 0:
        del theirs["dtype"]  # the sizes that Paddle's gradients() asks for are called truth values
    for name, value in theirs.items():
        if name in mine and mine[name] != value:
            yield f"{where}: {name} of {recorded.name} is {mine[name]}, Paddle has {value}"


def block_differences(where: str, built: Any, recorded: Any) -> Iterator[str]:
    types = [[op.type for op in block.ops] for block in (built, recorded)]
    parted = type_differences(where, *types)
    yield from parted
    for index, (mine, theirs) in enumerate(zip(built.ops, recorded.ops)):
        if mine.type != theirs.type:
            break
        yield from op_differences(f"{where}, op {index} ({theirs.type})", mine, theirs)
    for name, theirs in recorded.vars.items():
        if name not in built.vars:
            yield f"{where}: variable {name} is missing"
        else:
            yield from var_differences(where, built.vars[name], theirs)
    for name in built.vars:
        if name not in recorded.vars:
            yield f"{where}: Paddle has no variable {name}"


def python_differences(where: str, program: Any, recorded: dict[str, Any]) -> Iterator[str]:
    """stop_gradient of every variable and trainable of every parameter, which Paddle's files do not hold."""
    stopped = {tuple(pair) for pair in recorded["stop_gradient"]}
    trainable = {(index, name): flag for index, name, flag in recorded["parameters"]}
    for block in program.blocks:
        for name, var in block.vars.items():
            key = (block.idx, name)
            if bool(var.stop_gradient) != (key in stopped):
                yield f"{where}: stop_gradient of {name} is {var.stop_gradient}, Paddle has {key in stopped}"
            if key in trainable and getattr(var, "trainable", None) != trainable[key]:
                yield f"{where}: {name} should be a parameter with trainable={trainable[key]}"


def running_blocks(program: Any) -> list[Any]:
    """The blocks that run: Paddle's recomputation leaves two more behind, to which no operator refers."""
    used = {0} | {
        op._block_attr_id("sub_block")
        for block in program.blocks
        for op in block.ops
        if op.has_attr("sub_block")
    }
    return [block for block in program.blocks if block.idx in used]


def program_differences(
    fluid: Any, where: str, built: Any, data: bytes, python: dict[str, Any]
) -> Iterator[str]:
    recorded = fluid.Program.parse_from_string(data)
    blocks = [running_blocks(program) for program in (built, recorded)]
    if len(blocks[0]) != len(blocks[1]):
        yield f"{where}: {len(blocks[0])} blocks, Paddle has {len(blocks[1])}"
    for mine, theirs in zip(*blocks):
        yield from block_differences(f"{where}, block {theirs.idx}", mine, theirs)
    yield from python_differences(where, built, python)


def build_differences(fluid: Any, golden: Golden) -> list[str]:
    """Build the case here and say, line by line, where its programs differ from Paddle's."""
    built: Built
    built, startup = construct(fluid, load_cases()[golden.name])
    lines = list(program_differences(fluid, "startup", startup, golden.program(None), golden.meta["startup"]))
    for index, run in enumerate(built.all_runs()):
        lines += program_differences(
            fluid, f"program {index}", run.program, golden.program(index), golden.runs[index]
        )
    return lines
