"""Parameters that a layer owns, in each of the programs that the layer is called in."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.variable import Variable
from fluidlite.paddle.programs import default_main_program, default_startup_program

__all__ = ["declared_here", "remember_startup"]

# main program -> the startup program that initialises it
_startups: WeakKeyDictionary[Program, Program] = WeakKeyDictionary()


def remember_startup() -> None:
    """Note that the startup program at hand initialises the main program at hand."""
    _startups.setdefault(default_main_program(), default_startup_program())


def declared_here(var: Variable) -> Variable:
    """`var` in the main program at hand, declared there and initialised by the startup program at hand where
    they lack it.
    """
    main = default_main_program()
    source = var.block.program
    if source is main:
        return var
    here = main.global_block()
    origin = source.global_block()
    needed = {var.name} if var.persistable else _sources(var.name, origin)
    # what training keeps is declared; a product of parameters, such as a normalised weight, is computed again
    computed = {name for name in needed if not origin.vars[name].persistable}
    _carry(needed, computed, origin, here)
    startup = _startups.get(source)
    if startup is not None and startup is not default_startup_program():
        for name in needed - computed:
            origin = startup.global_block()
            target = default_startup_program().global_block()
            if name in origin.vars and name not in target.vars:
                all_of_it = _sources(name, origin)
                _carry(all_of_it, all_of_it, origin, target)
    remember_startup()
    return here.vars[var.name]


def _sources(name: str, block: Block) -> set[str]:
    """The variables that `name` is computed from in `block`, and itself."""
    found = {name}
    for op in reversed(block.ops):
        if not found.isdisjoint(op.output_arg_names):
            found.update(op.input_arg_names, op.output_arg_names)
    return found


def _carry(names: set[str], computed: set[str], origin: Block, target: Block) -> None:
    """Declare `names` in `target` as `origin` does, and repeat the ops that write those `computed`."""
    new = {name for name in names if name not in target.vars}
    for name in origin.vars:
        if name in new:
            target.vars[name] = copy_variable(origin.vars[name], target)
    for op in origin.ops:
        if not new.isdisjoint(op.output_arg_names) and computed.issuperset(op.output_arg_names):
            target.adopt(len(target.ops), copy_operator(op, target))
    target.program.bump_version()
