"""The meaning of ops: one block an op, in the file of its family; families stand in rooms by subject.

A block has everything about its op: slots, attributes, shape rule, kernel, gradient, gradient of the gradient
(`fluidlite.base.registry` tells how they are written). A new op is such a block in a family, and a row in
`tests/ops/op_tables`.

A family is imported when one of its ops is first looked up: `registry.find` asks `fluidlite/base/op_index.py`
for it. `tests/house/op_index.py` writes this index, and `tests/house/test_op_index.py` compares it with the
families.

`kernels` has what families share and how some ops are computed; `gradients` and `signatures` help to write
blocks.
"""
