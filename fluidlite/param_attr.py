"""ParamAttr: name, initialiser, learning-rate factor, regulariser and clipping of a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type
from fluidlite.initializer import Constant, Initializer, Xavier
from fluidlite.ir.guarded import guarded
from fluidlite.ir.warned import warn_near_miss
from fluidlite.regularizer import WeightDecayRegularizer

__all__ = ["ParamAttr", "WeightNormParamAttr"]


_FIELDS = (
    "name",
    "initializer",
    "learning_rate",
    "regularizer",
    "trainable",
    "do_model_average",
    "gradient_clip",
)


class ParamAttr:
    """Attributes of the parameter that a layer makes.

    `learning_rate` multiplies the global one; `regularizer` goes before the optimizer's; a parameter that is
    not `trainable` gets no update. `gradient_clip` is how programs before 1.8 gave a parameter its clip.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        gradient_clip: Any = None,
    ) -> None:
        check_type(name, "name", (str, type(None)), "ParamAttr")
        check_type(learning_rate, "learning_rate", (float, int), "ParamAttr")
        check_type(trainable, "trainable", bool, "ParamAttr")
        check_type(do_model_average, "do_model_average", bool, "ParamAttr")
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.gradient_clip = gradient_clip

    def __setattr__(self, name: str, value: Any) -> None:
        warn_near_miss(type(self).__name__, name, () if name in _FIELDS else _FIELDS)
        object.__setattr__(self, name, value)

    def _set_default_initializer(self, initializer: Any) -> None:
        if initializer is None and self.initializer is None:
            raise ValueError("ParamAttr.initializer is not set")
        if self.initializer is None:
            self.initializer = initializer

    def _set_default_param_initializer(self) -> None:
        self._set_default_initializer(Xavier())

    def _set_default_bias_initializer(self) -> None:
        self._set_default_initializer(Constant(0.0))

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """A ParamAttr from what layers take: None, a name, an initialiser, a ParamAttr, True or False, or
        a list.
        """
        if arg is None or arg is True:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(item) for item in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        if arg is False:
            return False
        raise ArgumentError(f"{type(arg)} cast to ParamAttr")

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        kwargs = {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "gradient_clip_attr": self.gradient_clip,
            "do_model_average": self.do_model_average,
        }
        if with_initializer:
            kwargs["initializer"] = self.initializer
        return kwargs


class WeightNormParamAttr(ParamAttr):
    """A parameter w reparameterised as g * v / |v|, the norm taken over all dimensions but `dim` (all when
    None).
    """

    params_with_weight_norm: ClassVar[list[Any]] = []

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        gradient_clip: Any = None,
    ) -> None:
        super().__init__(
            name=name,
            initializer=initializer,
            learning_rate=learning_rate,
            regularizer=regularizer,
            trainable=trainable,
            do_model_average=do_model_average,
            gradient_clip=gradient_clip,
        )
        self.dim = dim


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
