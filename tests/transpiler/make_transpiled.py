"""Record what PaddlePaddle 1.8.5's transpilers make of every case: one `transpiled/<case>.zip` each.

From the folder `tests`, with the Python that has PaddlePaddle 1.8.5:

    python make_transpiled.py [CASE ...]        without names: every case that has no file yet

A file holds the serialised ProgramDesc (without call stacks, control variables numbered) of the source
programs, `source.main` and `source.startup`, and of each role's, `trainer0.main` and so on; or, where 1.8.5
raises, the source and `error`, its type and message. Of the cases about placement, `overview` holds what
programs say of the servers.

Every case is recorded twice, in processes with different hash seeds: `unstable` says, a line each, where the
two differ. Nothing waits for a port here. 1.8.5's wheel for the CPU lacks the operators `gen_nccl_id` and
`c_gen_nccl_id`; they are given a made-up prototype that takes any attribute, so that programs may hold them;
they never run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import paddle.fluid as fluid
import transpiled_roles
from paddle.fluid import core, framework
from paddle.fluid.proto import framework_pb2
from paddle.fluid.transpiler import collective, distribute_transpiler
from transpiled_cases import CASES
from transpiled_compare import differences, number_control_variables, read, write

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transpiled")
MISSING = {"gen_nccl_id": ([], ["NCCLID"]), "c_gen_nccl_id": ([], ["Out"])}
LARGEST = 20 * 1000
SEEDS = "1", "2"


def stripped(program: Any) -> bytes:
    """The serialised program without call stacks, which only name folders of the recording machine."""
    desc = framework_pb2.ProgramDesc.FromString(program.desc.serialize_to_string())
    for block in desc.blocks:
        for op in block.ops:
            for index in reversed([i for i, attr in enumerate(op.attrs) if attr.name == "op_callstack"]):
                del op.attrs[index]
            ordered = sorted(op.attrs, key=lambda attr: attr.name)
            copies = [framework_pb2.OpDesc.Attr.FromString(attr.SerializeToString()) for attr in ordered]
            del op.attrs[:]
            op.attrs.extend(copies)
    return bytes(number_control_variables(desc).SerializeToString())


def allow_missing_operators() -> None:
    """Prototypes for `MISSING` that take what they are given, and no check of what C++ does not know."""
    protos = framework.OpProtoHolder.instance().op_proto_map
    construct = framework.Operator.__init__

    def construct_any(
        self: Any,
        block: Any,
        desc: Any,
        type: Any = None,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
    ) -> None:
        if type in MISSING:
            protos[type] = made_up(type, attrs or {})
        construct(self, block, desc, type, inputs, outputs, attrs)

    framework.Operator.__init__ = construct_any
    for method in ("check_attrs", "infer_var_type", "infer_shape"):
        skip_missing(method)


def made_up(name: str, attrs: dict[str, Any]) -> Any:
    """A prototype with the slots of `MISSING` and those attributes."""
    proto = framework_pb2.OpProto(type=name, comment="made up by the recorder")
    for slots, names in zip((proto.inputs, proto.outputs), MISSING[name]):
        for slot in names:
            slots.add(name=slot, comment="", duplicable=True)
    for attr in attrs:
        if not attr.startswith("op_"):
            proto.attrs.add(name=attr, type=framework_pb2.INT, comment="")
    return proto


def skip_missing(method: str) -> None:
    whole = getattr(core.OpDesc, method)
    setattr(core.OpDesc, method, lambda self, *args: None if self.type() in MISSING else whole(self, *args))


def record(name: str, path: str) -> None:
    """One case into one file."""
    case = CASES[name]
    files: dict[str, bytes] = {}
    try:
        main, startup = transpiled_roles.build(fluid, case)
        files.update({"source.main": stripped(main), "source.startup": stripped(startup)})
        programs = transpiled_roles.roles(fluid, case, lambda: transpiled_roles.build(fluid, case))
        files.update({role: stripped(program) for role, program in programs.items()})
        if name.startswith("place_"):
            files["overview"] = transpiled_roles.overview(programs).encode()
    except Exception as error:
        files["error"] = f"{type(error).__name__}: {summary(error)}".encode()
    write(path, files)


def summary(error: Exception) -> str:
    """The message without the stacks of C++ and Python that 1.8.5 puts before it."""
    return str(error).rpartition("Error Message Summary:\n----------------------\n")[2].strip()


def recorded_in_child(name: str, seed: str) -> dict[str, bytes]:
    """The case from a process of its own: names and hashes start anew, and 1.8.5 ends some processes."""
    path = os.path.join(FOLDER, f"{name}.seed{seed}")
    environment = dict(os.environ, PYTHONHASHSEED=seed)
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--one", name, path],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if not os.path.exists(path):
        sys.exit(f"{name} ended PaddlePaddle ({done.returncode}):\n{done.stdout.decode()[-2000:]}")
    files = read(path)
    os.remove(path)
    return files


def unstable(first: dict[str, bytes], second: dict[str, bytes]) -> list[str]:
    roles = [role for role in first if "." in role]
    parse = framework_pb2.ProgramDesc.FromString
    return [line for role in roles for line in differences(role, parse(first[role]), parse(second[role]))]


def record_case(name: str) -> bool:
    files, again = (recorded_in_child(name, seed) for seed in SEEDS)
    lines = unstable(files, again)
    if lines:
        files["unstable"] = "\n".join(lines).encode()
    path = os.path.join(FOLDER, name + ".zip")
    write(path, files)
    size = os.path.getsize(path)
    print(
        f"{name:32} {size:6} bytes{'  TOO LARGE' if size > LARGEST else ''}  "
        f"{files.get('error', b'').decode()[:150]}"
    )
    for line in lines[:10]:
        print("    unstable:", line)
    return "source.main" in files or "error" in files


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    if names[:1] == ["--one"]:
        allow_missing_operators()
        for module in (collective, distribute_transpiler):
            module.wait_server_ready = lambda endpoints: None
        record(names[1], names[2])
        return
    os.makedirs(FOLDER, exist_ok=True)
    missing = [name for name in CASES if not os.path.exists(os.path.join(FOLDER, name + ".zip"))]
    failed = [name for name in names or missing if not record_case(name)]
    sys.exit("failed: " + " ".join(failed) if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
