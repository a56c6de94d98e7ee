"""Some of very many classes, for the last layer of a network to compute with: partial softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError
from fluidlite.base.registry import AttrType, KernelContext, Op, Spec, required
from fluidlite.values.tensor import host

class_center_sample = Op(
    "class_center_sample",
    "Label -> RemappedLabel SampledLocalClassCenter",
    attrs={
        "num_classes": required(AttrType.INT),
        "num_samples": required(AttrType.INT),
        "ring_id": 0,
        "nranks": 1,
        "rank": 0,
        "fix_seed": False,
        "seed": 0,
    },
    lod=None,
    random=True,
    dynamic=True,
)


@class_center_sample.shape
def _(Label: Spec, num_samples: int) -> tuple[Spec, Spec]:
    return Label, Label.with_shape((num_samples,))


@class_center_sample.kernel
def _(
    xp: Any,
    Label: Array,
    num_classes: int,
    num_samples: int,
    fix_seed: bool,
    seed: int,
    ctx: KernelContext,
) -> tuple[Array, Array]:
    """The classes of the labels in ascending order, and as many others behind them, which are drawn, as make
    up `num_samples`; labels become places in this list.
    """
    labels = host(Label)
    if labels.size and not (0 <= labels.min() and labels.max() < num_classes):
        raise KernelError(
            f"op 'class_center_sample': Label is {labels.tolist()}, wanted classes from 0 to {num_classes - 1}"
        )
    present, places = np.unique(labels, return_inverse=True)
    others = np.setdiff1d(np.arange(num_classes, dtype=labels.dtype), present)
    rng = np.random.default_rng(seed) if fix_seed else ctx.rng(0)
    drawn = rng.permutation(others)[: max(num_samples - len(present), 0)]
    found = np.concatenate([present, drawn])
    return xp.asarray(places.reshape(labels.shape).astype(labels.dtype)), xp.asarray(found)
