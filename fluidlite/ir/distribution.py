"""Facts of a program about the job that it belongs to, in one typed object.

`Program.distribution` has them. Old programs read and set some under fluid's private names, which are
properties over the fields:

| field | fluid's name |
|---|---|
| `distributed` | `_is_distributed` |
| `chief` | `_is_chief` |
| `servers` | `_endpoints` |
| `endpoint` | `_ps_endpoint` |
| `table` | `_distributed_lookup_table` |
| `parts` | `_parameters_on_pservers` |
| `trainers` | `_trainers_endpoints` |
| `rings` | `_nccl_comm_num` |
| `hierarchical` | `_use_hierarchical_allreduce` |
| `group` | `_hierarchical_allreduce_inter_nranks` |
| `formed` | (not fluid's) |
| `loaded_checkpoint`, `loaded_steps` | `_loaded_checkpoint`, `_loaded_steps` (not fluid's) |
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["Distribution", "FluidName", "VarDistributed", "VarStruct", "VarsDistributed"]


@dataclass(eq=True)
class VarStruct:
    """The declaration of a variable."""

    name: str
    shape: tuple[int, ...]
    dtype: VarType
    type: VarType
    lod_level: int
    persistable: bool


class VarDistributed:
    """One part of a variable and its server.

    Attributes
    ----------
    origin, slice: declarations of the whole variable and of the part.
    is_slice: True if the part is less than the whole.
    block_id, offset: the part's position among the parts, and that of its first element.
    vtype: "Param", "Optimizer" or "RemotePrefetch"; "Kept" of what only a job's own averages need.
    """

    def __init__(
        self,
        origin_var: Any,
        slice_var: Any,
        is_slice: bool | None = None,
        block_id: int | None = None,
        offset: int | None = None,
        vtype: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        self.origin = _struct(origin_var)
        self.slice = _struct(slice_var)
        self.is_slice = not self.equal(self.origin, self.slice) if is_slice is None else is_slice
        self.block_id = 0 if block_id is None else block_id
        self.offset = 0 if offset is None else offset
        self.vtype = vtype
        self.endpoint = endpoint

    @staticmethod
    def equal(var1: Any, var2: Any) -> bool:
        """True if two declarations say the same."""
        return _struct(var1) == _struct(var2)

    def __str__(self) -> str:
        return (
            f"origin var: {self.origin}, slice var: {self.slice}, is_slice: {self.is_slice}, "
            f"block_id: {self.block_id}, offset: {self.offset}, vtype: {self.vtype}, "
            f"endpoint: {self.endpoint}"
        )


def _struct(var: Any) -> VarStruct:
    if isinstance(var, VarStruct):
        return var
    return VarStruct(var.name, tuple(var.shape), var.dtype, var.type, var.lod_level, var.persistable)


class VarsDistributed:
    """All parts of all variables."""

    def __init__(self) -> None:
        self.distributed_vars: list[VarDistributed] = []

    def add_distributed_var(
        self,
        origin_var: Any,
        slice_var: Any,
        is_slice: bool | None = None,
        block_id: int | None = None,
        offset: int | None = None,
        vtype: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        """Note down one part."""
        self.distributed_vars.append(
            VarDistributed(origin_var, slice_var, is_slice, block_id, offset, vtype, endpoint)
        )

    def get_distributed_var_by_slice(self, var_name: str) -> VarDistributed | None:
        """The part called `var_name`."""
        return next((part for part in self.distributed_vars if part.slice.name == var_name), None)

    def get_distributed_var_by_origin_and_ep(
        self, origin_var_name: str, endpoint: str
    ) -> VarDistributed | None:
        """The part of `origin_var_name` that `endpoint` holds."""
        return next(
            (
                part
                for part in self.distributed_vars
                if part.origin.name == origin_var_name and part.endpoint == endpoint
            ),
            None,
        )

    def get_distributed_vars_by_vtypes(self, vtypes: Any, groupby: bool = False) -> Any:
        """The parts of these kinds, in one list or, with `groupby`, in a list for each whole variable."""
        found = [part for part in self.distributed_vars if part.vtype in vtypes]
        if not groupby:
            return found
        groups: dict[str, list[VarDistributed]] = {}
        for part in found:
            groups.setdefault(part.origin.name, []).append(part)
        return groups

    def get_distributed_vars_by_ep(self, endpoint: str, vtype: str | None = None) -> list[VarDistributed]:
        """The parts that `endpoint` holds, of one kind or of all."""
        return [
            part
            for part in self.distributed_vars
            if part.endpoint == endpoint and vtype in (None, part.vtype)
        ]

    @staticmethod
    def equal(var1: Any, var2: Any) -> bool:
        """True if two declarations say the same."""
        return VarDistributed.equal(var1, var2)

    def overview(self) -> str:
        """A line for each part."""
        return "".join(f"{part}\n" for part in self.distributed_vars)


@dataclass(frozen=True)
class Distribution:
    """The part of one program in a job; the defaults are those of a program that belongs to none.

    Attributes
    ----------
    distributed: True for the programs of jobs with parameter servers.
    chief: True for the first trainer, and for a server program that the first trainer made.
    servers: endpoints of the parameter servers.
    endpoint: that of the server whose program this is.
    table: the table of `embedding(is_distributed=True)`, which lives on the servers only.
    parts: the part of each parameter and accumulator that each server holds.
    kept: that of all else which updates keep on the servers, such as moving averages.
    trainers: endpoints of all trainers, where the runtime reduces gradients over them.
    rings, hierarchical, group: how many communicators it uses for that, and the size of the groups of
        trainers that are reduced first.
    formed: rings that the processes of the job form before the program runs, and the ranks of each.
    loaded_checkpoint, loaded_steps: of a server, the checkpoint that its variables were loaded from, and how
        many steps had been done then.
    """

    distributed: bool = False
    chief: bool = False
    servers: tuple[str, ...] = ()
    endpoint: str | None = None
    table: str | None = None
    parts: VarsDistributed | None = None
    kept: VarsDistributed | None = None
    trainers: tuple[str, ...] = ()
    rings: int = 1
    hierarchical: bool = False
    group: int = 0
    formed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    loaded_checkpoint: str = ""
    loaded_steps: int = 0

    def on_servers_of(self, other: Distribution) -> Distribution:
        """These facts, with what `other` says of the servers and of its place among the trainers."""
        return replace(
            self,
            distributed=other.distributed,
            chief=other.chief,
            servers=other.servers,
            endpoint=other.endpoint,
            table=other.table,
            parts=other.parts,
            kept=other.kept,
        )


class FluidName:
    """A property of Program: one field of its distribution, a list where the field is a tuple."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __get__(self, program: Program | None, owner: type[Program] | None = None) -> Any:
        if program is None:
            return self
        value = program.distribution.__dict__[self.field]
        return list(value) if isinstance(value, tuple) else value

    def __set__(self, program: Program, value: Any) -> None:
        change: dict[str, Any] = {self.field: tuple(value) if isinstance(value, (list, tuple)) else value}
        program.distribution = replace(program.distribution, **change)
