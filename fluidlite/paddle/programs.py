"""Programs of the 2.x door: variables have the operators and methods that PaddlePaddle 2.x gives them."""

from __future__ import annotations

from collections.abc import Callable

from fluidlite.ir import program as ir
from fluidlite.ir.variable import Variable
from fluidlite.paddle.variable import ParameterTensor, Tensor

__all__ = ["VERSION_OF_2X", "Program", "begin", "default_main_program", "default_startup_program"]

VERSION_OF_2X = 2006002  # Paddle's number for 2.6.2


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


def begin() -> None:
    """Let the default programs be the door's, where nobody has begun to write them.

    Programs that fluid's names have begun stay as they are: their variables have fluid's operators.
    """
    main, startup = ir.default_main_program(), ir.default_startup_program()
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
