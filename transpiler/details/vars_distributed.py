"""`fluid.transpiler.details.vars_distributed`: which server holds which part of which variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.distribution import VarDistributed, VarsDistributed, VarStruct

__all__ = ["VarDistributed", "VarStruct", "VarsDistributed"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
