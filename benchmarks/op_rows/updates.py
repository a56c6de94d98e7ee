"""Steps of optimizers: gradients of an embedding's rows, and of a matrix, into parameters."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, below, layers, normal, sized

# rows of the batch, size, words
SIZES = (4, 8, 10), (256, 64, 1000), (2048, 128, 20000)
KINDS: Any = {
    "SGD": {},
    "Momentum": {"momentum": 0.9},
    "LarsMomentum": {"momentum": 0.9},
    "Adam": {},
    "Adamax": {},
    "Adagrad": {},
    "DecayedAdagrad": {},
    "Adadelta": {},
    "RMSProp": {},
    "Ftrl": {},
    "Lamb": {},
    "Dpsgd": {"clip": 1.0, "batch_size": 4.0, "sigma": 0.0},
}
SPARSE = ("SGD", "Momentum", "Adam", "Adagrad", "RMSProp", "Lamb")


def dense(kind: str, options: Any) -> Any:
    def row(rows: int, size: int, words: int) -> Row:
        def build(fluid: Any, x: Any) -> Any:
            weight = fluid.layers.create_parameter([rows, words], "float32", name="w")
            loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(weight, x))
            getattr(fluid.optimizer, kind + "Optimizer")(0.001, **options).minimize(loss)
            return loss

        return layers(build, grad=False, steps=True, x=normal(rows, words))

    return row


def sparse(kind: str, options: Any) -> Any:
    def row(rows: int, size: int, words: int) -> Row:
        def build(fluid: Any, ids: Any) -> Any:
            found = fluid.layers.embedding(ids, [words, size], is_sparse=True)
            loss = fluid.layers.reduce_sum(found)
            more = {"lazy_mode": True} if kind == "Adam" else {}
            getattr(fluid.optimizer, kind + "Optimizer")(0.001, **options, **more).minimize(loss)
            return loss

        return layers(build, grad=False, steps=True, ids=below(words, rows, 1))

    return row


DENSE = (4, 0, 10), (64, 0, 256), (512, 0, 1024)
ROWS = {kind: sized(dense(kind, options), *DENSE) for kind, options in KINDS.items()}
ROWS.update({kind + " sparse": sized(sparse(kind, KINDS[kind]), *SIZES) for kind in SPARSE})
