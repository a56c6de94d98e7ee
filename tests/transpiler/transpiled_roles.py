"""From a case and its source programs to the programs of every role; the same code under Paddle and under
FluidLite.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Tuple

from transpiled_cases import Case

Source = Callable[[], Tuple[Any, Any]]  # main and startup program, new ones each time
Programs = Dict[str, Any]  # "trainer0.main", "pserver1.startup", ...


def build(fluid: Any, case: Case) -> tuple[Any, Any]:
    """The case's source programs, built under fresh names."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = case.seed
    with fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        case.build(fluid)
    return main, startup


def roles(fluid: Any, case: Case, source: Source) -> Programs:
    """The programs of every role, each from a transpilation of its own."""
    return MODES[case.mode](fluid, case, source)


def package_of(fluid: Any) -> str:
    """The module that holds the transpilers."""
    return str(fluid.DistributeTranspiler.__module__.rpartition(".")[0])


def overview(programs: Programs) -> str:
    """Facts of programs that no ProgramDesc holds: which variables each server holds, whole
    or in part.
    """
    lines = []
    for role, program in sorted(programs.items()):
        held = program._parameters_on_pservers
        facts = (
            program._is_distributed,
            program._is_chief,
            program._distributed_lookup_table,
            list(program._endpoints),
        )
        lines.append(f"{role} {facts} {program._ps_endpoint}")
        for var in (
            held.get_distributed_vars_by_ep(program._ps_endpoint)
            if held is not None and role.endswith(".main")
            else ()
        ):
            lines.append(
                f"{role} holds {var.slice.name} {list(var.slice.shape)} of {var.origin.name} "
                f"{list(var.origin.shape)}: "
                f"{var.is_slice} {var.block_id} {var.offset} {var.vtype} {var.endpoint}"
            )
    return "\n".join(sorted(lines))


def make_config(fluid: Any, case: Case) -> Any:
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    for name, value in case.config.items():
        if name == "split_method":
            value = getattr(importlib.import_module(package_of(fluid)), value)
        setattr(config, name, value)
    return config


def servers_of(fluid: Any, case: Case, source: Source, make: Callable[[], Any]) -> Programs:
    """Trainers and servers, by whatever `make` makes; each begins with fresh names, as a process does."""

    def transpiled(trainer: int, endpoint: str = case.servers[0]) -> tuple[Any, Any]:
        main, startup = source()
        transpiler = make()
        transpiler.transpile(
            trainer, main, case.endpoints, case.trainers, case.sync, startup, current_endpoint=endpoint
        )
        return transpiler, startup

    found: Programs = {}
    for trainer in case.ids:
        with fluid.unique_name.guard():
            transpiler, startup = transpiled(trainer)
            found[f"trainer{trainer}.main"] = transpiler.get_trainer_program(wait_port=False)
        found[f"trainer{trainer}.startup"] = startup
    for index, endpoint in enumerate(case.servers):
        with fluid.unique_name.guard():
            transpiler, startup = transpiled(0, endpoint)
            found[f"pserver{index}.main"], found[f"pserver{index}.startup"] = server_of(
                transpiler, endpoint, startup, case.pairs
            )
    return found


def server_of(transpiler: Any, endpoint: str, startup: Any, pairs: bool) -> tuple[Any, Any]:
    """Main and startup program of one server, by one of the two ways to ask for them."""
    if pairs:
        main, first = transpiler.get_pserver_programs(endpoint)
        return main, first
    main = transpiler.get_pserver_program(endpoint)
    return main, transpiler.get_startup_program(endpoint, main, startup)


def pserver(fluid: Any, case: Case, source: Source) -> Programs:
    return servers_of(fluid, case, source, lambda: fluid.DistributeTranspiler(make_config(fluid, case)))


def geo(fluid: Any, case: Case, source: Source) -> Programs:
    from_module = importlib.import_module(package_of(fluid) + ".geo_sgd_transpiler")
    return servers_of(fluid, case, source, lambda: from_module.GeoSgdTranspiler(make_config(fluid, case)))


def trainers_of(
    fluid: Any, case: Case, source: Source, transpile: Callable[[int, str, Any, Any], Any]
) -> Programs:
    """Trainers only: both source programs are edited in place, under fresh names."""
    found: Programs = {}
    for rank in case.ids:
        main, startup = source()
        with fluid.unique_name.guard():
            transpile(rank, case.servers[rank], main, startup)
        found[f"trainer{rank}.main"], found[f"trainer{rank}.startup"] = main, startup
    return found


def configured(mode: str) -> Callable[[Any, Case, Source], Programs]:
    def run(fluid: Any, case: Case, source: Source) -> Programs:
        def transpile(rank: int, endpoint: str, main: Any, startup: Any) -> None:
            config = make_config(fluid, case)
            config.mode = mode
            transpiler = fluid.DistributeTranspiler(config)
            transpiler.transpile(
                rank,
                main,
                trainers=case.endpoints,
                sync_mode=case.sync,
                startup_program=startup,
                current_endpoint=endpoint,
            )

        return trainers_of(fluid, case, source, transpile)

    return run


CLASSES = {
    "grad_allreduce": "GradAllReduce",
    "local_sgd": "LocalSGD",
    "single_process_multi_thread": "SingleProcessMultiThread",
}


def by_class(fluid: Any, case: Case, source: Source) -> Programs:
    module = importlib.import_module(package_of(fluid) + ".collective")
    make = getattr(module, CLASSES[case.config["collective_mode"]])

    def transpile(rank: int, endpoint: str, main: Any, startup: Any) -> None:
        transpiler = make(case.rings) if case.rings else make()
        transpiler.transpile(startup, main, rank, case.endpoints, endpoint, False)

    return trainers_of(fluid, case, source, transpile)


MODES: Dict[str, Callable[[Any, Case, Source], Programs]] = {  # noqa: UP006
    "pserver": pserver,
    "geo": geo,
    "nccl2": configured("nccl2"),
    "collective": configured("collective"),
    "class": by_class,
}
