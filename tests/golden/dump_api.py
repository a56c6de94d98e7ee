"""Write down what PaddlePaddle 1.8.5 offers: every operator's slots and attributes, every public signature.

Run under PaddlePaddle 1.8.5; nothing here is needed to use FluidLite.

    python tests/golden/dump_api.py [--pretty DIR]
"""

from __future__ import annotations

import argparse
import enum
import gzip
import importlib
import inspect
import json
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

import paddle.fluid as fluid
import paddle.fluid.op as paddle_op
from paddle.fluid import core

HERE = os.path.dirname(os.path.abspath(__file__))
GENERATED = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"}
TYPE_NAMES = {"BOOL": "BOOLEAN", "BOOLS": "BOOLEANS"}
MADE_UP = {
    "INT": 1,
    "FLOAT": 1.0,
    "STRING": "made_up",
    "INTS": [1],
    "FLOATS": [1.0],
    "STRINGS": ["made_up"],
    "BOOLEAN": True,
    "BOOLEANS": [True],
    "LONG": 1,
    "LONGS": [1],
}
MADE_UP_FOR = {  # where a check refuses the plain made-up value
    "pooling_type": "max",
    "pyramid_height": 2,
    "win_size": 2,
    "dtype": 5,
    "variances": [0.1, 0.1, 0.2, 0.2],
    "unpooling_type": "max",
    "functor_list": ["relu", "elementwise_add"],
    "shape": [2, 2],
}
MODULES = [
    "paddle.fluid",
    "paddle.fluid.layers",
    "paddle.fluid.optimizer",
    "paddle.fluid.initializer",
    "paddle.fluid.regularizer",
    "paddle.fluid.clip",
    "paddle.fluid.io",
    "paddle.fluid.metrics",
    "paddle.fluid.nets",
    "paddle.fluid.framework",
    "paddle.fluid.backward",
    "paddle.fluid.executor",
    "paddle.fluid.compiler",
    "paddle.fluid.parallel_executor",
    "paddle.fluid.data",
    "paddle.fluid.data_feeder",
    "paddle.fluid.reader",
    "paddle.fluid.unique_name",
    "paddle.fluid.profiler",
    "paddle.fluid.param_attr",
    "paddle.fluid.average",
    "paddle.fluid.evaluator",
    "paddle.fluid.debugger",
    "paddle.fluid.layer_helper",
    "paddle.fluid.dataset",
    "paddle.fluid.transpiler",
    "paddle.fluid.lod_tensor",
    "paddle.fluid.input",
    "paddle.fluid.install_check",
    "paddle.fluid.dygraph_grad_clip",
    "paddle.fluid.generator",
    "paddle.fluid.communicator",
    "paddle.fluid.trainer_factory",
    "paddle.fluid.device_worker",
    "paddle.fluid.trainer_desc",
    "paddle.fluid.layers.math_op_patch",
    "paddle.reader",
    "paddle.batch",
    "paddle.dataset",
]


# ------------------------------------------------------------------ operators
def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work`, worked out in a forked child: some of the core's checks end the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "w") as out:
            out.write(json_or_error(work))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source:
        text = source.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process ended"}


def json_or_error(work: Callable[[], Any]) -> str:
    try:
        return json.dumps(work())
    except Exception as error:  # the message is the result
        no_maker = "grad_op_maker_ should not be null" in str(error)
        return json.dumps([] if no_maker else {"error": last_line(error)})


def last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def attr_type_name(op_desc: Any, name: str) -> str:
    plain = str(op_desc.attr_type(name)).rsplit(".", 1)[-1]
    return TYPE_NAMES.get(plain, plain)


def attr_value(op_desc: Any, name: str) -> Any:
    kind = attr_type_name(op_desc, name)
    if kind in ("BLOCK", "BLOCKS"):
        return kind.lower()
    return op_desc.attr(name)


def set_made_up(op_desc: Any, program: Any, name: str, kind: str) -> None:
    if kind == "BLOCK":
        op_desc.set_block_attr(name, program.append_block(program.block(0)))
    elif kind == "BLOCKS":
        op_desc.set_blocks_attr(name, [program.append_block(program.block(0))])
    else:
        op_desc._set_attr(name, MADE_UP_FOR.get(name, MADE_UP[kind]))


def check_attrs(op_desc: Any, program: Any, kinds: dict[str, str]) -> list[str]:
    """Fill in all defaults; attributes without one get a made-up value and are named in the result."""
    required: list[str] = []
    while True:
        try:
            op_desc.check_attrs()
            return required
        except Exception as error:
            text = str(error)
        named = [name for name in kinds if "'" + name + "' is required" in text and name not in required]
        if not named:
            raise RuntimeError(text.strip().splitlines()[-1])
        required += named
        for name in named:
            set_made_up(op_desc, program, name, kinds[name])


def describe_attrs(proto: Any) -> dict[str, Any]:
    kinds = {attr.name: attr_kind(attr) for attr in proto.attrs}
    program = core.ProgramDesc()
    op_desc = program.block(0).append_op()
    op_desc.set_type(proto.type)
    required = check_attrs(op_desc, program, kinds)
    result: dict[str, Any] = {}
    for name in sorted(set(kinds) - GENERATED):
        if name in required or not op_desc.has_attr(name):
            result[name] = [kinds[name], "required"]
        else:
            result[name] = [kinds[name], attr_value(op_desc, name)]
    return result


def attr_kind(attr: Any) -> str:
    field = attr.DESCRIPTOR.fields_by_name["type"]
    return field.enum_type.values_by_number[attr.type].name


def made_up_names(slot: Any) -> list[str]:
    return [slot.name + "~0", slot.name + "~1"] if slot.duplicable else [slot.name]


def made_up_op(proto: Any) -> tuple[Any, Any]:
    """The program and an operator of that type in it, every slot filled."""
    program = core.ProgramDesc()
    block = program.block(0)
    op_desc = block.append_op()
    op_desc.set_type(proto.type)
    for slots, setter in ((proto.inputs, op_desc.set_input), (proto.outputs, op_desc.set_output)):
        for slot in slots:
            setter(slot.name, made_up_names(slot))
            for name in made_up_names(slot):
                var = block.var(name.encode())
                var.set_type(core.VarDesc.VarType.LOD_TENSOR)
                var.set_dtype(core.VarDesc.VarType.FP32)
                var.set_shape([2, 2])
    check_attrs(op_desc, program, {attr.name: attr_kind(attr) for attr in proto.attrs})
    return program, op_desc


def describe_gradient(proto: Any) -> list[dict[str, Any]]:
    program, op_desc = made_up_op(proto)
    sub_blocks = [program.append_block(program.block(0))] if op_desc.has_attr("sub_block") else []
    grads, _ = core.get_grad_op_desc(op_desc, set(), sub_blocks)
    return [describe_gradient_op(op_desc, grad) for grad in grads]


def describe_gradient_op(forward: Any, grad: Any) -> dict[str, Any]:
    own = [name for name in grad.attr_names() if name not in GENERATED]
    changed = {
        name: [attr_type_name(grad, name), attr_value(grad, name)]
        for name in sorted(own)
        if not forward.has_attr(name) or attr_value(forward, name) != attr_value(grad, name)
    }
    dropped = sorted(set(forward.attr_names()) - set(own) - GENERATED)
    result = {
        "type": grad.type(),
        "inputs": {slot: grad.input(slot) for slot in sorted(grad.input_names())},
        "outputs": {slot: grad.output(slot) for slot in sorted(grad.output_names())},
    }
    if changed:
        result["changed_attrs"] = changed
    if dropped:
        result["dropped_attrs"] = dropped
    return result


def slot_flags(slot: Any, is_output: bool) -> list[Any]:
    flags = [slot.name, slot.duplicable, slot.dispensable]
    return flags + [slot.intermediate] if is_output else flags


def describe_op(proto: Any) -> dict[str, Any]:
    attrs = in_child(lambda: describe_attrs(proto))
    if "error" in attrs:
        attrs = {
            attr.name: [attr_kind(attr), "unknown"] for attr in proto.attrs if attr.name not in GENERATED
        }
    return {
        "inputs": [slot_flags(slot, False) for slot in proto.inputs],
        "outputs": [slot_flags(slot, True) for slot in proto.outputs],
        "attrs": attrs,
        "grad": in_child(lambda: describe_gradient(proto)),
    }


def describe_ops() -> dict[str, Any]:
    protos = sorted(paddle_op.get_all_op_protos(), key=lambda proto: proto.type)
    return {proto.type: describe_op(proto) for proto in protos}


# ----------------------------------------------------------------- signatures
def spell(value: Any) -> str:
    """A default value, without addresses that change from run to run."""
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    text = repr(value)
    return "<" + type(value).__name__ + ">" if " at 0x" in text else text


def signature_text(target: Callable[..., Any]) -> str:
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return "(?)"
    words, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words, starred = words + ["*"], True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else "=" + spell(parameter.default)
        words.append(stars + parameter.name + default)
    return "(" + ", ".join(words) + ")"


def describe_member(raw: Any, owner: type, name: str) -> str | None:
    if isinstance(raw, property):
        return "property" + (", settable" if raw.fset else "")
    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw).__name__ + signature_text(getattr(owner, name))
    if callable(raw) and not inspect.isclass(raw):
        return signature_text(raw)
    return None


def describe_class(cls: type) -> dict[str, Any]:
    members: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("paddle"):
            continue
        for name, raw in vars(base).items():
            text = describe_member(raw, cls, name)
            wanted = not name.startswith("_") or (name.startswith("__") and name != "__init__")
            if text is not None and (wanted or issubclass(cls, framework_classes())):
                members[name] = text
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    return {"class": signature_text(cls), "bases": bases, "methods": dict(sorted(members.items()))}


def framework_classes() -> tuple[type, ...]:
    names = ("Program", "Block", "Operator", "Variable", "Executor", "Optimizer", "DistributeTranspiler")
    homes = (fluid.framework, fluid.executor, fluid.optimizer, fluid.transpiler)
    return tuple(getattr(home, name) for name in names for home in homes if hasattr(home, name))


def public_names(module: Any) -> list[str]:
    return sorted(
        set(getattr(module, "__all__", [])) | {name for name in vars(module) if not name.startswith("_")}
    )


def describe_module(module: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in public_names(module):
        value = getattr(module, name, None)
        home = getattr(value, "__module__", None) or ""
        if not home.startswith("paddle") or inspect.ismodule(value):
            continue
        if inspect.isclass(value) and not issubclass(value, enum.Enum):
            result[name] = describe_class(value)
        elif callable(value):
            result[name] = signature_text(value)
    if hasattr(module, "__all__"):
        result["__all__"] = sorted(set(module.__all__))
    return result


def module_names() -> list[str]:
    names = list(MODULES)
    for parent in (
        "paddle.fluid.layers",
        "paddle.fluid.transpiler",
        "paddle.fluid.incubate.fleet",
        "paddle.fluid.contrib",
    ):
        package = importlib.import_module(parent)
        names += sorted(info[1] for info in pkgutil.iter_modules(package.__path__, parent + "."))
    return list(dict.fromkeys(names))


def import_or_none(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def describe_api() -> dict[str, Any]:
    result: dict[str, Any] = {}
    seen: dict[int, str] = {}
    for name in module_names():
        module = import_or_none(name)
        if module is None or name == "paddle.batch":
            continue
        described = describe_module(module)
        for key in described:
            place = (
                seen.setdefault(id(getattr(module, key, key)), name + "." + key) if key != "__all__" else ""
            )
            if place and place != name + "." + key:
                described[key] = "same as " + place
        result[name] = described
    result["paddle.batch"] = signature_text(fluid.layers.batch) if hasattr(fluid.layers, "batch") else "(?)"
    result["paddle.fluid.core"] = sorted(name for name in dir(core) if not name.startswith("__"))
    return result


# --------------------------------------------------------------------- writing
def write(name: str, content: Any, pretty: str | None) -> None:
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"))
    with gzip.GzipFile(os.path.join(HERE, name + ".json.gz"), "wb", mtime=0) as out:
        out.write(compact.encode())
    if pretty:
        with open(os.path.join(pretty, name + ".json"), "w") as text_out:
            json.dump(content, text_out, indent=1, sort_keys=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pretty", help="also write indented copies into this directory")
    options = parser.parse_args(arguments)
    write("op_protos", describe_ops(), options.pretty)
    write("signatures", describe_api(), options.pretty)


if __name__ == "__main__":
    main(sys.argv[1:])
