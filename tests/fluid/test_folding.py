"""Folded programs: groups from functions, loops, scopes and layers, and repetitions among them."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable, Iterator

import pytest
from page_programs import built, lenet, resnet50, sentiment, transformer

import fluidlite as fluid
from fluidlite import layers
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.text import parse
from fluidlite.show.folding import fold
from fluidlite.show.html import program_page
from fluidlite.show.tree import Group, Tree, ops_of


def forward(program: fluid.Program) -> list[Operator]:
    hidden = OpRole.Backward | OpRole.Optimize | OpRole.LRSched
    return [op for op in program.global_block().ops if not op.role & hidden]


def outline(trees: tuple[Tree, ...], depth: int) -> list[object]:
    """Labels down to a depth; a repetition as "label x count"."""
    found: list[object] = []
    for tree in trees:
        if isinstance(tree, Operator):
            found.append(tree.type)
            continue
        found.append(f"{tree.label} x{len(tree.children)}" if tree.kind == "repeat" else tree.label)
        if depth:
            found.append(outline(tree.children, depth - 1))
    return found


def test_functions_and_layers_are_groups() -> None:
    trees = fold(forward(built(lenet)[0]))
    conv = ["conv2d", "elementwise_add", "relu", "pool2d"]
    assert outline(trees, 1) == [
        *("simple_img_conv_pool", conv) * 2,
        *("fc", ["mul", "elementwise_add", "softmax"]),
        *("cross_entropy2", "mean"),
    ]


def test_blocks_that_repeat_are_one_group_for_each_stage() -> None:
    (resnet, *loss) = fold(forward(built(resnet50)[0]))
    assert isinstance(resnet, Group) and outline(tuple(loss), 0) == ["softmax_with_cross_entropy", "mean"]
    first, pool, stages, *end = resnet.children
    assert outline((first, pool, *end), 0) == ["conv_bn", "pool2d", "pool2d", "fc"]
    assert isinstance(stages, Group) and stages.kind == "loop"
    assert outline(stages.children, 0) == [f"bottleneck x{count}" for count in (3, 4, 6, 3)]


def test_scopes_loops_and_gradients() -> None:
    main, _ = built(transformer)
    names = ["embed", "encoder_layer x6", "head"]
    embed, encoder, head = fold(forward(main))
    # scopes are numbered over all programs of a process
    assert [re.sub(r"_\d+$", "", str(label)) for label in outline((embed, encoder, head), 0)] == names
    gradients = [op for op in main.global_block().ops if op.role & OpRole.Backward]
    turned = fold(gradients, backwards=True)
    assert [re.sub(r"_\d+$", "", str(label)) for label in outline(turned, 0)] == names[::-1]
    assert [op for tree in turned for op in ops_of(tree)] == gradients


def test_every_op_stands_in_the_tree_once() -> None:
    for build in (lenet, resnet50, sentiment, transformer):
        main, _ = built(build)
        ops = forward(main)
        found = [op for tree in fold(ops) for op in ops_of(tree)]
        assert [op for op in found if op.block.idx == 0] == ops


def test_blocks_of_ops_stand_below_them() -> None:
    main, _ = built(sentiment)
    inside = [op for tree in fold(forward(main)) for op in ops_of(tree) if op.block.idx == 1]
    assert inside == main.blocks[1].ops


def test_a_loop_of_one_line_and_calls_of_one_function() -> None:
    def twice(x: fluid.Variable) -> fluid.Variable:
        return layers.relu(layers.scale(x, 2.0))

    def build() -> None:
        x = fluid.data("x", [None, 4])
        for _ in range(3):
            x = layers.fc(x, 4)
        x = twice(x)
        twice(x)

    trees = fold(forward(built(build)[0]))
    assert outline(trees, 1) == ["fc x3", ["fc", "fc", "fc"], "twice x2", ["twice", "twice"]]


@pytest.mark.parametrize("count", [2, 5])
def test_without_lines_ops_are_grouped_by_what_repeats(count: int) -> None:
    def build() -> None:
        x = fluid.data("x", [None, 3, 8, 8])
        for _ in range(count):
            for _ in range(3):
                x = layers.conv2d(x, 3, 3, padding=1, act="relu")
            x = layers.elementwise_add(layers.pool2d(x, 3, "max", 1, 1), x)

    text = re.sub(r' at "[^"]*":\d+( in \w+)?', "", str(built(build)[0]))
    text = re.sub(r" at \S+:\d+( in \S+)?", "", text)
    ops = parse(text).global_block().ops
    assert not any(op.where for op in ops)
    (repeat,) = fold(ops)
    assert isinstance(repeat, Group) and repeat.kind == "repeat" and len(repeat.children) == count


def groups_in(trees: Iterable[Tree]) -> Iterator[Group]:
    """All groups, those within others among them."""
    for tree in trees:
        if isinstance(tree, Group):
            yield tree
            yield from groups_in(tree.children)


def test_a_saved_model_has_no_loop_of_the_line_that_saved_it(tmp_path: pathlib.Path) -> None:
    def build() -> None:
        x = fluid.data("x", [None, 3])
        exe = fluid.Executor(fluid.CPUPlace())
        found = [layers.fc(x, 2), layers.fc(layers.fc(x, 3), 2)]
        exe.run(fluid.default_startup_program())
        for _ in range(2):
            fluid.io.save_inference_model(str(tmp_path), ["x"], found, exe)

    built(build)
    saved = fluid.Program.parse_from_string((tmp_path / "__model__").read_bytes())
    ops = saved.global_block().ops
    assert [op.type for op in ops].count("scale") == 2 and all(op.where for op in ops)
    kinds = {group.kind for group in groups_in(fold(ops))}
    assert kinds and kinds.isdisjoint(("loop", "repeat"))


def test_stages_are_told_apart_without_lines() -> None:
    text = re.sub(r" at \S+:\d+( in \S+)?", "", str(built(resnet50)[0]))
    ops = forward(parse(text))
    repeats = [tree for tree in fold(ops) if isinstance(tree, Group) and tree.kind == "repeat"]
    assert [len(repeat.children) for repeat in repeats] == [2, 3, 5, 2]


def test_the_page_has_trees_stacks_and_shapes() -> None:
    main, startup = built(lenet)
    page = program_page(main, "lenet", startup)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert list(data["original"]) == ["main", "startup"]
    tree = data["trees"][data["original"]["main"]]
    assert set(tree) == {"forward", "backward", "optimize"}
    assert [part if isinstance(part, int) else part[0] for part in tree["forward"]][2] == "fc"
    called, frames = data["stacks"][data["ops"][0][5]]
    functions = [data["frames"][frame][2] for frame in frames]
    assert called == "simple_img_conv_pool" and functions[:2] == ["lenet", "built"]
    assert data["frames"][frames[0]][3].startswith("hidden = fluid.nets.simple_img_conv_pool(")
    declared = {data["names"][name]: rest for name, *rest in data["vars"]}
    assert declared["image"][1:] == ["data", [-1, 1, 28, 28], 4]
    assert declared["conv2d_0.w_0"][1:] == ["parameter", [20, 1, 5, 5], 4]
