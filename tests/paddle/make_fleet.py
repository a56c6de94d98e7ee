"""Records fleet of PaddlePaddle 2.6.2: `cd tests/paddle && python make_fleet.py`, with 2.6.2 and NumPy.

Its wheel for CPUs builds collective programs when it is told that it has CUDA; two ops that it does not have
are declared here by their names. It writes fleet_2x.json.gz beside this file: the programs of each case of
`fleet_programs.py`, how each field of a strategy takes values, files of strategies, and roles.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pathlib
import sys
import types
from typing import Any

import numpy as np  # noqa: F401  # before paddle, which crashes otherwise
import paddle
from fleet_programs import CASES, COMBINATIONS, REPORTED, built, combined, composed, described, overviews
from fleet_roles import ENVIRONMENTS, USER_DEFINED, answers
from google.protobuf import pyext
from google.protobuf.internal import containers
from paddle.base import core, framework
from paddle.base.proto import framework_pb2
from paddle.distributed import fleet

VALUES = (None, True, 1, 2.5, "x", {}, {"nope": 1}, [1], -3)


def patch() -> None:
    """Let the wheel build what it cannot run."""
    module: Any = types.ModuleType("google.protobuf.pyext._message")
    module.RepeatedScalarContainer = containers.RepeatedScalarFieldContainer
    module.RepeatedCompositeContainer = containers.RepeatedCompositeFieldContainer
    sys.modules[module.__name__] = pyext._message = module
    flags = paddle.get_flags

    def get_flags(names: Any) -> Any:
        try:
            return flags(names)
        except ValueError:
            return dict.fromkeys([names] if isinstance(names, str) else names, False)

    paddle.get_flags = get_flags
    core.is_compiled_with_cuda = lambda: True
    for each in list(sys.modules.values()):
        if "wait_server_ready" in vars(each):
            vars(each)["wait_server_ready"] = lambda *args: None
    declare_ops()


def declare_ops() -> None:
    """Declare the ops of NCCL's communicators."""
    of_wheel = framework.OpProtoHolder.get_op_proto
    slots = {"c_gen_nccl_id": ("", "Out", "rank endpoint other_endpoints ring_id")}
    slots["c_comm_init"] = ("X", "", "nranks rank ring_id device_id")
    kinds = {"endpoint": 2, "other_endpoints": 5, "op_role_var": 5, "op_namescope": 2, "op_callstack": 5}
    general = "op_role op_role_var op_namescope op_callstack op_device"

    def get_op_proto(self: Any, name: str) -> Any:
        if name not in slots:
            return of_wheel(self, name)
        inputs, outputs, attrs = slots[name]
        proto = framework_pb2.OpProto(type=name, comment="")
        for variables, names in ((proto.inputs, inputs), (proto.outputs, outputs)):
            for slot in names.split():
                variables.add(name=slot, comment="", duplicable=True, dispensable=True)
        for attr in f"{attrs} {general}".split():
            kind = 2 if attr == "op_device" else kinds.get(attr, 0)
            proto.attrs.add(name=attr, type=kind, comment="")
        return proto

    framework.OpProtoHolder.get_op_proto = get_op_proto
    for method in ("check_attrs", "infer_var_type", "infer_shape"):
        setattr(core.OpDesc, method, leaving_out(getattr(core.OpDesc, method), set(slots)))


def leaving_out(method: Any, types_: set[str]) -> Any:
    def checked(self: Any, *args: Any) -> Any:
        return None if self.type() in types_ else method(self, *args)

    return checked


def programs() -> dict[str, Any]:
    found = {}
    for name in CASES:
        main, startup, parts = built(paddle, fleet, paddle.utils.unique_name.guard, name)
        found[name] = {"main": described(main), "startup": described(startup), "applied": parts}
    return found


def combinations() -> dict[str, Any]:
    guard = paddle.utils.unique_name.guard
    return {name: combined(paddle, fleet, guard, name) for name in COMBINATIONS}


def reported() -> list[list[str]]:
    guard = paddle.utils.unique_name.guard
    return [composed(paddle, fleet, guard, *row)[2] for row in REPORTED]


def fields() -> dict[str, list[str]]:
    """Field -> for each of VALUES the error's type, or what it then reads."""
    kind = fleet.DistributedStrategy
    names = [name for name in sorted(dir(kind)) if isinstance(vars(kind).get(name), property)]
    return {name: [outcome(fleet.DistributedStrategy(), name, value) for value in VALUES] for name in names}


def outcome(strategy: Any, name: str, value: Any) -> str:
    try:
        setattr(strategy, name, value)
    except Exception as error:
        return type(error).__name__
    found = getattr(strategy, name)
    return f"ok {found!r}" if isinstance(found, (bool, int, float, str, dict, list)) else "ok"


def main() -> None:
    patch()
    paddle.enable_static()
    # the wheel prints what it thinks of each strategy
    with contextlib.redirect_stdout(io.StringIO()):
        found = {
            "programs": programs(),
            "combinations": combinations(),
            "reported": reported(),
            "overviews": overviews(fleet),
            "fields": fields(),
            "roles": [answers(fleet.base.role_maker, os.environ, row) for row in ENVIRONMENTS],
            "user_defined": [answers(fleet.base.role_maker, os.environ, row) for row in USER_DEFINED],
        }
    target = pathlib.Path(__file__).with_name("fleet_2x.json.gz")
    target.write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    main()
