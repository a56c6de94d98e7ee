"""Base of the optimizers: learning rate, accumulators, and the order in which the ops of an update are
written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

from fluidlite import unique_name
from fluidlite.backward import _get_no_grad_set_name, append_backward
from fluidlite.base.errors import ArgumentError, ProgramEditError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.clip import GradientClipBase, append_gradient_clip_ops, error_clip_callback
from fluidlite.initializer import Constant
from fluidlite.ir.block import Block
from fluidlite.ir.operator import DEVICE_ATTR, Operator
from fluidlite.ir.program import (
    Program,
    default_main_program,
    default_startup_program,
    device_guard,
    name_scope,
    program_guard,
)
from fluidlite.ir.variable import Variable, refuse_part
from fluidlite.layer_helper import LayerHelper
from fluidlite.optimizer.doubts import doubt_gradients, doubt_names, doubt_second_update
from fluidlite.regularizer import append_regularization_ops

__all__ = ["Optimizer", "ParamsGrads", "require"]

ParamsGrads: TypeAlias = "list[tuple[Any, Any]]"


def require(optimizer: str, **arguments: Any) -> None:
    """ArgumentError for an argument that is None."""
    for name, value in arguments.items():
        if value is None:
            raise ArgumentError(f"{optimizer}: {name} is not set.")


class Optimizer:
    """Base of the optimizers; `minimize(loss)` writes the backward pass and the updates.

    Before the updates come the clips (`grad_clip`, else those of `set_gradient_clip`), then weight decay (a
    parameter's own regulariser, else `regularization`). A subclass says which accumulators it keeps and which
    op moves a parameter: `_create_accumulators`, `_append_optimize_op`, `_finish_update`.

    learning_rate: a float, or a Variable of shape [1].
    parameter_list: the parameters to train; all trainable ones by default.
    name: goes into the names of the accumulators.
    """

    type: str = ""
    _zero_accumulators: ClassVar[tuple[str, ...]] = ()
    _needs_whole: ClassVar[bool] = False
    """True if an update reads the norm of a parameter or gradient, which no part of it tells."""

    def __init__(
        self,
        learning_rate: float | Variable,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        require(self.__class__.__name__, learning_rate=learning_rate)
        if not isinstance(learning_rate, (float, Variable)):
            raise TypeError(f"learning rate should be float or Variable, got {learning_rate.__class__} here")
        if grad_clip is not None and not isinstance(grad_clip, GradientClipBase):
            raise TypeError("'grad_clip' should be an instance of GradientClipBase's derived class")
        self._parameter_list = parameter_list
        self._name = name
        self._grad_clip = grad_clip
        self.regularization = regularization
        self._learning_rate = learning_rate
        self._dtype: Any = None
        self._learning_rate_map: dict[Program, Variable] = {}
        # a schedule's variable belongs to one program; a number gets a variable in each program that is
        # trained
        if isinstance(learning_rate, Variable):
            self._learning_rate_map[default_main_program()] = learning_rate
        self._accumulators: dict[str, dict[str, Variable]] = defaultdict(dict)
        self._opti_name_list: list[str] = []
        self._param_device_map: dict[str, str] = {}
        self.helper: LayerHelper | None = None

    # ------------------------------------------------------------------ what subclasses say
    def _create_accumulators(self, block: Block, parameters: list[Any]) -> None:
        """Declare the accumulators of `parameters`: those that start as zeros in the parameter's shape."""
        for param in parameters:
            for name in self._zero_accumulators:
                self._add_accumulator(name, param)

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        """Append the op that moves one parameter."""
        raise TypeError(f"{self.__class__.__name__} does not define the op that updates a parameter")

    def _finish_update(self, block: Block, parameters_and_grads: ParamsGrads) -> None:
        """Append what follows after all parameters have moved."""

    def _append_update(
        self,
        block: Block,
        param_and_grad: tuple[Any, Any],
        accumulators: Mapping[str, str],
        attrs: Mapping[str, Any] | None = None,
        learning_rate: bool = True,
        extra: Mapping[str, Variable] | None = None,
    ) -> Operator:
        """Append the op `self.type`; `accumulators` maps its slots, except Param, Grad and LearningRate, to
        accumulators.

        A slot `X` is also the output slot `XOut`, a slot `X>Y` has the output slot `Y`, a slot `X>` has none.
        `extra` are further inputs by slot.
        """
        param, grad = param_and_grad
        inputs = {"Param": param, "Grad": grad, **(extra or {})}
        outputs = {"ParamOut": param}
        if learning_rate:
            inputs["LearningRate"] = self._create_param_lr(param_and_grad)
        for slot, name in accumulators.items():
            slot_in, arrow, slot_out = slot.partition(">")
            inputs[slot_in] = self._get_accumulator(name, param)
            if slot_out or not arrow:
                outputs[slot_out or slot_in + "Out"] = inputs[slot_in]
        return block.append_op(type=self.type, inputs=inputs, outputs=outputs, attrs=attrs)

    # ------------------------------------------------------------------ learning rate
    def _global_learning_rate(self, program: Program | None = None) -> Variable | None:
        """The variable of the learning rate in `program` (default: the main program)."""
        return self._learning_rate_map.get(program or default_main_program())

    def _create_global_learning_rate(self) -> None:
        """Declare the learning rate in the program that is being written."""
        if self._global_learning_rate() is not None:
            return
        if not isinstance(self._learning_rate, float):
            raise TypeError(
                "learning rate variable is create outside optimizer,"
                "can not create new learning rate variable for new program"
            )
        helper = LayerHelper("global_var")
        rate = helper.create_global_variable(
            name=unique_name.generate("learning_rate"),
            shape=[1],
            persistable=True,
            dtype="float32" if self._dtype is None else self._dtype,
            stop_gradient=True,
        )
        helper.set_variable_initializer(rate, Constant(self._learning_rate))
        self._learning_rate_map[default_main_program()] = rate

    def _create_param_lr(self, param_and_grad: tuple[Any, Any]) -> Any:
        """The learning rate times the parameter's own factor (`ParamAttr(learning_rate=...)`)."""
        factor = param_and_grad[0].optimize_attr["learning_rate"]
        if isinstance(factor, Variable):
            return factor
        rate: Any = self._global_learning_rate()
        # no op for the usual factor, as in fluid
        if factor == 1.0:
            return rate
        with default_main_program()._lr_schedule_guard(is_with_opt=True), name_scope("scale_with_param_lr"):
            return rate * factor

    # ------------------------------------------------------------------ accumulators
    def _add_accumulator(
        self,
        name: str,
        param: Any,
        dtype: Any = None,
        fill_value: float = 0.0,
        shape: Iterable[int] | None = None,
        type: Any = None,
        device: str | None = None,
    ) -> Variable:
        """Declare `<param>_<name>_N`, a persistable variable that looks like `param` and starts as
        `fill_value`.
        """
        # two optimizers of one program may keep accumulators of the same kind
        key = name if self._name is None else f"{self._name}_{name}"
        if param.name in self._accumulators[key]:
            raise ProgramEditError(f"Accumulator {key} already exists for parameter {param.name}")
        assert self.helper is not None
        var_name = unique_name.generate(f"{param.name}_{key}")
        self._opti_name_list.append(var_name)
        var = self.helper.create_global_variable(
            name=var_name,
            persistable=True,
            dtype=param.dtype if dtype is None else dtype,
            type=param.type if type is None else type,
            shape=list(param.shape) if shape is None else list(shape),
            belong_to_optimizer=True,
        )
        # beside the parameter, unless the op reads the accumulator on the host
        with device_guard(self._get_device_for_param(param.name) if device is None else device):
            self.helper.set_variable_initializer(var, Constant(float(fill_value)))
        self._accumulators[key][param.name] = var
        return var

    def _get_accumulator(self, name: str, param: Any) -> Variable:
        """The accumulator `name` of `param`."""
        key = name if self._name is None else f"{self._name}_{name}"
        found = self._accumulators.get(key, {}).get(param.name)
        if found is None:
            raise ProgramEditError(f"Accumulator {key} does not exist for parameter {param.name}")
        return found

    def get_opti_var_name_list(self) -> list[str]:
        """Names of the accumulators, in order of creation."""
        return self._opti_name_list

    # ---------- what Paddle has for its imperative mode only
    def state_dict(self) -> dict[str, Any]:
        """Refused: the state of a static program lies in its scope."""
        raise _imperative_only("state_dict")

    def set_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refused: the state of a static program lies in its scope."""
        raise _imperative_only("set_dict")

    def current_step_lr(self) -> float:
        """Refused: fetch the variable of the learning rate."""
        raise _imperative_only("current_step_lr")

    def clear_gradients(self) -> None:
        """Refused: each run of a static program has gradients of its own."""
        raise _imperative_only("clear_gradients")

    # ------------------------------------------------------------------ devices
    def _update_param_device_map(self, parameters_and_grads: ParamsGrads, target_block: Block) -> None:
        """Remember for each parameter the device of the first op that reads it."""
        readers: dict[str, Operator] = {}
        for op in target_block.ops:
            for name in op.input_arg_names:
                readers.setdefault(name, op)
        for param, _ in parameters_and_grads:
            reader = readers.get(param.name)
            if param.trainable and reader is not None:
                self._param_device_map[param.name] = reader.attrs.get(DEVICE_ATTR, "")

    def _get_device_for_param(self, param_name: str) -> str:
        return self._param_device_map.get(param_name, "")

    # ------------------------------------------------------------------ writing the ops
    @short_tracebacks
    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
        callbacks: list[Any] | None = None,
    ) -> ParamsGrads:
        """Append the backward pass; gives the pairs of parameter and gradient.

        `loss` has shape [1]; `callbacks` are those of `append_backward`.
        """
        self._check_loss(loss)
        # the learning rate is declared in the dtype of the loss
        self._dtype = loss.dtype
        program = loss.block.program
        if not isinstance(callbacks, (list, type(None))):
            raise ArgumentError(f"callbacks should be a list. It is a {callbacks.__class__.__name__}")
        # fluid clips errors while the gradient ops are written, between one op and the next
        calls = [*(callbacks or []), error_clip_callback]
        doubt_names(program, parameter_list or self._parameter_list, "parameter_list")
        doubt_names(program, no_grad_set, "no_grad_set")
        with program_guard(program, startup_program or default_startup_program()):
            pairs = self._append_backward(
                loss, parameter_list or self._parameter_list, self._get_no_grad_set(loss, no_grad_set), calls
            )
        doubt_gradients(loss, pairs)
        return pairs

    def _check_loss(self, loss: Variable) -> None:
        """ArgumentError for a loss that is not one number."""
        # programs of 2.x have numbers without dimensions
        if tuple(loss.shape) not in ((1,), ()):
            raise ArgumentError(
                f"The loss.shape should be (1L,), but the current loss.shape is {loss.shape}. Maybe that you "
                "should call fluid.layers.mean to process the current loss."
            )

    def _append_backward(
        self, loss: Variable, parameters: Any, no_grad_set: Any, callbacks: list[Any]
    ) -> ParamsGrads:
        return append_backward(loss, parameters, no_grad_set, callbacks)

    def _get_no_grad_set(self, loss: Variable, no_grad_set: Iterable[Any] | None = None) -> set[str]:
        """Names that get no gradient: those given, and the parameters that are not trainable."""
        frozen = {
            param.name for param in loss.block.program.global_block().all_parameters() if not param.trainable
        }
        return frozen | _get_no_grad_set_name(no_grad_set)

    @short_tracebacks
    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Append clips, weight decay and updates to the main program; gives the update ops."""
        # by name, as in fluid: the order of the update ops is part of a program that others compare or
        # transpile
        ordered = sorted(params_grads, key=lambda pair: pair[0].name)
        if self._grad_clip is not None:
            clipped = self._grad_clip(ordered)
        else:
            clipped = append_gradient_clip_ops(ordered)
        return self._create_optimization_pass(append_regularization_ops(clipped, self.regularization))

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: ParamsGrads
    ) -> list[Operator]:
        """`apply_gradients`, to the program of `loss`."""
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[Any, ParamsGrads]:
        """Append backward pass and updates; gives (update ops, pairs of parameter and gradient).

        Parameters
        ----------
        loss: a Variable of shape [1].
        startup_program: the program that initialises the accumulators (default: the default one).
        """
        if not isinstance(loss, Variable):
            raise ArgumentError(f"The loss should be an Variable. It is a {loss.__class__.__name__}")
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    def _create_optimization_pass(self, parameters_and_grads: ParamsGrads) -> list[Operator]:
        """Append the updates (into the backward block where the main program is inside a branch); gives
        the new ops.
        """
        target = _target_block(default_main_program())
        doubt_second_update(target, parameters_and_grads)
        start = len(target.ops)
        self._update_param_device_map(parameters_and_grads, target)
        self.helper = LayerHelper(self.__class__.__name__)
        # before the learning rate, as in fluid: startup ops are prepended, and so stand behind its own
        self._create_accumulators(target, [param for param, _ in parameters_and_grads if param.trainable])
        self._create_global_learning_rate()
        for param, grad in parameters_and_grads:
            if grad is None:
                continue
            with param.block.program._optimized_guard([param, grad]), name_scope("optimizer"):
                if param.trainable:
                    if self._needs_whole:
                        refuse_part(param, f"op {self.type!r}")
                    with device_guard(self._get_device_for_param(param.name)):
                        self._append_optimize_op(target, (param, grad))
        self._finish_update(target, parameters_and_grads)
        return target.ops[start:]


def _imperative_only(what: str) -> ArgumentError:
    return ArgumentError(
        f"We Only support {what} in imperative mode, which FluidLite does not have: it builds static programs"
    )


def _target_block(program: Program) -> Block:
    current = program.current_block()
    if current.idx == 0:
        return current
    # inside a branch the gradients stand in a block beside it, and the updates read them there
    if current.backward_block_idx < 0:
        raise ProgramEditError("current block is not global_block, but it doesn't have backward block.")
    return program.blocks[current.backward_block_idx]
