"""The registry finds an op by its type, whoever asks first."""

from __future__ import annotations

import subprocess
import sys

EIGHT_AT_ONCE = """
import sys, threading
from fluidlite.base import registry

sys.setswitchinterval(1e-6)
start, wrong = threading.Barrier(8), []

def look(op_type):
    start.wait()
    try:
        assert registry.get(op_type).type == op_type
    except BaseException as error:
        wrong.append(f"{op_type}: {error!r}")

types = ["c_allreduce_sum", "mul", "sgd", "tanh_grad", "while", "softmax", "send", "top_k"]
threads = [threading.Thread(target=look, args=[op_type]) for op_type in types]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\\n".join(wrong))
"""


def test_threads_that_ask_first_all_find_their_op() -> None:
    ran = subprocess.run([sys.executable, "-c", EIGHT_AT_ONCE], capture_output=True, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")
