"""`paddle.ParamAttr`: fluid's, with `need_clip` in the place of `gradient_clip`."""

from __future__ import annotations

from typing import Any

from fluidlite import param_attr as fluid
from fluidlite.data_feeder import check_type

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr(fluid.ParamAttr):
    """Attributes of the parameter that a layer makes.

    `learning_rate` multiplies the optimizer's; `regularizer` goes before the optimizer's `weight_decay`; a
    parameter that is not `trainable` gets no update, and one without `need_clip` keeps its gradient whole.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        check_type(need_clip, "need_clip", bool, "ParamAttr")
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average)
        self.need_clip = need_clip

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        return {**super()._to_kwargs(with_initializer), "need_clip": self.need_clip}


class WeightNormParamAttr(fluid.WeightNormParamAttr):
    """A parameter w reparameterised as g * v / |v|, the norm taken over all dimensions but `dim` (all when
    None).
    """

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        check_type(need_clip, "need_clip", bool, "WeightNormParamAttr")
        super().__init__(
            dim, name, initializer, learning_rate, regularizer, trainable, do_model_average=do_model_average
        )
        self.need_clip = need_clip

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        return {**super()._to_kwargs(with_initializer), "need_clip": self.need_clip}
