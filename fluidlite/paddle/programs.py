"""Programs of the 2.x door: variables have the operators and methods that PaddlePaddle 2.x gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.flags import VERSION_OF_2X
from fluidlite.ir import program as ir
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.variable import ParameterTensor, Tensor
from fluidlite.saving.variables import (
    check_shape,
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
    put_values,
    values_of,
)
from fluidlite.values.scope import Scope

__all__ = ["VERSION_OF_2X", "Program", "begin", "default_main_program", "default_startup_program"]


class Program(ir.Program):
    """One or more blocks; block 0 is the one that runs, the others are bodies of control-flow ops.

    lr_scheduler, lr_var: the schedule of the learning rate and its variable; None where there is none.
    """

    variable_type = Tensor
    parameter_type = ParameterTensor

    def __init__(self) -> None:
        super().__init__()
        self.file_version = VERSION_OF_2X
        self.lr_scheduler: Callable[[], float] | None = None
        self.lr_var: Variable | None = None

    @property
    def rates_of_runs(self) -> tuple[str, ...]:
        """The learning rate that the schedule gives to each run."""
        return () if self.lr_scheduler is None or self.lr_var is None else (self.lr_var.name,)

    def state_dict(self, mode: str = "all", scope: Scope | None = None) -> dict[str, Any]:
        """The values of the persistable variables by name, as tensors: of all, of the parameters ("param"),
        or of what the optimizer keeps ("opt"). They lie in `scope`, the global one by default.
        """
        kinds = {"all": is_persistable, "param": is_parameter, "opt": is_belong_to_optimizer}
        if mode not in kinds:
            raise ValueError(f"`mode` string should be 'param', 'opt' or 'all', but received {mode}.")
        return values_of([var for var in self.list_vars() if kinds[mode](var)], scope, parts=True)

    def set_state_dict(self, state_dict: Mapping[str, Any], scope: Scope | None = None) -> None:
        """Put values by name into `scope`, the global one by default. Names that no variable of the program
        has are left out, with a warning.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Type of `state_dict` should be dict, but received {type(state_dict)}.")
        own = {var.name: var for var in self.list_vars() if is_persistable(var)}
        unknown = [name for name in state_dict if name not in own]
        if unknown:
            warn_user(f"the program has no variables named {unknown}", category=UserWarning)
        found = {name: np.array(value) for name, value in state_dict.items() if name in own}
        for name, value in found.items():
            check_shape(own[name], value)
        put_values(found, None, scope)


def begin() -> None:
    """Let the default programs be the door's, where nobody has begun to write them.

    Programs that fluid's names have begun stay as they are: their variables have fluid's operators.
    """
    main = ir.default_main_program()
    startup = ir.default_startup_program()
    if _untouched(main):
        ir.switch_main_program(_in_place_of(main))
    if _untouched(startup):
        ir.switch_startup_program(_in_place_of(startup))


def _untouched(program: ir.Program) -> bool:
    block = program.global_block()
    return type(program) is ir.Program and not block.vars and not block.ops


def _in_place_of(old: ir.Program) -> Program:
    new = Program()
    new.random_seed = old.random_seed
    new._is_start_up_program_ = old._is_start_up_program_
    return new


def default_main_program() -> ir.Program:
    """The program that functions append to."""
    begin()
    return ir.default_main_program()


def default_startup_program() -> ir.Program:
    """The program that initialisers append to."""
    begin()
    return ir.default_startup_program()
