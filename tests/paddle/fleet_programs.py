"""Programs that strategies of fleet make, built by PaddlePaddle 2.6.2 or by FluidLite alike: `paddle` and
`fleet` are passed in.
"""

from __future__ import annotations

import itertools
from typing import Any

ENDPOINTS = ("127.0.0.1:6170", "127.0.0.1:6171")
_SEEN = ("ring_id", "nranks", "rank", "endpoint", "other_endpoints", "scale", "root", "step", "value", "mu")


def mlp(paddle: Any, x: Any, y: Any) -> tuple[Any, Any]:
    hidden = paddle.static.nn.fc(x, 16, activation="tanh")
    cost = paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y)
    return paddle.mean(cost), hidden


def deep(paddle: Any, x: Any, y: Any) -> tuple[Any, Any]:
    hidden = x
    for _ in range(11):
        hidden = paddle.static.nn.fc(hidden, 4)
    return mlp(paddle, paddle.static.nn.batch_norm(hidden), y)


def sgd(paddle: Any) -> Any:
    return paddle.optimizer.SGD(0.1)


def momentum(paddle: Any) -> Any:
    return paddle.optimizer.Momentum(0.1, 0.9)


def adam(paddle: Any) -> Any:
    return paddle.optimizer.Adam(0.01)


def clipped(paddle: Any) -> Any:
    return paddle.optimizer.SGD(0.1, weight_decay=0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))


_MERGE = {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2, "avg": True}}
_KEEP = {"recompute": True, "recompute_configs": {"checkpoints": ["fc_0.tmp_2"]}}
_LOCAL = {"without_graph_optimization": False}
# without a GPU 2.6.2 casts nothing: what is left is the scale of the loss
_HALF: dict[str, Any] = {"amp": True, "amp_configs": {"custom_black_list": ["mul", "matmul_v2"]}}
_LARS = {"lars": True, "lars_configs": {"epsilon": 0.01, "exclude_from_weight_decay": ["b_0"]}}
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (mlp, sgd, {}),
    "each_alone": (mlp, sgd, {"fuse_all_reduce_ops": False}),
    "many": (deep, momentum, {}),
    "clipped": (mlp, clipped, {}),
    "localsgd": (mlp, sgd, {**_LOCAL, "localsgd": True, "localsgd_configs": {"k_steps": 2, "begin_step": 1}}),
    "adaptive_localsgd": (mlp, momentum, {"adaptive_localsgd": True}),
    "gradient_merge": (mlp, sgd, _MERGE),
    "recompute": (mlp, sgd, _KEEP),
    "lamb": (mlp, adam, {"lamb": True, "lamb_configs": {"exclude_from_weight_decay": ["b_0"]}}),
    "lars": (mlp, momentum, _LARS),
    "amp": (mlp, sgd, _HALF),
    "merge_amp": (mlp, sgd, {**_MERGE, **_HALF}),
    "merge_recompute_lars": (mlp, momentum, {**_MERGE, **_KEEP, **_LARS}),
    "lamb_of_sgd": (mlp, sgd, {"lamb": True}),
    "localsgd_of_adam": (mlp, adam, {"localsgd": True}),
    "localsgd_lars": (mlp, momentum, {"localsgd": True, "lars": True}),
    "merge_of_one": (mlp, sgd, {"gradient_merge": True}),
    "recompute_of_nothing": (mlp, sgd, {"recompute": True}),
}


_TOGETHER = ("lamb", "lars", "recompute", "amp", "gradient_merge", "localsgd", "adaptive_localsgd")
_CHOSEN: dict[str, dict[str, Any]] = {
    "amp": _HALF["amp_configs"],
    "recompute": {"checkpoints": ["fc_0.tmp_2"]},
    "gradient_merge": {"k_steps": 2},
}
# which of several parts apply depends on the optimizer
COMBINATIONS = {
    f"{kind.__name__}: {', '.join(parts)}": (kind, parts)
    for kind in (sgd, momentum, adam)
    for count in (2, 3)
    for parts in itertools.combinations(_TOGETHER, count)
}


# the same by one rank, and where programs are not rewritten for all-reduces
REPORTED = [
    (kind, parts, ranks, rewrites)
    for kind in (sgd, momentum, adam)
    for parts in [(), *[(part,) for part in _TOGETHER]]
    for ranks, rewrites in ((1, True), (1, False), (2, True), (2, False))
]

# what a strategy is set to before it is printed
OVERVIEWS: tuple[dict[str, Any], ...] = (
    {},
    {
        **dict.fromkeys(
            [*_TOGETHER, "a_sync", "dgc", "sharding", "pipeline", "tensor_parallel", "qat"], True
        ),
        "recompute_configs": {"checkpoints": ["a" * 50, "b"]},
        "lamb_configs": {"exclude_from_weight_decay": ["x", "y"]},
        "hybrid_configs": {"dp_degree": 2},
        "nccl_comm_num": 3,
    },
)


def overviews(fleet: Any) -> list[str]:
    """The text of strategies."""
    found = []
    for fields in OVERVIEWS:
        strategy = fleet.DistributedStrategy()
        for field, value in fields.items():
            setattr(strategy, field, value)
        found.append(repr(strategy))
    return found


def combined(paddle: Any, fleet: Any, guard: Any, name: str) -> tuple[list[str], dict[str, list[str]]]:
    """The parts that apply of several that are set, and the attributes of the programs."""
    main, startup, parts = composed(paddle, fleet, guard, *COMBINATIONS[name])
    return parts, attributes(main, startup)


def composed(
    paddle: Any, fleet: Any, guard: Any, kind: Any, parts: Any, ranks: int = 2, rewrites: bool = True
) -> tuple[Any, Any, list[str]]:
    """Main and startup program with some parts set, and those that apply."""
    name = f"{kind.__name__}: {parts}"
    fields: dict[str, Any] = dict.fromkeys(parts, True)
    if not rewrites:
        fields.update(_LOCAL)
    fields.update({f"{part}_configs": _CHOSEN[part] for part in parts if part in _CHOSEN})
    CASES[name] = (mlp, kind, fields)
    try:
        return built(paddle, fleet, guard, name, ranks)
    finally:
        del CASES[name]


# attributes that say what an op computes, and for whom
_TOLD = (
    "op_role op_role_var scale bias bias_after_scale step nranks rank endpoint other_endpoints root mu "
    "use_nesterov lars_coeff epsilon beta1 beta2 weight_decay incr_every_n_steps decr_every_n_nan_or_inf "
    "incr_ratio decr_ratio stop_update use_calc_stream axis value reduce_all dim keep_dim "
    "is_scalar_condition x_num_col_dims in_place"
)


def attributes(main: Any, startup: Any) -> dict[str, list[str]]:
    """Type of op -> its attributes with the values that they have in both programs."""
    found: dict[str, set[str]] = {}
    for program in (main, startup):
        for op in (op for block in program.blocks for op in block.ops):
            for name in sorted({*op.attr_names} & {*_TOLD.split()}):
                value = op.attr(name)
                told = f"{value:.6g}" if isinstance(value, float) else f"{value}"
                found.setdefault(op.type, set()).add(f"{name}={told}")
    return {kind: sorted(told) for kind, told in found.items()}


# ops of clipping are those that fluid builds: only the parts are compared
OTHER_FORM = ("clipped",)


def built(paddle: Any, fleet: Any, guard: Any, name: str, ranks: int = 2) -> tuple[Any, Any, list[str]]:
    """Main and startup program of rank 0, and the parts that were applied."""
    net, optimizer, fields = CASES[name]
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), guard():
        x, y = paddle.static.data("x", [None, 32]), paddle.static.data("y", [None, 1])
        loss, _ = net(paddle, x, y)
        strategy = fleet.DistributedStrategy()
        for field, value in fields.items():
            setattr(strategy, field, value)
        role = fleet.UserDefinedRoleMaker(
            is_collective=True, current_id=0, role=fleet.Role.WORKER, worker_endpoints=list(ENDPOINTS[:ranks])
        )
        fleet.init(role)
        fleet.distributed_optimizer(optimizer(paddle), strategy).minimize(loss)
    return main, startup, fleet.fleet._get_applied_meta_list()


def described(program: Any) -> list[list[Any]]:
    """For each block the ops: type, inputs, outputs, and some attributes."""
    return [[_described(op) for op in block.ops] for block in program.blocks]


def _described(op: Any) -> list[Any]:
    names = [
        {slot: sorted(read(slot)) if op.type == "conditional_block" else list(read(slot)) for slot in slots}
        for read, slots in ((op.input, op.input_names), (op.output, op.output_names))
    ]
    attrs = {name: op.attr(name) for name in sorted(op.attr_names) if name in _SEEN}
    rounded = {name: float(f"{v:.6g}") if isinstance(v, float) else v for name, v in attrs.items()}
    return [op.type, *({slot: found for slot, found in part.items() if found} for part in names), rounded]
