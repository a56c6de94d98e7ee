"""Warnings of trainings that 1.8.5 builds silently and that hardly do what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base.errors import did_you_mean
from fluidlite.ir.block import Block
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user

__all__ = ["check_betas", "doubt_gradients", "doubt_names", "doubt_second_update"]


def doubt_gradients(loss: Variable, params_grads: Iterable[tuple[Any, Any]]) -> None:
    """Warn of a loss that moves no parameter."""
    if any(grad is not None for _, grad in params_grads):
        return
    names = [param.name for param in loss.block.program.all_parameters() if param.trainable]
    if names:
        reason = f"it does not depend on {', '.join(names[:3])}{', ...' if names[3:] else ''}"
    else:
        reason = "the program has no parameter to train"
    made = "" if loss.op is None else f" (made by op {loss.op.type!r}, built at {loss.op.where})"
    warn_user(f"minimize: the loss {loss.name!r}{made} updates no parameter: {reason}")


def doubt_names(program: Program, given: Iterable[Any] | None, argument: str) -> None:
    """Warn of names in a list of parameters that the program does not have."""
    known = {var.name for var in program.list_vars()}
    for item in given if isinstance(given, (list, tuple, set)) else ():
        name = item if isinstance(item, str) else getattr(item, "name", None)
        if isinstance(name, str) and name not in known:
            warn_user(f"{argument}: the program has no variable {name!r}{did_you_mean(name, known)}")


def doubt_second_update(block: Block, params_grads: Iterable[tuple[Any, Any]]) -> None:
    """Warn of parameters that an earlier `minimize` moves already: each step would move them twice."""
    updates = [op for op in block.ops if op.role & OpRole.Optimize]
    moved = {name: op for op in updates for name in op.outputs.get("ParamOut", ())}
    twice = [param.name for param, grad in params_grads if grad is not None and param.name in moved]
    if twice:
        first = moved[twice[0]]
        warn_user(
            f"minimize: {', '.join(twice[:3])}{', ...' if twice[3:] else ''} would be updated "
            f"twice in each step, also by op {first.type!r} built at {first.where}; give each "
            "optimizer its own parameter_list or its own program"
        )


def check_betas(optimizer: str, **betas: Any) -> None:
    """Warn of a rate of decay outside of [0, 1), with which averages grow without end."""
    for name, beta in betas.items():
        if isinstance(beta, (int, float)) and not 0 <= beta < 1:
            warn_user(f"{optimizer}: {name} is {beta}, but averages decay only if 0 <= {name} < 1")
