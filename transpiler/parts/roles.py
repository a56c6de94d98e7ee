"""Roles of a job, the programs of a role, and slices of parameters on servers."""

from __future__ import annotations

from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.ir.program import Program

__all__ = ["PSERVER", "TRAINER", "JobRole", "Programs", "Slice"]

TRAINER, PSERVER = "trainer", "pserver"  # the kinds of roles


@dataclass(frozen=True)
class JobRole:
    """One process of a job: `kind` is TRAINER or PSERVER; trainers of jobs with servers have no endpoint."""

    kind: str
    index: int
    endpoint: str = ""

    @property
    def name(self) -> str:
        """`trainer0`, `pserver1`."""
        return f"{self.kind}{self.index}"

    @property
    def trains(self) -> bool:
        """True for trainers, False for parameter servers."""
        return self.kind == TRAINER


@dataclass(frozen=True)
class Programs:
    """The programs of one process: `startup` runs once, then `main` step by step."""

    main: Program
    startup: Program


@dataclass(frozen=True)
class Slice:
    """Whole rows of one parameter, and of its gradient, that one server holds.

    Attributes
    ----------
    param, grad: names of the whole parameter and gradient.
    index, count: the position among the parameter's slices, and how many there are.
    first_row, shape: `param[first_row : first_row + shape[0]]`.
    sparse: trainers fetch the rows that they need (the parameter is never received as a whole).
    """

    param: str
    grad: str
    index: int
    count: int
    first_row: int
    shape: tuple[int, ...]
    dtype: VarType
    endpoint: str
    sparse: bool = False

    @property
    def param_name(self) -> str:
        """`w.block1`; plain `w` where the parameter is in one piece."""
        return self.param if self.count == 1 else f"{self.param}.block{self.index}"

    @property
    def grad_name(self) -> str:
        """`w@GRAD.block1`; plain `w@GRAD` where the parameter is in one piece."""
        return self.grad if self.count == 1 else f"{self.grad}.block{self.index}"

    @property
    def end_row(self) -> int:
        """The row after the last one."""
        return self.first_row + self.shape[0]
