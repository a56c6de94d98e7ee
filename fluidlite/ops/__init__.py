"""The meaning of ops: one block an op, in the file of its family; families stand in rooms by subject.

A block has everything about its op: slots, attributes, shape rule, kernel, gradient, gradient of the gradient
(`fluidlite.base.registry` tells how they are written). A new op is such a block in a family, and a row in
`tests/ops/op_tables`; nothing lists the families or their ops.

A family is imported when one of its ops is first looked up: `registry.find` reads the sources for a top-level
statement that declares it (`mul = Op("mul", ...`, `unary("exp", ...`). `tests/ops/test_families.py` holds
that exactly one family answers for each op.

`kernels` has what families share and how some ops are computed; `gradients` and `signatures` help to write
blocks.
"""
