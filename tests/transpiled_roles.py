"""From a case and its source programs to the programs of every role; the same code under Paddle and under FluidLite."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Tuple  # noqa: UP035

from transpiled_sources import Case

Source = Callable[[], Tuple[Any, Any]]          # main and startup program, new ones each time  # noqa: UP006
Programs = Dict[str, Any]                       # "trainer0.main", "pserver1.startup", ...  # noqa: UP006


def build(fluid: Any, case: Case) -> tuple[Any, Any]:
    """The case's source programs, built under fresh names."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = case.seed
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        case.build(fluid)
    return main, startup


def roles(fluid: Any, case: Case, source: Source) -> Programs:
    """The programs of every role, each from a transpilation of its own."""
    return MODES[case.mode](fluid, case, source)


def make_config(fluid: Any, case: Case) -> Any:
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    for name, value in case.config.items():
        if name == "split_method":
            value = getattr(sys.modules[fluid.DistributeTranspiler.__module__.rpartition(".")[0]], value)
        setattr(config, name, value)
    return config


def pserver(fluid: Any, case: Case, source: Source) -> Programs:
    def transpiled(trainer: int) -> tuple[Any, Any, Any]:
        main, startup = source()
        transpiler = fluid.DistributeTranspiler(make_config(fluid, case))
        transpiler.transpile(trainer, main, case.endpoints, case.trainers, case.sync, startup)
        return transpiler, main, startup

    found: Programs = {}
    for trainer in case.ids:
        transpiler, _, startup = transpiled(trainer)
        found[f"trainer{trainer}.main"] = transpiler.get_trainer_program(wait_port=False)
        found[f"trainer{trainer}.startup"] = startup
    for index, endpoint in enumerate(case.servers):
        transpiler, _, startup = transpiled(0)
        if case.pairs:
            main, first = transpiler.get_pserver_programs(endpoint)
        else:
            main = transpiler.get_pserver_program(endpoint)
            first = transpiler.get_startup_program(endpoint, main, startup)
        found[f"pserver{index}.main"], found[f"pserver{index}.startup"] = main, first
    return found


MODES: Dict[str, Callable[[Any, Case, Source], Programs]] = {"pserver": pserver}  # noqa: UP006
