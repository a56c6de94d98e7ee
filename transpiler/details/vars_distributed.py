"""Which server holds which part of which variable, as fluid's programs carry it
(`program._parameters_on_pservers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fluidlite.base.dtypes import VarType

__all__ = ["VarDistributed", "VarStruct", "VarsDistributed"]


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
    is_slice: whether the part is less than the whole.
    block_id, offset: the part's position among the parts, and that of its first element.
    vtype: "Param", "Optimizer" or "RemotePrefetch".
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
        self.origin, self.slice = _struct(origin_var), _struct(slice_var)
        self.is_slice = not self.equal(self.origin, self.slice) if is_slice is None else is_slice
        self.block_id = _block_of(self.slice.name) if block_id is None else block_id
        self.offset = 0 if offset is None else offset
        self.vtype, self.endpoint = vtype, endpoint

    @staticmethod
    def equal(var1: Any, var2: Any) -> bool:
        """Whether two declarations say the same."""
        return _struct(var1) == _struct(var2)

    def __str__(self) -> str:
        return (
            f"origin var: {self.origin}, slice var: {self.slice}, is_slice: {self.is_slice}, block_id: "
            f"{self.block_id}, "
            f"offset: {self.offset}, vtype: {self.vtype}, endpoint: {self.endpoint}"
        )


def _struct(var: Any) -> VarStruct:
    if isinstance(var, VarStruct):
        return var
    return VarStruct(var.name, tuple(var.shape), var.dtype, var.type, var.lod_level, var.persistable)


def _block_of(name: str) -> int:
    _, _, number = name.rpartition(".block")
    return int(number) if number.isdigit() else 0


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
        """What `endpoint` holds, of one kind or of all."""
        return [
            part
            for part in self.distributed_vars
            if part.endpoint == endpoint and vtype in (None, part.vtype)
        ]

    @staticmethod
    def equal(var1: Any, var2: Any) -> bool:
        """Whether two declarations say the same."""
        return VarDistributed.equal(var1, var2)

    def overview(self) -> str:
        """A line for each part."""
        return "".join(f"{part}\n" for part in self.distributed_vars)
