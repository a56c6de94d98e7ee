"""`nn.SyncBatchNorm`: devices that share the rows of a batch give what one device gives."""

from __future__ import annotations

from typing import Any

import numpy as np

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import unique_name

ROWS = np.random.RandomState(3).uniform(-1, 3, (6, 2, 2, 2)).astype("float32")


def trained(devices: int) -> dict[str, Any]:
    """The parameters and running figures after three steps on so many devices."""
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    with unique_name.guard(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        x = paddle.static.data("x", [None, 2, 2, 2])
        out = paddle.nn.SyncBatchNorm(2)(x)
        loss = paddle.mean(paddle.square(out - x))
        paddle.optimizer.SGD(0.5).minimize(loss)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        run: Any = main
        if devices > 1:
            run = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(devices))
        for _ in range(3):
            exe.run(run, feed={"x": ROWS}, fetch_list=[loss])
        names = [param.name for param in main.all_parameters()]
        return {name: np.array(scope.find_var(name).get_tensor()) for name in names}


def test_two_devices_are_one() -> None:
    one, two = trained(1), trained(2)
    assert len(one) == 4
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    # it learned, and the running mean moved towards the whole batch's
    assert not np.allclose(one["sync_batch_norm_0.w_0"], 1.0)
    moved = ROWS.mean(axis=(0, 2, 3)) * (1 - 0.9**3)
    np.testing.assert_allclose(two["sync_batch_norm_0.w_1"], moved, rtol=1e-4)
