"""One back end as a process: a case a line on standard input, its facts a line on standard output.

    python -m beside.worker ours|185|262 [engine]

Engines are ours alone: "plan" (the default), "naive", "stand-in".
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any, List


class System:
    """The modules of a back end, and the few calls whose spelling differs between them."""

    def __init__(self, name: str, door: str) -> None:
        if name == "ours":
            import fluidlite

            fluidlite.install_as_paddle(shadow=True)  # tests/paddle has that name, too
        import paddle

        self.paddle = paddle
        self.of_2x = door == "26"
        if self.of_2x:
            paddle.enable_static()
        if name == "262":
            import paddle.base as fluid
        else:
            import paddle.fluid as fluid
        self.fluid: Any = fluid
        self.static: Any = paddle.static if self.of_2x else fluid
        if name == "262":
            fluid.unique_name = paddle.utils.unique_name

    def declare(self, name: str, shape: List[int], dtype: str, level: int) -> Any:  # noqa: UP006
        """A Variable that is fed; unknown sizes are -1."""
        data = self.paddle.static.data if self.of_2x else self.fluid.data
        return data(name, [-1 if size < 0 else size for size in shape], dtype, lod_level=level)

    def gradients(self, targets: Any, inputs: Any, incoming: Any) -> List[Any]:  # noqa: UP006
        """Gradients, None where there is none."""
        function = self.paddle.static.gradients if self.of_2x else self.fluid.gradients
        found = function(targets, inputs, incoming)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def weighted_sum(self, outputs: List[Any], incoming: Any) -> Any:  # noqa: UP006
        """The sum of the outputs' elements, each times its incoming gradient."""
        add = self.paddle.sum if self.of_2x else self.fluid.layers.reduce_sum
        cast = self.paddle.cast if self.of_2x else self.fluid.layers.cast
        total: Any = None
        for output, weight in zip(outputs, incoming or [None] * len(outputs)):
            part = cast(add(output if weight is None else output * weight), "float64")
            total = part if total is None else total + part
        return total

    def sum_of_squares(self, var: Any) -> Any:
        """A number that depends on each element of `var`."""
        if self.of_2x:
            return self.paddle.sum(var * var)
        return self.fluid.layers.reduce_sum(var * var)


def answer(name: str, engine: str, request: Any) -> Any:
    """The facts that a request asks for: of a case, of one whose programs are loaded, of a job, or what
    building a case raises.
    """
    if "job" in request:
        return of_job(name, request["job"])
    if "built" in request:
        from recorded.wrong_kinds import raised

        return raised(System(name, "18").fluid, request["built"])
    from .observe import Loaded, Observer

    case = request["case"]
    system = System(name, case["door"])
    loaded = request.get("loaded")
    observer = Loaded(system, case, loaded) if loaded else Observer(system, case)
    if engine == "naive":
        observer.exe.naive = True
    if engine == "stand-in":
        observer.exe = system.static.Executor(system.fluid.CUDAPlace(0))
    return observer.observe(request["parts"])


def of_job(name: str, job: Any) -> Any:
    """The programs of a job's processes, and of ours what they prove."""
    from .jobs import facts, prove

    found = {"facts": facts(System(name, "18").fluid, job)}
    if name == "ours":
        found["proof"] = prove(job)
    return found


def main(name: str, engine: str = "plan") -> None:
    """Answer until standard input ends; what the system prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    if engine == "stand-in":
        from gpu_sim import plugin

        assert plugin
    System(name, "18" if name != "262" else "26")
    replies.write("{}\n")
    replies.flush()
    for line in sys.stdin:
        try:
            found = json.dumps(answer(name, engine, json.loads(line)))
        except Exception as error:  # the case itself is at fault: nothing to compare
            found = json.dumps({"fault": f"{type(error).__name__}: {error}"})
        replies.write(found + "\n")
        replies.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
