"""`paddle.inference`'s predictors, their tensors, and pools of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FeedError, UnsupportedError
from fluidlite.compat.inference.config import AnalysisConfig
from fluidlite.compat.inference.model import LoadedModel
from fluidlite.compat.inference.predictor import HeldTensors
from fluidlite.compat.inference.tensors import TensorHandle
from fluidlite.ir.variable import Variable
from fluidlite.paddle.inference.kinds import ElementType, data_type_of
from fluidlite.values.tensor import LoDTensor

__all__ = ["InferenceTensor", "Predictor", "PredictorPool", "create_predictor"]


class InferenceTensor(TensorHandle):
    """An input or output of a predictor that keeps its place between runs."""

    def copy_from_cpu(self, data: Array) -> None:
        """Set an input: a copy of an array, in the dtype of the model's input."""
        if not isinstance(data, np.ndarray):
            raise TypeError(f"copy_from_cpu takes a NumPy array, and not {_kind(data)}")
        super().copy_from_cpu(data)

    def share_external_data(self, data: Array | LoDTensor) -> None:
        """Set an input without a copy: the array, or a tensor's, which has to stay as it is until the run."""
        self._need_input("share_external_data")
        if not isinstance(data, (np.ndarray, LoDTensor)):
            raise TypeError(f"share_external_data takes an array or a LoDTensor, and not {_kind(data)}")
        array = data if isinstance(data, np.ndarray) else data._held("place()")
        self._tensor.array = _read_only(array)
        self._tensor._lod = () if isinstance(data, np.ndarray) else data._lod

    def type(self) -> ElementType:
        """The element type; Float32 before there is a value, as in 2.6.2."""
        form = self._tensor.form
        return ElementType.FLOAT32 if form is None else data_type_of(form.dtype)


def _read_only(array: Any) -> Any:
    """A view that `copy_from_cpu` does not write to; of a device's array, a copy."""
    if not isinstance(array, np.ndarray):
        return array.copy()
    view = array.view()
    view.flags.writeable = False
    return view


def _kind(data: Any) -> str:
    if isinstance(data, Variable):
        return f"a Variable of a program ({data.name!r}), which has no value"
    return type(data).__name__


class Predictor:
    """A loaded model with its inputs and outputs. Threads take a `clone` each: weights and plans are
    shared, and runs of clones go on at the same time.

    trust: False refuses a model that does more than to compute, such as to write files, by an UntrustedError.
    """

    def __init__(self, config: AnalysisConfig, *, trust: bool = False) -> None:
        # 2.6.2 has one class for both
        if not isinstance(config, AnalysisConfig):
            raise TypeError(f"a Predictor is made from a paddle.inference.Config, and not from {config!r}")
        self._hold(LoadedModel.read(config, trust))

    def _hold(self, model: LoadedModel) -> None:
        self._model = model
        self._tensors = HeldTensors(model)

    def clone(self) -> Predictor:
        """Another predictor of the same model: its weights are the same arrays, and only its inputs and
        outputs are its own.
        """
        made = object.__new__(type(self))
        made._hold(self._model)
        return made

    def get_input_names(self) -> list[str]:
        """Names of the inputs."""
        return self._tensors.input_names()

    def get_output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._tensors.output_names()

    def get_input_handle(self, name: str) -> InferenceTensor:
        """The input called `name`; NotFoundError with the nearest name."""
        return InferenceTensor(self._tensors.input(name), name, is_input=True)

    def get_output_handle(self, name: str) -> InferenceTensor:
        """The output called `name`; NotFoundError with the nearest name."""
        return InferenceTensor(self._tensors.output(name), name, is_input=False)

    def run(self, inputs: Sequence[Array | LoDTensor] | None = None) -> list[Array] | None:
        """Run on what the input handles hold, after which the output handles hold the results.

        Given a list of arrays (or LoDTensors) in the order of `get_input_names`, run on those, and return the
        results as a list of arrays besides.
        """
        if inputs is None:
            self._tensors.run()
            return None
        names = self.get_input_names()
        if len(inputs) != len(names):
            raise FeedError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), and {len(inputs)} were given"
            )
        for name, value in zip(names, inputs, strict=True):
            if not isinstance(value, (np.ndarray, LoDTensor)):
                raise TypeError(f"run takes arrays or LoDTensors, and not {_kind(value)} for {name!r}")
            self.get_input_handle(name).share_external_data(value)
        self._tensors.run()
        return [self.get_output_handle(name).copy_to_cpu() for name in self.get_output_names()]

    def clear_intermediate_tensor(self) -> None:
        """Let go of the memory of intermediate results, of all clones that are not running; outputs stay."""
        self._model.executor.release_buffers()

    def try_shrink_memory(self) -> int:
        """Let go of the memory of intermediate results, and give the number of bytes."""
        return self._model.executor.release_buffers()

    def register_output_hook(self, hook: Callable[[str, str, Any], None]) -> NoReturn:
        """UnsupportedError: a plan fuses ops, so that most results of ops are never written."""
        raise UnsupportedError(
            "Predictor.register_output_hook: a plan fuses ops, so that most results of ops are never "
            "written; Executor.run of the loaded program gives any variable that its fetch_list names"
        )


class PredictorPool:
    """Several predictors of one model, which share its weights: one for each thread."""

    def __init__(self, config: AnalysisConfig, size: int, *, trust: bool = False) -> None:
        if size < 1:
            raise ValueError(f"a PredictorPool holds at least one predictor, not {size}")
        first = Predictor(config, trust=trust)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def retrive(self, index: int) -> Predictor:
        """The predictor at `index`, which is 2.6.2's spelling."""
        if not 0 <= index < len(self._predictors):
            raise IndexError(f"the pool holds predictors 0 to {len(self._predictors) - 1}, and not {index}")
        return self._predictors[index]


def create_predictor(config: AnalysisConfig, *, trust: bool = False) -> Predictor:
    """A predictor of the model that `config` names; UntrustedError for one that does more than to compute,
    such as to write files, unless its maker is trusted.
    """
    return Predictor(config, trust=trust)
