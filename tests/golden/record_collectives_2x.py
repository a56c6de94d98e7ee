"""Record what the collective functions of PaddlePaddle 2.6.2 append on rank 0 of two, and their signatures.

cd tests && python -m golden.record_collectives_2x      with the Python of 2.6.2; writes collectives_2x.json
"""

from __future__ import annotations

import inspect
import json
import os
import pathlib
from typing import Any

import numpy  # noqa: F401  before paddle, which fails otherwise

from golden.collectives_2x import SIGNATURES, programs

ENVIRONMENT = {
    "PADDLE_TRAINER_ID": "0",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:6170,127.0.0.1:6171",
    "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:6170",
}
# what every op has, and what 2.x writes on some ops for kernels of its own
_LEFT_OUT = (
    "op_role op_role_var op_namescope op_callstack op_device with_quant_attr mkldnn_data_type use_mkldnn "
    "use_quantizer x_data_format y_data_format of_2x ring_ranks"
)
LEFT_OUT = frozenset(_LEFT_OUT.split())


def ops_of(paddle: Any, unique_name: Any, build: Any) -> list[Any]:
    """[type, inputs, outputs, attributes] of each op that `build` appends."""
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()), unique_name.guard():
        x, y = (paddle.static.data(name, [4, 6], "float32") for name in "xy")
        build(x, y)
    return [
        [
            op.type,
            {slot: op.input(slot) for slot in op.input_names if op.input(slot)},
            {slot: op.output(slot) for slot in op.output_names if op.output(slot)},
            {name: op.attr(name) for name in sorted(op.attr_names) if name not in LEFT_OUT},
        ]
        for op in main.global_block().ops
    ]


def signature(paddle: Any, name: str) -> list[list[str]]:
    """Names and defaults of the parameters of a function or class."""
    found = paddle.distributed
    for part in name.split("."):
        found = getattr(found, part)
    parameters = inspect.signature(found).parameters.values()
    return [
        [each.name, "" if each.default is inspect.Parameter.empty else repr(each.default)]
        for each in parameters
    ]


def record(paddle: Any, unique_name: Any) -> dict[str, Any]:
    """All of it."""
    return {
        "programs": {name: ops_of(paddle, unique_name, build) for name, build in programs(paddle).items()},
        "signatures": {name: signature(paddle, name) for name in SIGNATURES},
    }


def main() -> None:
    os.environ.update(ENVIRONMENT)
    import paddle
    from paddle.distributed import fleet, rpc  # noqa: F401

    paddle.enable_static()
    fleet.init(is_collective=True)  # `split` asks for it
    found = record(paddle, paddle.utils.unique_name)
    path = pathlib.Path(__file__).with_name("collectives_2x.json")
    path.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
