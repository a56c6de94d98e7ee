"""Has PaddlePaddle run the programs of rows: `python -m beside.row_programs.record 18` (or 26), from the
folder `tests`, keeps what it finds in `tests/beside/cases`. Names behind the door limit it to those rows.
"""

import json
import os
import subprocess
import sys

from beside.row_programs import RECORDED, found_and_right, programs

NAMES = {"18": "paddle.fluid", "26": "paddle"}


def tell(door, names):
    """Say what the system of this Python finds, in a process for each program: some end it."""
    system = __import__(NAMES[door], fromlist=["_"])
    if door == "26":
        system.enable_static()
    known = programs(door)
    for name in names or known:
        child = os.fork()
        if child == 0:
            found = found_and_right(*known[name], system)[0]
            os.write(1, (json.dumps(["found", name, found]) + "\n").encode())
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            os.write(1, (json.dumps(["found", name, "the process ends"]) + "\n").encode())


def record(door, names):
    """Ask PaddlePaddle, and keep what it says."""
    from beside.backends import oracle
    from beside.kept import ORACLES

    command = [*oracle(ORACLES[door]).command[:1], "-m", "beside.row_programs.record", "--tell", door, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    recorded = json.loads(RECORDED[door].read_text()) if RECORDED[door].exists() else {}
    for line in done.stdout.splitlines():
        if line.startswith('["found", '):
            recorded.update([json.loads(line)[1:]])
    lines = [json.dumps(name) + ": " + json.dumps(recorded[name]) for name in sorted(recorded)]
    RECORDED[door].write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--tell":
        tell(sys.argv[2], sys.argv[3:])
    else:
        record(sys.argv[1], sys.argv[2:])
