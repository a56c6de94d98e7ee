"""Products of matrices and what is made of them."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, layers, normal, sized


def matmul(transpose_x: bool, transpose_y: bool) -> Any:
    def row(batch: int, rows: int, inner: int, columns: int) -> Row:
        x = (batch, inner, rows) if transpose_x else (batch, rows, inner)
        y = (batch, columns, inner) if transpose_y else (batch, inner, columns)
        return layers(
            lambda fluid, x, y: fluid.layers.matmul(x, y, transpose_x, transpose_y),
            x=normal(*x),
            y=normal(*y),
        )

    return row


def fc(rows: int, inputs: int, size: int) -> Row:
    return layers(lambda fluid, x: fluid.layers.fc(x, size, act="relu"), x=normal(rows, inputs))


def pair(build: Any, left: Any, right: Any) -> Row:
    return layers(build, x=normal(*left), y=normal(*right))


BATCHES = (2, 4, 8, 4), (16, 32, 64, 32), (64, 128, 64, 128)
PLANES = (2, 4, 6, 6), (8, 16, 16, 16), (16, 32, 28, 28)
ROWS = {
    "fc": sized(fc, (4, 8, 4), (64, 256, 256), (512, 1024, 1024)),
    "mul": sized(
        lambda rows, inner, columns: pair(
            lambda fluid, x, y: fluid.layers.mul(x, y), (rows, inner), (inner, columns)
        ),
        (4, 8, 4),
        (64, 256, 256),
        (512, 1024, 1024),
    ),
    "matmul": sized(matmul(False, False), *BATCHES),
    "matmul x^T": sized(matmul(True, False), *BATCHES),
    "matmul y^T": sized(matmul(False, True), *BATCHES),
    "bmm": sized(
        lambda b, n, m, k: pair(lambda fluid, x, y: fluid.layers.bmm(x, y), (b, n, m), (b, m, k)), *BATCHES
    ),
    "dot": sized(
        lambda n, m: pair(lambda fluid, x, y: fluid.layers.dot(x, y), (n, m), (n, m)),
        (4, 6),
        (128, 256),
        (1024, 1024),
    ),
    "addmm": sized(
        lambda n, m, k: layers(
            lambda fluid, x, y, z: fluid.layers.addmm(z, x, y), x=normal(n, m), y=normal(m, k), z=normal(n, k)
        ),
        (4, 8, 4),
        (64, 256, 256),
        (512, 1024, 1024),
    ),
    "bilinear_tensor_product": sized(
        lambda n, m, k: pair(
            lambda fluid, x, y: fluid.layers.bilinear_tensor_product(x, y, size=k), (n, m), (n, m)
        ),
        (4, 8, 4),
        (32, 32, 16),
        (128, 64, 64),
    ),
    "cos_sim": sized(
        lambda n, m: pair(lambda fluid, x, y: fluid.layers.cos_sim(x, y), (n, m), (n, m)),
        (4, 6),
        (128, 256),
        (1024, 1024),
    ),
    "fsp_matrix": sized(
        lambda *shape: pair(lambda fluid, x, y: fluid.layers.fsp_matrix(x, y), shape, shape), *PLANES
    ),
    "attention of 4 heads": sized(
        lambda batch, words, size: layers(
            lambda fluid, q, k, v: fluid.nets.scaled_dot_product_attention(q, k, v, num_heads=4),
            **{name: normal(batch, words, size) for name in "qkv"},
        ),
        (2, 4, 8),
        (8, 32, 64),
        (16, 64, 256),
    ),
}
