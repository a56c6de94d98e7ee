"""Records what 1.8.5's Fleet makes of one network, in every strategy and role: `python make_fleet.py` under
PaddlePaddle 1.8.5.

Writes recorded/fleet.json; test_fleet.py builds the same with `programs(fluidlite)`.
"""

import importlib
import json
import os
import re

STRATEGIES = ("sync", "half_async", "async", "geo")
CASES = [
    (strategy, role, schedule, workers)
    for strategy in STRATEGIES
    for role in ("worker", "server")
    for schedule in (False, True)
    for workers in (1, 2)
    if not (strategy == "geo" and schedule)
]
FACTS = (
    "send_varnames",
    "recv_varnames",
    "sections",
    "epmap",
    "distributed_mode",
    "lr_decay_block_id",
    "half_async",
    "Fanin",
    "trainer_id",
)
SERVERS = ["127.0.0.1:36001", "127.0.0.1:36002"]


def network(fluid):  # type: ignore[no-untyped-def]
    x, y = fluid.data("x", [None, 1000]), fluid.data("y", [None, 1])
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    rows = fluid.layers.embedding(ids, [1000, 20], is_sparse=True, param_attr="table")
    both = fluid.layers.concat(
        [fluid.layers.fc(x, 100, act="relu"), fluid.layers.sequence_pool(rows, "sum")], 1
    )
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(both, 1), y))


def plain(value):  # type: ignore[no-untyped-def]
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def described(program):  # type: ignore[no-untyped-def]
    """Each block's ops: type, arguments, and what says how they communicate."""

    def name(text):  # type: ignore[no-untyped-def]
        return re.sub(r"__control_var@[0-9.]+", "__control_var", text)

    return [
        [
            [
                op.type,
                sorted(map(name, op.input_arg_names)),
                sorted(map(name, op.output_arg_names)),
                {
                    fact: plain(op.attr(fact))
                    for fact in FACTS
                    if op.has_attr(fact)
                    and op.attr(fact) not in ([], "")
                    and op.type
                    in (
                        "send",
                        "recv",
                        "send_barrier",
                        "fetch_barrier",
                        "listen_and_serv",
                        "distributed_lookup_table",
                    )
                },
            ]
            for op in block.ops
        ]
        for block in program.blocks
    ]


def programs(fluid, strategy, role, schedule, workers):  # type: ignore[no-untyped-def]
    """Main and startup program of worker or server 0, described."""
    base = fluid.__name__ + ".incubate.fleet."
    role_maker = importlib.import_module(base + "base.role_maker")
    server = importlib.import_module(base + "parameter_server.distribute_transpiler")
    factory = importlib.import_module(
        base + "parameter_server.distribute_transpiler.distributed_strategy"
    ).StrategyFactory
    server.fleet.__init__()
    server.fleet.init(
        role_maker.UserDefinedRoleMaker(
            0, role_maker.Role.WORKER if role == "worker" else role_maker.Role.SERVER, workers, SERVERS
        )
    )
    chosen = getattr(factory, f"create_{strategy}_strategy")()
    chosen.set_program_config({"wait_port": False})
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        rate = fluid.layers.exponential_decay(0.1, 10, 0.9, True) if schedule else 0.1
        server.fleet.distributed_optimizer(fluid.optimizer.SGD(rate), chosen).minimize(network(fluid))
    return {"main": described(server.fleet.main_program), "startup": described(server.fleet.startup_program)}


def main():  # type: ignore[no-untyped-def]
    import paddle.fluid as fluid

    found = {" ".join(map(str, case)): programs(fluid, *case) for case in CASES}
    with open(
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "recorded", "fleet.json"),
        "w",
    ) as target:
        target.write(
            "{\n"
            + ",\n".join(
                f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'), sort_keys=True)}"
                for key, value in sorted(found.items())
            )
            + "\n}\n"
        )


if __name__ == "__main__":
    main()
