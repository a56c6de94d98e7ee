"""The best sequences of tags of a linear chain, as PaddlePaddle 2.x decodes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.numbers import check_lengths
from fluidlite.values.tensor import host

viterbi_decode = Op(
    "viterbi_decode",
    "Input. Transition. Length -> Scores Path",
    attrs={"include_bos_eos_tag": True},
    lod=None,
    dynamic=True,
)


@viterbi_decode.shape
def _(Input: Spec, Transition: Spec, Length: Spec) -> tuple[Spec, Spec]:
    tags = Input.shape[-1]
    if len(Input.shape) != 3 or len(Transition.shape) != 2 or len(Length.shape) != 1:
        raise ShapeError(
            f"op 'viterbi_decode': Input{list(Input.shape)}, Transition{list(Transition.shape)} and "
            f"Length{list(Length.shape)} must be [batch, time, tags], [tags, tags] and [batch]"
        )
    if any(tags >= 0 <= size != tags for size in Transition.shape):
        raise ShapeError(
            f"op 'viterbi_decode': Input{list(Input.shape)} has {tags} tags, but Transition has the shape "
            f"{list(Transition.shape)}"
        )
    return Input.with_shape(Input.shape[:1]), Spec((Input.shape[0], -1), VarType.INT64)


@viterbi_decode.kernel
def _(
    xp: Any, Input: Array, Transition: Array, Length: Array, include_bos_eos_tag: bool
) -> tuple[Array, Array]:
    """Viterbi (1967), all sequences of the batch together; a path goes as far as the longest sequence.

    With `include_bos_eos_tag` the last row of Transition is added to the scores of first tags, and the last
    but one to those of last tags.
    """
    potentials, moves, lengths = host(Input), host(Transition), host(Length).astype(np.int64)
    check_lengths(np, "viterbi_decode", "Length", lengths, *potentials.shape[:2])
    longest = int(lengths.max(initial=0))
    if not longest:
        raise ShapeError(
            f"op 'viterbi_decode': Length is {lengths.tolist()}, but at least one length must be 1 or more"
        )
    scores = potentials[:, 0].copy()
    if include_bos_eos_tag:
        scores += moves[-1]
    came_from = []
    for step in range(1, longest):
        sums = scores[:, :, None] + moves
        came_from.append(sums.argmax(axis=1))
        on = (lengths > step)[:, None]
        scores = np.where(on, sums.max(axis=1) + potentials[:, step], scores)
    if include_bos_eos_tag:
        scores += moves[-2]
    path = np.zeros((len(scores), longest), np.int64)
    tag = scores.argmax(axis=1)
    rows = np.arange(len(scores))
    for step in reversed(range(longest)):
        path[:, step] = np.where(lengths > step, tag, 0)
        if step:
            tag = np.where(lengths > step, came_from[step - 1][rows, tag], tag)
    return xp.asarray(scores.max(axis=1)), xp.asarray(path)
