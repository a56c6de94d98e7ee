"""1.8.5's predictors: a model that was loaded, with tensors that go in and come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fluidlite.base.errors import FeedError, NotFoundError, UnsupportedError, did_you_mean
from fluidlite.compat.inference.config import AnalysisConfig, NativeConfig
from fluidlite.compat.inference.model import LoadedModel
from fluidlite.compat.inference.tensors import PaddleTensor, ZeroCopyTensor
from fluidlite.ir.proto import serialize_program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, as_lod, host

__all__ = [
    "AnalysisPredictor",
    "NativePaddlePredictor",
    "PaddlePredictor",
    "HeldTensors",
    "create_paddle_predictor",
]


class HeldTensors:
    """A loaded model, and the tensors of one user of it."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._inputs = {name: LoDTensor() for name in model.feeds}
        self._outputs = {target.name: LoDTensor() for target in model.targets}

    def run(self) -> None:
        """Run on what the input tensors hold; the output tensors hold the results."""
        for held, made in zip(self._outputs.values(), self._model.run(self._inputs), strict=True):
            held.array, held._lod = made.array, made._lod

    def input(self, name: str) -> LoDTensor:
        """The tensor of an input; NotFoundError with the nearest name."""
        return _named(self._inputs, name, "input")

    def output(self, name: str) -> LoDTensor:
        """The tensor of an output; NotFoundError with the nearest name."""
        return _named(self._outputs, name, "output")

    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._inputs)

    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._outputs)

    def input_shapes(self) -> dict[str, list[int]]:
        """Name -> declared shape of the inputs."""
        block = self._model.program.global_block()
        return {name: list(block.var(name).shape) for name in self._inputs}


def _named(tensors: dict[str, LoDTensor], name: str, what: str) -> LoDTensor:
    if name not in tensors:
        raise NotFoundError(
            f"the model has no tensor {name!r} among its {what}s ({', '.join(tensors)})"
            f"{did_you_mean(name, tensors)}"
        )
    return tensors[name]


class PaddlePredictor:
    """A loaded model, with tensors that go in and come out."""

    def __init__(self, config: AnalysisConfig | NativeConfig, *, trust: bool = False) -> None:
        names = config.specify_input_name
        self._specifies_names = names if isinstance(names, bool) else names()
        self._hold(LoadedModel.read(config, trust))

    def _hold(self, model: LoadedModel) -> None:
        self._model = model
        self._tensors = HeldTensors(model)

    def run(self, inputs: Sequence[PaddleTensor]) -> list[PaddleTensor]:
        """The outputs for inputs in the order of `get_input_names`, or in any order where they have names of
        inputs. With `switch_specify_input_names` they must have.
        """
        names = self._model.feeds
        if len(inputs) != len(names):
            raise FeedError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), and {len(inputs)} were given"
            )
        given = [tensor.name for tensor in inputs]
        # other names say nothing, as in 1.8.5; but half of them right is a slip
        if self._specifies_names or not set(names).isdisjoint(given):
            self._model.check_names(given)
            names = given
        feed = {
            name: LoDTensor(tensor.as_ndarray(), as_lod(tensor.lod))
            for name, tensor in zip(names, inputs, strict=True)
        }
        return [
            PaddleTensor(host(tensor.array), target.name, tensor.lod())
            for tensor, target in zip(self._model.run(feed), self._model.targets, strict=True)
        ]

    def zero_copy_run(self) -> bool:
        """Run on what the input tensors hold; the output tensors hold the results."""
        self._tensors.run()
        return True

    def clone(self) -> PaddlePredictor:
        """Another predictor of the same model, for another thread: its parameters are the same arrays, and
        only its inputs and outputs are its own.
        """
        # not by the constructor, which is Paddle's: it takes a configuration
        made = object.__new__(type(self))
        made._specifies_names = self._specifies_names
        made._hold(self._model)
        return made

    def get_input_names(self) -> list[str]:
        """Names of the inputs."""
        return self._tensors.input_names()

    def get_input_tensor_shape(self) -> dict[str, list[int]]:
        """Name -> declared shape of the inputs."""
        return self._tensors.input_shapes()

    def get_output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._tensors.output_names()

    def get_input_tensor(self, name: str) -> ZeroCopyTensor:
        """The input called `name`."""
        return ZeroCopyTensor(self._tensors.input(name), name, is_input=True)

    def get_output_tensor(self, name: str) -> ZeroCopyTensor:
        """The output called `name`."""
        return ZeroCopyTensor(self._tensors.output(name), name, is_input=False)

    def get_serialized_program(self) -> bytes:
        """The bytes of the program."""
        return serialize_program(self._model.program)

    def scope(self) -> Scope:
        """The scope that holds the parameters."""
        return self._model.scope

    def program(self) -> Any:
        """The program, as a ProgramDesc."""
        return self._model.program.desc


def _step_of_paddle(predictor: PaddlePredictor, *unused: Any) -> NoReturn:
    """UnsupportedError: a step by which Paddle makes a predictor, or a file of its optimizer."""
    raise UnsupportedError(
        "the steps by which Paddle's own predictors are made, such as SaveOptimModel and "
        "prepare_argument, are not here: create_paddle_predictor(config) does all, and keeps no "
        "optimized model"
    )


class AnalysisPredictor(PaddlePredictor):
    """The predictor that `create_paddle_predictor` makes of an AnalysisConfig."""

    SaveOptimModel = analysis_argument = create_feed_fetch_var = init = _step_of_paddle
    mkldnn_quantize = optimize_inference_program = prepare_argument = prepare_feed_fetch = _step_of_paddle


class NativePaddlePredictor(PaddlePredictor):
    """The predictor that `create_paddle_predictor` makes of a NativeConfig."""

    init = _step_of_paddle


def create_paddle_predictor(config: AnalysisConfig | NativeConfig, *, trust: bool = False) -> PaddlePredictor:
    """A predictor of the model that `config` names; UntrustedError for one that does more than to compute,
    such as to write files, unless its maker is trusted.
    """
    if isinstance(config, AnalysisConfig):
        return AnalysisPredictor(config, trust=trust)
    if isinstance(config, NativeConfig):
        return NativePaddlePredictor(config, trust=trust)
    raise TypeError(f"a predictor is made from an AnalysisConfig or a NativeConfig, not from {config!r}")
