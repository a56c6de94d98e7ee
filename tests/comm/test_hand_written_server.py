"""`ListenAndServ`, `Send` and `Recv`: servers without a transpiler."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from waiting import LIMIT, until

import fluidlite as fluid

SCRIPT = pathlib.Path(__file__).parent / "hand_written_job.py"


@pytest.mark.parametrize(("block", "back"), [("scale", "25.0"), ("empty", "2.5")])
def test_a_server_comes_up_and_answers(block: str, back: str) -> None:
    """Launchers find the port that was bound in a file under /tmp; the server ends when its trainer has."""
    server = subprocess.Popen([sys.executable, SCRIPT, block], stderr=subprocess.PIPE, text=True)
    try:
        port = pathlib.Path(f"/tmp/paddle.{server.pid}.port")
        until(lambda: port.exists() or server.poll() is not None)
        command = [sys.executable, SCRIPT, block, port.read_text()]
        trainer = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (trainer.returncode, trainer.stdout.strip()) == (0, back), trainer.stderr
        assert server.wait(LIMIT) == 0
        assert not port.exists()
    finally:
        server.kill()
        server.communicate()


def test_the_ops() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, z = (fluid.layers.data(name, [4, 4], append_batch_size=False) for name in "xz")
        server = fluid.layers.io.ListenAndServ("127.0.0.1:0", ["x"], fan_in=2)
        with server.do():
            y = main.current_block().create_var(name="y", shape=[1], dtype="float32")
            main.current_block().append_op("sgd", {"Param": z, "Grad": x, "LearningRate": y}, {"ParamOut": z})
            assert server.get_params_and_grads() == ([z], [x])
        fluid.layers.io.Send("a:1,b:2", [x, z])
        dummy = main.global_block().create_var(name="dummy")
        fluid.layers.io.Send("a:1", [x, z], dummy_output=dummy, sync=False)
        assert fluid.layers.io.Recv("a:1,b:2", [x, z]) == [x, z]
        fluid.layers.io.Recv("a:1", [x], dummy_input=dummy, sync=False)
    ops = main.global_block().ops
    types = ["listen_and_serv", "send", "send_barrier", "send", "recv", "fetch_barrier", "recv"]
    assert [op.type for op in ops] == types
    listen, send = ops[:2]
    assert [listen.attr(name) for name in ("Fanin", "distributed_mode", "grad_to_block_id")] == [2, 0, [""]]
    assert [send.input("X"), send.attr("epmap"), int(send.attr("op_role"))] == [["x", "z"], ["a:1", "b:2"], 4]
    assert sorted(ops[2].attr("endpoints")) == ["a:1", "b:2"] and ops[3].output("Out") == ["dummy"]
    assert ops[3].attr("epmap") == ["a:1", "a:1"]  # one server for all
    assert ops[4].output("Out") == ["x", "z"] and ops[6].input("X") == ["dummy"]


@pytest.mark.parametrize("layer", [fluid.layers.io.Send, fluid.layers.io.Recv])
def test_one_variable_is_no_list(layer: object) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4])
        with pytest.raises(AssertionError, match="takes a list of Variables"):
            layer("a:1", x)  # type: ignore[operator]


def test_a_server_is_completed_inside_its_block() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        server = fluid.layers.io.ListenAndServ("127.0.0.1:0", [])
        with pytest.raises(fluid.errors.ProgramEditError, match="inside the `with`"):
            server.complete_op()
