"""`fluid.incubate.fleet.base.role_maker`: who this process is in its job, and who the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.incubate.fleet.base.general_roles import GeneralRoleMaker
from fluidlite.incubate.fleet.base.mpi_roles import MPIRoleMaker, MPISymetricRoleMaker
from fluidlite.incubate.fleet.base.roles import (
    PaddleCloudRoleMaker,
    Role,
    RoleMakerBase,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)
from fluidlite.ir.guarded import guarded

__all__ = [
    "GeneralRoleMaker",
    "MPIRoleMaker",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
]

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
