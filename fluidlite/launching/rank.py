"""One process of a job: told who it is, it runs the script, and says what went wrong.

A file that runs by itself, `python rank.py NOTE SCRIPT ARGUMENTS...`, on the standard library alone: a script
is not slower for it, and imports what it wants first. The note is JSON:

    reports     folder for the report of a failure
    name, log   formats of this process's name and of the file that gets its output
    logs        folder of that file; "" leaves the output where it is
    module      true if SCRIPT is the name of a module
    trace       folder for this process's part of the timeline, or ""
    brief       true to report errors of the library by the user's own lines
    number      which one this is; without it, the rank that `mpiexec` or `srun` gave
    endpoints   of all ranks; devices, on_each: the CUDA devices of a host, and its number of processes
    environ     variables for the script; first: those of rank 0 beside them
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import time
import traceback
from typing import Any

_PLACES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_ABOVE = (__file__, "<frozen runpy>", runpy.__file__)  # what stands above a script in a traceback
LEFT = ".left"  # the end of a note's name
_INTERRUPTED = 130  # as shells say of a process that Ctrl-C ended


def place() -> tuple[int, int]:
    """Rank and number of ranks, as what started them says; (0, 1) for a process alone."""
    for rank, size in _PLACES:
        found = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(text.isdigit() for text in found):
            return int(found[0]), int(found[1])
    return 0, 1


def variables(note: dict[str, Any], rank: int, size: int) -> dict[str, str]:
    """The variables that the script finds."""
    found: dict[str, str] = dict(note["environ"])
    if "endpoints" not in note:
        return found
    on_each = note["on_each"]
    endpoints = note["endpoints"]
    found["PADDLE_TRAINER_ID"] = str(rank)
    found["PADDLE_TRAINERS_NUM"] = str(size)
    found["PADDLE_TRAINER_ENDPOINTS"] = ",".join(endpoints)
    found["PADDLE_CURRENT_ENDPOINT"] = endpoints[rank]
    found["PADDLE_RANK_IN_NODE"] = str(rank % on_each)
    found["PADDLE_LOCAL_SIZE"] = str(min(on_each, size))
    found |= note["first"] if rank == 0 else {}
    devices = note["devices"]
    if devices is not None:
        # each process sees its own device only, as number 0
        found["CUDA_VISIBLE_DEVICES"] = str(devices[rank % on_each % len(devices)]) if devices else ""
        found["FLAGS_selected_gpus"] = "0" if devices else ""
    return found


def has_logs(note: dict[str, Any]) -> bool:
    """True if this process's output goes to a file: not on another host than the launcher's, unless the
    folder of the files is there too.
    """
    return bool(note["logs"]) and (os.path.isdir(note["reports"]) or os.path.isdir(note["logs"]))


def redirect(path: str) -> None:
    """Let a file have what this process, and those that it starts, print."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def announce(note: dict[str, Any], number: int) -> None:
    """Leave this process's name beside the reports, in a file called by its id, until it ends well: what is
    killed says nothing.
    """
    folder = os.path.join(note["reports"], "running")
    if os.path.isdir(folder):
        path = os.path.join(folder, str(os.getpid()))
        with open(path, "w", encoding="utf8") as file:
            file.write(note["name"].format(number))
        atexit.register(forget, path)
        os._exit = noting(os._exit, folder)


def noting(leave: Any, folder: str) -> Any:
    """`os._exit`, which nobody hears of otherwise, with a note of it beside this process's name."""

    def noted(status: int) -> None:
        # a child of this process has no name there
        path = os.path.join(folder, str(os.getpid()))
        if os.path.exists(path):
            with open(path + LEFT, "w", encoding="utf8") as file:
                file.write(str(status))
        leave(status)

    return noted


def forget(path: str) -> None:
    """Take the file away; where the job has ended, its folder is gone already."""
    if os.path.exists(path):
        os.remove(path)


def text_of(error: BaseException, brief: bool) -> str:
    """The traceback from the script on: this file and runpy stand above it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _ABOVE:
        trace = trace.tb_next
    if not (brief and type(error).__module__.startswith("fluidlite.")):
        return "".join(traceback.format_exception(type(error), error, trace))
    # the library's errors name the op and its line: 40 lines of its own frames would hide that
    frames = [frame for frame in traceback.extract_tb(trace) if not is_ours(frame.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    return "".join([*lines, *traceback.format_exception_only(type(error), error)])


def is_ours(path: str) -> bool:
    """True for a file of the library, and for the text of a plan."""
    names = ("fluidlite", "fluidlite.executor", "fluidlite.transpiler")
    modules = [sys.modules[name] for name in names if name in sys.modules]
    folders = [os.path.dirname(str(module.__file__)) + os.sep for module in modules]
    return path.startswith(("<fluidlite ", *folders))


def report(note: dict[str, Any], number: int, code: int, text: str) -> None:
    """Write the report of a failure: the time, the exit code, the traceback, the log and its length so
    far.
    """
    if not os.path.isdir(note["reports"]):
        return  # another host's folder: there the text goes to stderr alone
    sys.stdout.flush()
    log, name = note["log"].format(number), note["name"].format(number)
    size = os.fstat(1).st_size
    found = {"time": time.time(), "name": name, "code": code, "text": text, "log": log, "log_size": size}
    path = os.path.join(note["reports"], f"{name}.{os.getpid()}")
    with open(path + ".new", "w", encoding="utf8") as file:
        json.dump(found, file)
    os.replace(path + ".new", path)  # who finds it finds all of it


def end(code: int) -> None:
    """End this process with a failure, and with it the other ranks where MPI runs."""
    sys.stdout.flush()
    sys.stderr.flush()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    os._exit(code)  # nothing at exit may wait for the other ranks


def code_of(error: SystemExit) -> int:
    """The exit code that a SystemExit asks for."""
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def main(arguments: list[str]) -> None:
    """Be the process that the note describes."""
    note = json.loads(arguments[0])
    script = arguments[1] if note["module"] else os.path.abspath(arguments[1])
    rank, size = place()
    number = note.get("number", rank)
    os.environ.update(variables(note, rank, size))
    if has_logs(note):
        redirect(os.path.join(note["logs"], note["log"].format(number)))
    announce(note, number)
    if note["trace"]:
        name = note["name"].format(number)
        os.environ["FLUIDLITE_TRACE"] = os.path.join(note["trace"], name + ".json")
        os.environ["FLUIDLITE_TRACE_ROLE"] = name
    sys.argv = [arguments[1], *arguments[2:]]
    sys.path[0] = os.getcwd() if note["module"] else os.path.dirname(script)
    try:
        run(script, note["module"])
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
    except SystemExit as error:
        code = code_of(error)
        if code:
            said = "" if isinstance(error.code, int) else f"{error.code}\n"
            fail(note, number, code, said, said.strip())
        raise
    except BaseException as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        fail(note, number, 1, text_of(error, note["brief"]), why)


def run(script: str, is_module: bool) -> None:
    """Run the script, or the module of that name, as `__main__`."""
    if is_module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(script, run_name="__main__")


def fail(note: dict[str, Any], number: int, code: int, text: str, why: str) -> None:
    """Report a failure, print it where output goes, and end; a recorded timeline ends with `why`."""
    report(note, number, code, text)
    tracing = sys.modules.get("fluidlite.base.tracing")
    if tracing is not None:
        tracing.tracer.end(why)
    sys.stderr.write(text)
    end(code)


if __name__ == "__main__":
    main(sys.argv[1:])
