"""Losses, and the metrics of classes."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, below, layers, normal, shares, sized, uniform

SIZES = (4, 6), (128, 256), (512, 2048)
ELEMENTS = (4, 6), (128, 256), (1024, 1024)


def pair(build: Any) -> Any:
    """Of two matrices."""
    return lambda rows, columns: layers(build, x=uniform(rows, columns), y=uniform(rows, columns))


def column(build: Any) -> Any:
    """Of two or three columns."""

    def row(rows: int, names: str = "xy") -> Row:
        return layers(build, **{name: uniform(rows, 1) for name in names})

    return row


def classes(build: Any, grad: bool = True) -> Any:
    """Of scores and the numbers of classes."""
    return lambda rows, columns: layers(build, grad=grad, x=normal(rows, columns), y=below(columns, rows, 1))


def softs(build: Any) -> Any:
    """Of scores and shares of classes."""
    return lambda rows, columns: layers(build, x=normal(rows, columns), y=shares(rows, columns))


def likely(build: Any, grad: bool = True) -> Any:
    """Of probabilities and the numbers of classes."""
    return lambda rows, columns: layers(build, grad=grad, x=shares(rows, columns), y=below(columns, rows, 1))


COLUMNS = (8,), (1024,), (65536,)
ROWS = {
    "cross_entropy": sized(likely(lambda fluid, x, y: fluid.layers.cross_entropy(x, y)), *SIZES),
    "cross_entropy soft": sized(
        lambda rows, columns: layers(
            lambda fluid, x, y: fluid.layers.cross_entropy(x, y, soft_label=True),
            x=shares(rows, columns),
            y=shares(rows, columns),
        ),
        *SIZES,
    ),
    "softmax_with_cross_entropy": sized(
        classes(lambda fluid, x, y: fluid.layers.softmax_with_cross_entropy(x, y)), *SIZES
    ),
    "softmax_with_cross_entropy soft": sized(
        softs(lambda fluid, x, y: fluid.layers.softmax_with_cross_entropy(x, y, soft_label=True)), *SIZES
    ),
    "softmax_with_cross_entropy axis 1": sized(
        lambda batch, count, size: layers(
            lambda fluid, x, y: fluid.layers.softmax_with_cross_entropy(x, y, axis=1),
            x=normal(batch, count, size),
            y=below(count, batch, 1, size),
        ),
        (2, 3, 4),
        (8, 16, 256),
        (8, 32, 4096),
    ),
    "sigmoid_cross_entropy_with_logits": sized(
        pair(lambda fluid, x, y: fluid.layers.sigmoid_cross_entropy_with_logits(x, y)), *ELEMENTS
    ),
    "sigmoid_focal_loss": sized(
        lambda rows, columns: layers(
            lambda fluid, x, y, n: fluid.layers.sigmoid_focal_loss(x, y, n),
            x=normal(rows, columns),
            y=below(columns + 1, rows, 1).astype("int32"),
            n=below(5, 1).astype("int32") + 1,
        ),
        (4, 6),
        (1024, 80),
        (10000, 80),
    ),
    "bpr_loss": sized(classes(lambda fluid, x, y: fluid.layers.bpr_loss(x, y)), *SIZES),
    "square_error_cost": sized(pair(lambda fluid, x, y: fluid.layers.square_error_cost(x, y)), *ELEMENTS),
    "smooth_l1": sized(pair(lambda fluid, x, y: fluid.layers.smooth_l1(x, y)), *ELEMENTS),
    "huber_loss": sized(column(lambda fluid, x, y: fluid.layers.huber_loss(x, y, 0.5)), *COLUMNS),
    "kldiv_loss": sized(pair(lambda fluid, x, y: fluid.layers.kldiv_loss(x, y)), *ELEMENTS),
    "log_loss": sized(column(lambda fluid, x, y: fluid.layers.log_loss(x, y)), *COLUMNS),
    "rank_loss": sized(
        column(lambda fluid, x, y, z: fluid.layers.rank_loss(x, y, z)),
        *[(size, "xyz") for (size,) in COLUMNS],
    ),
    "margin_rank_loss": sized(
        column(lambda fluid, x, y, z: fluid.layers.margin_rank_loss(x, y, z)),
        *[(size, "xyz") for (size,) in COLUMNS],
    ),
    "teacher_student_sigmoid_loss": sized(
        column(lambda fluid, x, y: fluid.layers.teacher_student_sigmoid_loss(x, y)), *COLUMNS
    ),
    "dice_loss": sized(likely(lambda fluid, x, y: fluid.layers.dice_loss(x, y)), *SIZES),
    "label_smooth": sized(
        lambda rows, columns: layers(lambda fluid, x: fluid.layers.label_smooth(x), x=shares(rows, columns)),
        *ELEMENTS,
    ),
    "center_loss": sized(
        classes(
            lambda fluid, x, y: fluid.layers.center_loss(x, y, num_classes=2048, alpha=0.1, param_attr=None)
        ),
        *SIZES,
    ),
    "npair_loss": sized(
        lambda rows, columns: layers(
            lambda fluid, x, y, z: fluid.layers.npair_loss(x, y, z),
            x=normal(rows, columns),
            y=normal(rows, columns),
            z=below(10, rows).astype("float32"),
        ),
        (4, 6),
        (64, 128),
        (256, 256),
    ),
    "accuracy": sized(likely(lambda fluid, x, y: fluid.layers.accuracy(x, y, k=5), False), *SIZES),
    "auc": sized(
        lambda rows: layers(
            lambda fluid, x, y: fluid.layers.auc(x, y)[0], grad=False, x=shares(rows, 2), y=below(2, rows, 1)
        ),
        (8,),
        (1024,),
        (65536,),
    ),
    "mean_iou": sized(
        lambda rows, columns: layers(
            lambda fluid, x, y: fluid.layers.mean_iou(x, y, 21),
            grad=False,
            x=below(21, rows, columns).astype("int32"),
            y=below(21, rows, columns).astype("int32"),
        ),
        *ELEMENTS,
    ),
}
