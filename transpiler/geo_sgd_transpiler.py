"""`fluid.transpiler.geo_sgd_transpiler`: fluid's way to ask for the programs of one process of a geo-SGD
job.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.distribute_transpiler import DistributeTranspiler
from fluidlite.transpiler.modes.geo_sgd import GeoSgd
from fluidlite.transpiler.pserver.geo_sgd import change_name, is_sparse, pushed_slices, sparse_lookups

__all__ = ["GeoSgdTranspiler"]


class GeoSgdTranspiler(DistributeTranspiler):
    """`DistributeTranspiler` for geo-SGD; besides the programs it has the facts that the communicator needs
    (`vars_info`).
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        super().__init__(config)
        self.sync_mode = False
        self.pserver_program: Program | None = None

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = "127.0.0.1:6174",
        trainers: int | str = 1,
        sync_mode: bool = False,
        startup_program: Program | None = None,
        current_endpoint: str = "127.0.0.1:6174",
    ) -> None:
        """Rewrite `program` and `startup_program` (the default ones) in place for trainer number
        `trainer_id`.

        Geo-SGD is asynchronous, whatever `sync_mode` and the configuration say. TranspilerError where these
        do not fit together, or a program cannot be transpiled; the programs are then as before.
        """
        self.origin_program = default_main_program() if program is None else program
        self.startup_program = default_startup_program() if startup_program is None else startup_program
        self.trainer_id = trainer_id
        self.trainer_num = trainers
        self.sync_mode = False
        self._to_servers(GeoSgd(), pservers, current_endpoint)

    def get_pserver_program(self, endpoint: str) -> Program:
        """The main program of the server at `endpoint`."""
        self.pserver_program = super().get_pserver_program(endpoint)
        return self.pserver_program

    # ------------------------------------------------------------------ what the communicator asks
    @property
    def vars_info(self) -> OrderedDict[str, OrderedDict[str, list[str]]]:
        """Parameter -> names, rows ("sections") and servers ("epmap") of its slices, and whether it is
        sparse, all as text.
        """
        return pushed_slices(self.placement)

    def _get_vars_info(self) -> OrderedDict[str, OrderedDict[str, list[str]]]:
        return self.vars_info

    @property
    def sparse_var(self) -> list[Variable]:
        """The ids of each lookup in a sparse table."""
        block = self.origin_program.global_block()
        return [block._var_recursive(op.input("Ids")[0]) for op in sparse_lookups(self.placement)]

    @property
    def sparse_tables(self) -> list[str]:
        """The table of each lookup in a sparse table."""
        return [op.input("W")[0] for op in sparse_lookups(self.placement)]

    @property
    def sparse_var_list(self) -> list[str]:
        """The sparse tables."""
        return [param for param in self.placement.by_param if is_sparse(self.placement, param)]

    @property
    def sparse_var_splited_list(self) -> list[str]:
        """The slices of the sparse tables."""
        return [
            piece.param_name for param in self.sparse_var_list for piece in self.placement.by_param[param]
        ]

    @property
    def delta_vars_list(self) -> list[Variable]:
        """The variables that hold the changes."""
        return [
            self.origin_program.global_block().var(change_name(param)) for param in self.placement.by_param
        ]


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
