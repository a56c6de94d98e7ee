"""A server and a trainer without a transpiler: `python hand_written_job.py BLOCK [PORT]`; BLOCK is `scale` or
`empty`, and the one with a port is the trainer.
"""

from __future__ import annotations

import sys

import fluidlite as fluid

ROWS = [4, 4]


def serve(block: str) -> None:
    """Give ten times what has come, or what has come."""
    main = fluid.default_main_program().global_block()
    given = main.create_var(name="given", persistable=True, dtype="float32", shape=ROWS)
    server = fluid.layers.io.ListenAndServ("127.0.0.1:0", ["sent"], fan_in=1, optimizer_mode=False)
    with server.do():
        sent = main.create_var(name="sent", persistable=True, dtype="float32", shape=ROWS)
        if block == "scale":
            here = fluid.default_main_program().current_block()
            here.append_op("scale", {"X": [sent]}, {"Out": [given]}, {"scale": 10.0})
    fluid.Executor(fluid.CPUPlace()).run()


def train(block: str, port: str) -> None:
    """Send 2.5 and print what comes back."""
    name = "given" if block == "scale" else "sent"
    sent = fluid.layers.create_global_var(ROWS, 2.5, "float32", persistable=True, name="sent")
    main = fluid.default_main_program().global_block()
    fluid.layers.io.Send(f"127.0.0.1:{port}", [sent])
    back = sent if name == "sent" else main.create_var(name=name, dtype="float32", shape=ROWS)
    fetched = fluid.layers.io.Recv(f"127.0.0.1:{port}", [back])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    print(exe.run(fetch_list=list(fetched))[0][3, 3])
    exe.close()


if __name__ == "__main__":
    serve(*sys.argv[1:]) if len(sys.argv) == 2 else train(*sys.argv[1:])
