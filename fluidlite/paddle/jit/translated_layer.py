"""`paddle.jit.load`: a saved model as a layer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.errors import ArgumentError, FeedError, NotFoundError, UnsupportedError
from fluidlite.base.place import Place
from fluidlite.base.records import dataclass
from fluidlite.compat.inference.model import LoadedModel
from fluidlite.compat.inference.sources import Source, in_folder, of_files
from fluidlite.ir.inline import inline
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.prune import restore_outputs, set_train_mode
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensor import assign
from fluidlite.paddle.device import current_place
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.programs import Program, default_main_program
from fluidlite.saving.variables import is_persistable
from fluidlite.values.scope import global_scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["TranslatedLayer", "load"]


@dataclass(frozen=True)
class _Files:
    """The files of a model, and the place at hand."""

    files: Source
    threads: int | None = None

    def source(self) -> Source:
        """The model's files."""
        return self.files

    def place(self) -> Place:
        """The place that `paddle.set_device` chose."""
        return current_place()


def load(path: str, *, trust: bool = False, **configs: Any) -> TranslatedLayer:
    """The model that `paddle.jit.save`, `paddle.static.save_inference_model` or fluid's
    `save_inference_model` wrote, as a layer that can be called.

    path: of `path.pdmodel` and `path.pdiparams`, or a folder with a model.
    model_filename, params_filename: other names of the files in the folder `path`; without the latter each
        parameter has a file of its own.
    trust: False refuses a model that does more than to compute, by an UntrustedError.
    """
    unknown = sorted(set(configs) - {"model_filename", "params_filename"})
    if unknown:
        raise ValueError(
            f"paddle.jit.load has no {unknown[0]!r}: it takes model_filename and params_filename"
        )
    return TranslatedLayer(LoadedModel.read(_Files(_source(path, **configs)), trust))


def _source(path: str, model_filename: str | None = None, params_filename: str | None = None) -> Source:
    if model_filename is None and params_filename is None:
        return in_folder(path)
    model = model_filename or "__model__"
    if params_filename is None:
        return path, model, None
    return of_files(os.path.join(path, model), os.path.join(path, params_filename))


class TranslatedLayer(Layer):
    """A saved model as a layer, which `paddle.jit.load` makes.

    Called with arrays (or LoDTensors), one for each input in the order of the file, it runs the model and
    gives arrays: one, or a list where the model has several outputs.

    Called with Variables it appends the model's ops to the program at hand, and gives Variables. Its weights
    become parameters `<full name>.<name in the file>` of that program, and their values are put into the
    global scope at the first such call: no startup program sets them. In `eval` mode, as it is loaded,
    dropout and batch_norm infer, and the weights stay as they are; after `train()` they do what they do in
    training, and optimizers train the weights, but not statistics that the model itself keeps. Arrays are
    for `eval` mode.
    """

    def __init__(self, model: LoadedModel) -> None:
        if not isinstance(model, LoadedModel):
            raise ArgumentError.of(TypeError(), "a TranslatedLayer is made by paddle.jit.load(path)")
        super().__init__()
        self.training = False
        self._model = model
        self._program: Any = Program.parse_from_string(serialize_program(model.program))
        # parameter -> variable of the file
        self._origins: dict[str, str] = {}
        # statistics: the model's own ops write them
        self._kept = {name for op in self._program.global_block().ops for name in op.output_arg_names}

    def program(self, method_name: str = "forward") -> Program:
        """The model's program, a copy."""
        if method_name != "forward":
            raise NotFoundError(f"the model has one method, 'forward', and no {method_name!r}")
        return self._program.clone()  # type: ignore[no-any-return]  # a clone is of its program's class

    def forward(self, *inputs: Any) -> Any:
        """The outputs for inputs in the order of the file: see the class."""
        names = self._model.feeds
        if len(inputs) != len(names):
            raise FeedError(f"the model takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
        are_variables = [isinstance(value, Variable) for value in inputs]
        if any(are_variables) and not all(are_variables):
            raise TypeError(
                "a saved model is called with Variables of a program, or with arrays, not with both"
            )
        found = self._append(inputs) if any(are_variables) else self._compute(inputs)
        return found[0] if len(found) == 1 else found

    # ------------------------------------------------------------------ arrays
    def _compute(self, inputs: tuple[Any, ...]) -> list[Array]:
        if self.training:
            raise UnsupportedError(
                "a saved model that is called with arrays infers: call eval() first, or call it with "
                "Variables of a program to train it"
            )
        self._take_trained()
        block = self._model.program.global_block()
        feed = {
            name: value if isinstance(value, LoDTensor) else LoDTensor(_array(block.var(name), value))
            for name, value in zip(self._model.feeds, inputs, strict=True)
        }
        return [np.array(tensor) for tensor in self._model.run(feed)]

    def _take_trained(self) -> None:
        """Take the values that programs have given to the weights."""
        for name, var in self._parameters.items():
            held = global_scope().find_var(var.name)
            if held is not None:
                own = self._model.scope.find_var(self._origins[name])
                assert own is not None, "every weight was read from the file"
                own.get_tensor().set(np.asarray(held.get_tensor()))

    # ------------------------------------------------------------------ Variables
    def _append(self, inputs: tuple[Any, ...]) -> list[Variable]:
        """The model's ops in the program at hand, and its outputs there."""
        main = default_main_program()
        self._make_weights()
        given = {origin: self._parameters[name].name for name, origin in self._origins.items()}
        copies = (assign(value) for value in inputs)
        given.update(zip(self._model.feeds, (copy.name for copy in copies), strict=True))
        source = self.program()
        restore_outputs(source)
        if self.training:
            set_train_mode(source)
            for name, param in self._parameters.items():
                if self._origins[name] not in self._kept:
                    param.trainable = True
                    param.stop_gradient = False
        names = inline(source, main.current_block(), given, self._full_name)
        block = main.current_block()
        return [block.var(names[target.name]) for target in self._model.targets]

    def _make_weights(self) -> None:
        """Declare the weights in the program at hand, and put their values into the global scope, unless an
        earlier call did.
        """
        if self._parameters:
            return
        block = default_main_program().global_block()
        variables = sorted(filter(is_persistable, self._program.list_vars()), key=lambda var: var.name)
        for number, var in enumerate(variables):
            held = self._model.scope.find_var(var.name)
            assert held is not None, "every weight was read from the file"
            param = block.create_parameter(
                name=f"{self._full_name}.{var.name}", shape=var.shape, dtype=var.dtype, trainable=False
            )
            param.stop_gradient = True
            global_scope().var(param.name).get_tensor().set(np.asarray(held.get_tensor()))
            # 2.6.2's names
            self.add_parameter(f"param_{number}", param)
            self._origins[f"param_{number}"] = var.name

    def _named(self, kind: str, prefix: str, inside: bool) -> Iterator[tuple[str, Any]]:
        self._make_weights()
        return super()._named(kind, prefix, inside)


def _array(var: Variable, value: Any) -> Array:
    """The array for an input; a list of numbers becomes one of the input's dtype."""
    return value if isinstance(value, np.ndarray) else np.asarray(value, to_numpy(var.dtype))
