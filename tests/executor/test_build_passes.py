"""The passes of a BuildStrategy under fluid's names, beside those that PaddlePaddle 1.8.5 gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fluidlite as fluid
from fluidlite.base.strategies import ReduceStrategy

# options of a strategy, and below them the passes that 1.8.5 names for it
TABLE = """\
fuse_all_reduce_ops=0 enable_backward_optimizer_op_deps=0 debug_graphviz_path=q
    graph_viz graph_viz add_reader_dependency all_reduce_mode_multi_devices multi_devices_print
    all_reduce_deps modify_op_lock_and_record_event multi_devices_check
sync_batch_norm=1 is_distribution=1
    sync_batch_norm add_reader_dependency dist_multi_devices all_reduce_deps
    modify_op_lock_and_record_event multi_devices_check
async_mode=1
    add_reader_dependency async_multi_devices all_reduce_deps modify_op_lock_and_record_event
    multi_devices_check
fuse_relu_depthwise_conv=1 debug_graphviz_path=q reduce_strategy=1
    graph_viz fuse_relu_depthwise_conv graph_viz add_reader_dependency reduce_mode_multi_devices
    multi_devices_print modify_op_lock_and_record_event multi_devices_check
enable_sequential_execution=1 fuse_all_optimizer_ops=1 debug_graphviz_path=q
    graph_viz sequential_execution coalesce_grad_tensor fuse_adam_op fuse_sgd_op fuse_momentum_op
    graph_viz add_reader_dependency all_reduce_mode_multi_devices fuse_all_reduce_op multi_devices_print
    all_reduce_deps modify_op_lock_and_record_event multi_devices_check
fuse_elewise_add_act_ops=1 fuse_relu_depthwise_conv=1 enable_sequential_execution=1
    sequential_execution fuse_relu_depthwise_conv fuse_elewise_add_act coalesce_grad_tensor
    add_reader_dependency all_reduce_mode_multi_devices fuse_all_reduce_op all_reduce_deps
    modify_op_lock_and_record_event multi_devices_check
fuse_all_reduce_ops=0 remove_unnecessary_lock=0 num_trainers=2
    add_reader_dependency all_reduce_mode_multi_devices all_reduce_deps backward_optimizer_op_deps
    multi_devices_check
fuse_bn_act_ops=1 num_trainers=2 reduce_strategy=1
    fuse_bn_act add_reader_dependency reduce_mode_multi_devices all_reduce_deps
    backward_optimizer_op_deps modify_op_lock_and_record_event multi_devices_check
cache_runtime_context=1 reduce_strategy=1
    add_reader_dependency reduce_mode_multi_devices runtime_context_cache modify_op_lock_and_record_event
    multi_devices_check
enable_backward_optimizer_op_deps=0 cache_runtime_context=1 debug_graphviz_path=q
    graph_viz coalesce_grad_tensor graph_viz add_reader_dependency all_reduce_mode_multi_devices
    fuse_all_reduce_op multi_devices_print all_reduce_deps runtime_context_cache
    modify_op_lock_and_record_event multi_devices_check
fuse_bn_act_ops=1 enable_sequential_execution=1 reduce_strategy=1
    sequential_execution fuse_bn_act add_reader_dependency reduce_mode_multi_devices
    modify_op_lock_and_record_event multi_devices_check
enable_sequential_execution=1 enable_backward_optimizer_op_deps=0
    sequential_execution coalesce_grad_tensor add_reader_dependency all_reduce_mode_multi_devices
    fuse_all_reduce_op all_reduce_deps modify_op_lock_and_record_event multi_devices_check
enable_backward_optimizer_op_deps=0 num_trainers=2 debug_graphviz_path=q
    graph_viz coalesce_grad_tensor graph_viz add_reader_dependency all_reduce_mode_multi_devices
    fuse_all_reduce_op multi_devices_print all_reduce_deps modify_op_lock_and_record_event
    multi_devices_check
fuse_elewise_add_act_ops=1 fuse_relu_depthwise_conv=1 remove_unnecessary_lock=0
    fuse_relu_depthwise_conv fuse_elewise_add_act coalesce_grad_tensor add_reader_dependency
    all_reduce_mode_multi_devices fuse_all_reduce_op all_reduce_deps multi_devices_check
fuse_elewise_add_act_ops=1 debug_graphviz_path=q reduce_strategy=1
    graph_viz fuse_elewise_add_act graph_viz add_reader_dependency reduce_mode_multi_devices
    multi_devices_print modify_op_lock_and_record_event multi_devices_check
fuse_all_optimizer_ops=1 remove_unnecessary_lock=0 is_distribution=1
    add_reader_dependency dist_multi_devices all_reduce_deps multi_devices_check
"""


def rows() -> Iterator[tuple[str, list[str]]]:
    options, names = "", list[str]()
    for line in TABLE.splitlines():
        if line.startswith(" "):
            names += line.split()
            continue
        if names:
            yield options, names
        options, names = line, []
    yield options, names


@pytest.mark.parametrize(("options", "names"), list(rows()))
def test_passes_follow_the_options(options: str, names: list[str]) -> None:
    strategy = fluid.BuildStrategy()
    for name, value in (option.split("=") for option in options.split()):
        if name == "reduce_strategy":
            strategy.reduce_strategy = ReduceStrategy(int(value))
        else:
            setattr(strategy, name, int(value) if value.isdigit() else value)
    passes = strategy._finalize_strategy_and_create_passes()
    assert [item.type() for item in passes.all_passes()] == [f"{name}_pass" for name in names]
    with pytest.raises(fluid.core.EnforceNotMet, match="finalized"):
        strategy.fuse_bn_act_ops = True
