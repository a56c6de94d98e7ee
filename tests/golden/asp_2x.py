"""Sparse weights of networks: the same source under PaddlePaddle 2.6.2, which records, and under FluidLite.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m golden.asp_2x`.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

PATH = pathlib.Path(__file__).with_name("asp_2x.json")
ALGORITHMS = ("mask_1d", "mask_2d_greedy", "mask_2d_best")
PATTERNS = ((2, 4), (1, 4), (3, 4), (1, 2))


def network(paddle: Any) -> Any:
    """A loss of layers of many shapes; `fc_1.w_0` is left out."""
    image = paddle.static.data("image", [None, 4, 5, 5])
    ids = paddle.static.data("ids", [None, 1], "int64")
    wide = paddle.static.nn.conv2d(image, 8, 3, act="relu")
    narrow = paddle.static.nn.conv2d(wide, 6, 1)
    normed = paddle.static.nn.batch_norm(narrow)
    words = paddle.static.nn.embedding(ids, [12, 8])
    linear = paddle.nn.Linear(8, 6)(paddle.flatten(words, 1))
    few = paddle.static.nn.conv2d(paddle.nn.Conv2D(6, 3, 2)(normed), 4, 1)
    named = paddle.static.nn.fc(few, 10, name="named")
    left = paddle.static.nn.fc(paddle.static.nn.fc(named, 3), 3) + paddle.static.nn.fc(linear, 3)
    return paddle.mean(left * left)


def pruned(paddle: Any) -> dict[str, Any]:
    """The ops of the masks, the masks by algorithm and pattern, and the densities behind two steps."""
    asp = paddle.incubate.asp
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
        loss = network(paddle)
        asp.set_excluded_layers(["fc_2.w_0"], main)
        asp.decorate(paddle.optimizer.SGD(0.1)).minimize(loss, startup)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        scope = paddle.static.global_scope()
        tensors = {one.name: scope.find_var(one.name).get_tensor() for one in main.all_parameters()}
        draw = np.random.RandomState(7)
        weights = {name: draw.randn(*tensors[name].shape()).astype("float32") for name in sorted(tensors)}
        masks: dict[str, dict[str, str]] = {}
        for algorithm in ALGORITHMS:
            for n, m in PATTERNS:
                # without signs, by which 2.6.2 chooses there (docs/DIFFERENCES.md, pruned-by-sign)
                drawn = {
                    name: np.abs(weight) if algorithm == "mask_2d_best" else weight
                    for name, weight in weights.items()
                }
                for name in [name for name in weights if "asp_mask" not in name]:
                    tensors[name].set(drawn[name], paddle.CPUPlace())
                try:
                    found = asp.prune_model(main, n, m, algorithm)
                except AssertionError:  # 2.6.2 keeps n of m in two dimensions, and asks for n zeros
                    masks[f"{algorithm} {n}:{m}"] = {}
                    continue
                for name, mask in found.items():
                    kept = np.array(scope.find_var(name).get_tensor())
                    np.testing.assert_array_equal(kept, drawn[name] * mask)
                masks[f"{algorithm} {n}:{m}"] = {
                    name: np.packbits(np.asarray(mask, "uint8").reshape(-1)).tobytes().hex()
                    for name, mask in found.items()
                }
        feed = {"image": np.ones([2, 4, 5, 5], "float32"), "ids": np.ones([2, 1], "int64")}
        for _ in range(2):
            exe.run(main, feed=feed, fetch_list=[loss])
        density = {name: asp.calculate_density(np.array(tensors[name])) for name in found}
        asp.reset_excluded_layers(main)
    ops = [
        [op.type, op.input_arg_names, op.output_arg_names, op.attr("op_role")]
        for op in main.global_block().ops
        if any("asp_mask" in name for name in op.input_arg_names)
    ]
    started = [
        [op.type, op.output_arg_names] for op in startup.global_block().ops if "asp" in op.output_arg_names[0]
    ]
    return {"ops": ops, "started": started, "masks": masks, "density": density}


if __name__ == "__main__":
    import paddle as paddle2

    paddle2.enable_static()
    PATH.write_text(json.dumps(pruned(paddle2), indent=0), encoding="utf8")
