"""Differences of 1.8.5 when it runs, saves and prints; see the package's docstring."""

import os
import sys
import tempfile

import numpy as np

from beside.row_programs import run, shows


def by_op(fluid, kind, inputs, names, attrs):
    """The outputs of an op that has no function."""
    block = fluid.default_main_program().current_block()
    made = {name: block.create_var(name=kind + "_" + name.lower(), dtype="float32") for name in names}
    block.append_op(type=kind, inputs=inputs, outputs={name: [made[name]] for name in names}, attrs=attrs)
    return made


@shows("fused-origin-mode")
def _(fluid):
    def build(x):
        weights = fluid.layers.assign(np.ones((1, 3), "float32"))
        inputs = {"X": [x], "WeightX": [weights], "WeightH": [weights]}
        names = ["Hidden", "XX", "ReorderedH0", "BatchedInput", "BatchedOut"]
        return by_op(fluid, "fusion_gru", inputs, names, {"origin_mode": True, "use_seq": True})["Hidden"]

    gate, candidate = 1 / (1 + np.exp(-1.0)), np.tanh(1.0)
    x = np.ones((1, 1), "float32")
    return run(fluid, build, x=(x, [1]))[0], [[(1 - gate) * candidate]]


@shows("loaded-values")
def _(fluid):
    with tempfile.TemporaryDirectory() as folder:
        main = fluid.Program()
        with fluid.program_guard(main):
            value = fluid.layers.create_global_var([2], 0.0, "float32", persistable=True, name="kept")
            main.global_block().append_op(
                type="save", inputs={"X": [value]}, attrs={"file_path": os.path.join(folder, "kept")}
            )
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        with fluid.scope_guard(scope):
            scope.var("kept").get_tensor().set(np.array([1.0, 2.0], "float32"), fluid.CPUPlace())
            exe.run(main)

        def build():
            out = fluid.layers.create_tensor("float32")
            fluid.layers.load(out, file_path=os.path.join(folder, "kept"))
            return out

        return run(fluid, build)[0], [1.0, 2.0]


@shows("named-halves")
def _(fluid):
    x = np.array([[1.5, 2.0]], "float16")
    found = run(fluid, lambda x: fluid.layers.matmul(x, x, transpose_y=True), x=x)[0]
    return found.astype("float32"), [[6.25]]


@shows("brain-floats")
def _(fluid):
    optimizer = fluid.optimizer.SGD(0.1)
    fluid.contrib.mixed_precision.decorate(optimizer, dtype="bfloat16")
    return "made", "made"


@shows("uneven-feeds")
def _(fluid):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 1])
        loss = fluid.layers.reduce_mean(fluid.layers.fc(x, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(3))
        found = exe.run(compiled, feed={"x": np.ones((4, 1), "float32")}, fetch_list=[loss.name])
    return list(found[0].shape), [3]


@shows("shapes-of-no-run", error="TranspilerError")
def _(fluid):
    main = fluid.Program()
    with fluid.program_guard(main):
        fluid.layers.fc(fluid.data("x", [None, 1]), 1)
    fluid.DistributeTranspiler().transpile(0, main, "127.0.0.1:6174", 1)
    return "made", None


@shows("copies-that-are-saved")
def _(fluid):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.data("x", [None, 1]), 1)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()), tempfile.TemporaryDirectory() as folder:
        exe.run(startup)
        before = len(main.global_block().ops)
        fluid.io.save_inference_model(folder, ["x"], [out], exe, main)
    return len(main.global_block().ops) - before, 0


@shows("metrics-that-forget")
def _(fluid):
    auc = fluid.metrics.Auc("auc")
    wrong = np.array([[0.1, 0.9], [0.9, 0.1]])
    auc.update(wrong, np.array([[0], [1]]))
    auc.reset()
    auc.update(wrong, np.array([[1], [0]]))
    return float(auc.eval()), 1.0


@shows("texts-of-programs")
def _(fluid):
    return "blocks {" in str(fluid.Program()), False


@shows("printed-types")
def _(fluid):
    x = np.array([1.5], "float32")
    return "1.5" in said(
        lambda: run(fluid, lambda x: fluid.layers.Print(x, print_tensor_type=False), x=x)
    ), True


def said(work):
    """The text that Python and libraries write while some work is done."""
    kept, before = [os.dup(number) for number in (1, 2)], (sys.stdout, sys.stderr)
    with tempfile.TemporaryFile("w+") as file:
        try:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            sys.stdout = sys.stderr = file
            work()
        finally:
            sys.stdout, sys.stderr = before
            for number, one in enumerate(kept, 1):
                os.dup2(one, number)
                os.close(one)
        file.seek(0)
        return file.read()
