"""Save single values with PaddlePaddle 1.8.5: one file a dtype, a sequence, SelectedRows.

From the folder `tests`, with the Python that has PaddlePaddle 1.8.5:

    python -m golden.record_streams

`io/<name>` is what `fluid.io.save_vars` wrote; `tests/fluid/test_io.py` knows the values.
"""

import os

import numpy as np
import paddle.fluid as fluid
from paddle.fluid import core

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "io")
DTYPES = ["float32", "float64", "int8", "int32", "int64"]  # op save has no kernel for others


def main() -> None:
    program, scope, place = fluid.Program(), fluid.global_scope(), fluid.CPUPlace()
    block = program.global_block()
    for dtype in DTYPES:
        block.create_var(name=dtype, shape=[2, 3], dtype=dtype, persistable=True)
        scope.var(dtype).get_tensor().set(np.arange(6).reshape(2, 3).astype(dtype), place)
    block.create_var(name="sequence", shape=[5, 1], dtype="int64", lod_level=2, persistable=True)
    tensor = scope.var("sequence").get_tensor()
    tensor.set(np.arange(5).reshape(5, 1), place)
    tensor.set_recursive_sequence_lengths([[2, 1], [1, 3, 1]])
    block.create_var(
        name="rows", shape=[9, 2], dtype="float32", type=core.VarDesc.VarType.SELECTED_ROWS, persistable=True
    )
    rows = scope.var("rows").get_selected_rows()
    rows.set_height(9)
    rows.set_rows([7, 2, 7])
    rows.get_tensor().set(np.arange(6).reshape(3, 2).astype("float32"), place)
    fluid.io.save_vars(fluid.Executor(place), FOLDER, program, vars=list(block.vars.values()))


if __name__ == "__main__":
    main()
