"""`fluid.transpiler.details.vars_distributed`: which server holds which part of which variable."""

from __future__ import annotations

from fluidlite.ir.distribution import VarDistributed, VarsDistributed, VarStruct

__all__ = ["VarDistributed", "VarStruct", "VarsDistributed"]
