"""The programs of a training script that knows nothing of us: it runs until its first `Executor.run`, and
no further.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any

import fluidlite
from fluidlite import unique_name
from fluidlite.base.errors import did_you_mean
from fluidlite.base.place import CPUPlace
from fluidlite.base.records import dataclass
from fluidlite.cli.errors import UsageError, one_line
from fluidlite.cli.scripts.names import paddle_names
from fluidlite.cli.scripts.process import as_main, code_of_file, code_of_text
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import (
    Program,
    default_main_program,
    default_startup_program,
    program_guard,
    programs_since,
)
from fluidlite.values.scope import Scope, scope_guard

__all__ = ["Captured", "capture_call", "capture_script"]


@dataclass(frozen=True)
class Captured:
    """A training program, the program that initialises what it needs, a title for both, and batches where
    they were asked for.
    """

    main: Program
    startup: Program
    title: str
    feeds: tuple[dict[str, Any], ...] = ()


class _Reached(BaseException):
    """The script has come to where its programs are complete. No Exception, so that the script's `except`
    lets it pass.
    """


def capture_script(
    path: str, argv: Sequence[str], wanted: str | None = None, batches: int = 0, source: bytes | None = None
) -> Captured:
    """The programs of the script at `path`, run as `__main__` with the arguments `argv`; `wanted` names the
    variable of the main one.

    With `batches` the script goes on, on the CPU, until it has fed so many to a program that trains; they are
    `Captured.feeds`. UsageError where the script fails, ends without a run, or has several programs that
    train and none is named. What the script prints goes to stderr. `source` is the text of a script that
    is no file.
    """
    try:
        if source is None:
            main = code_of_file(path, path)
        else:
            path = "<stdin>"
            main = code_of_text(source)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"{path}:{getattr(error, 'lineno', 0)}: {type(error).__name__}: {getattr(error, 'msg', error)}"
        ) from None
    with _fresh() as capture, as_main(main, argv) as module, capture.executors(batches):
        # stdout is the command's own, and may be a pipe that wants one program
        with contextlib.redirect_stdout(sys.stderr):
            _execute(main.code, module, path, capture)
        capture.built(module)
    if capture.found is None:
        raise UsageError(
            f"{path} ended without a program: it built none, and called neither Executor.run nor "
            f"DistributeTranspiler.transpile{_functions_of(module, path)}"
        )
    if len(capture.feeds) < batches:
        raise UsageError(
            f"{path} fed {len(capture.feeds)} batches to its training program, but {batches} are "
            "needed: let it run longer, or give fewer --steps"
        )
    return dataclasses.replace(capture.found(pathlib.Path(path).name, wanted), feeds=tuple(capture.feeds))


def _execute(code: Any, module: ModuleType, path: str, capture: _ProgramCapture) -> None:
    """Run the script; once its programs are found it does not matter how it ended."""
    try:
        exec(code, module.__dict__)
    except _Reached:
        return
    except SystemExit as error:
        if not error.code:
            capture.built(module)
        if capture.found is None:
            raise UsageError(
                f"{path} ended (exit code {error.code or 0}) before its first Executor.run"
            ) from None
    except Exception as error:
        if capture.found is None:
            raise UsageError(
                f"{_place(error.__traceback__, path)}: {type(error).__name__}: {one_line(error)}"
                f"{_variable_hint(error)}"
            ) from None


_EXAMPLES = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:6174",
    "PADDLE_PSERVER_IPS": "127.0.0.1",
    "PADDLE_PORT": "6174",
    "POD_IP": "127.0.0.1",
}
"""Values of variables that scripts of jobs read."""


def _variable_hint(error: Exception) -> str:
    """A suffix for a script that misses a variable of the environment."""
    name = str(error.args[0]) if isinstance(error, KeyError) and error.args else ""
    if not re.fullmatch("[A-Z][A-Z0-9_]+", name) or name in os.environ:
        return ""
    value = _EXAMPLES.get(name, "0")
    return f" (if that is a variable of the environment, set it: {name}={value} before the command)"


def _functions_of(module: ModuleType, path: str) -> str:
    """A suffix with the script's functions, one of which may build what it does not run."""
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__code__.co_filename == path and not _needs_arguments(value)
    ]
    stem = pathlib.Path(path).stem
    if not own or not stem.isidentifier():
        return ": if it only builds the network, put that into a function and name it, as in module:function"
    likely = sorted(own, key=lambda name: not re.search("build|net|model|program|train", name))
    return f": if a function of it builds the network, name that: {stem}:{likely[0]}"


def _needs_arguments(function: Callable[..., Any]) -> bool:
    found = inspect.signature(function).parameters.values()
    return any(
        one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in found
    )


def _place(trace: TracebackType | None, path: str) -> str:
    """The innermost line of the script itself on the way to an error."""
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == path]
    return f"{path}:{lines[-1]}" if lines else path


def capture_call(function: Callable[[], Any], title: str) -> Captured:
    """The programs that `function` returns, as Program or (main, startup), or else builds as the default
    ones.
    """
    with _fresh() as capture:
        try:
            result = function()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise UsageError(
                f"{title}: {last.filename}:{last.lineno}: {type(error).__name__}: {one_line(error)}"
            ) from None
        if isinstance(result, Program):
            return Captured(result, capture.startup_of(result, default_startup_program()), title)
        if (
            isinstance(result, (tuple, list))
            and len(result) >= 2
            and all(isinstance(item, Program) for item in result[:2])
        ):
            return Captured(result[0], result[1], title)
        if not default_main_program().global_block().ops:
            raise UsageError(
                f"{title} returned {type(result).__name__} and built nothing: it should return a Program or "
                f"(main, startup)"
            )
        return Captured(default_main_program(), default_startup_program(), title)


# ------------------------------------------------------------------------------------------------ watching
@contextlib.contextmanager
def _fresh() -> Iterator[_ProgramCapture]:
    """New default programs and names, and Paddle's names for FluidLite."""
    with unique_name.guard(), program_guard(Program(), Program()), scope_guard(Scope()), paddle_names():
        yield _ProgramCapture()


class _ProgramCapture:
    """Replacements for the functions through which a script's programs leave: runs of executors and calls of
    the transpiler.
    """

    def __init__(self) -> None:
        self.found: Callable[[str, str | None], Captured] | None = None
        self.since = Program().serial
        self.feeds: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def executors(self, batches: int = 0) -> Iterator[None]:
        """Inside the `with`, running anything ends the script; with `batches`, running so many of them
        through a program that trains.
        """
        # start-up time: only scripts need these modules, which the package imports as they are asked for
        Executor, ParallelExecutor = fluidlite.Executor, fluidlite.ParallelExecutor
        # methods of the classes: the script may have the functions under any name
        doors: list[tuple[type, str, Callable[..., Any]]] = [
            (Executor, "__init__", _no_device),
            (Executor, "run", self._run),
            (ParallelExecutor, "run", self._run_parallel),
            (fluidlite.DistributeTranspiler, "transpile", self._transpile),
        ]
        if batches:
            # the script trains for real until it has fed enough
            doors[:2] = [
                (Executor, "__init__", _on_cpu(Executor.__init__)),
                (Executor, "run", self._recording(Executor.run, batches)),
            ]
        saved = [(owner, name, getattr(owner, name)) for owner, name, _ in doors]
        for owner, name, door in doors:
            setattr(owner, name, door)
        try:
            yield
        finally:
            for owner, name, function in saved:
                setattr(owner, name, function)

    @property
    def _run(self) -> Callable[..., Any]:
        def run(executor: Any, program: Any = None, *args: Any, **kwargs: Any) -> Any:
            ran = default_main_program() if program is None else getattr(program, "_program", program)
            return self.stop(ran if isinstance(ran, Program) else default_main_program())

        return run

    def _recording(self, really: Callable[..., Any], batches: int) -> Callable[..., Any]:
        def run(executor: Any, program: Any = None, feed: Any = None, *args: Any, **kwargs: Any) -> Any:
            ran = default_main_program() if program is None else getattr(program, "_program", program)
            if self.found is None:
                self.note(ran if isinstance(ran, Program) else default_main_program(), sys._getframe(1))
            if isinstance(feed, dict) and feed and isinstance(ran, Program) and _trains(ran):
                # copies: a script may fill the same arrays again for its next batch
                self.feeds.append({name: copy.deepcopy(value) for name, value in feed.items()})
                if len(self.feeds) == batches:
                    raise _Reached
            return really(executor, program, feed, *args, **kwargs)

        return run

    @property
    def _run_parallel(self) -> Callable[..., Any]:
        return lambda executor, *args, **kwargs: self.stop(
            getattr(executor, "_program", None) or default_main_program()
        )

    @property
    def _transpile(self) -> Callable[..., Any]:
        def transpile(
            transpiler: Any, trainer_id: int = 0, program: Program | None = None, *args: Any, **kwargs: Any
        ) -> Any:
            startup = kwargs.get("startup_program")
            if startup is None and len(args) > 3:
                # after pservers, trainers and sync_mode
                startup = args[3]
            if startup is None:
                startup = default_startup_program()
            main = program or default_main_program()
            if self.found is None:
                self.found = lambda title, wanted: Captured(main, startup, title)
            raise _Reached

        return transpile

    def stop(self, ran: Program) -> Any:
        """Remember which programs there are, and leave the script."""
        if self.found is None:
            # the script's own frame: this function and the replacement that called it stand between
            self.note(ran, sys._getframe(2))
        raise _Reached

    def built(self, module: ModuleType) -> None:
        """Remember the programs of a script that has ended and has run none of them."""
        if self.found is not None:
            return
        main = default_main_program()
        if main.global_block().ops or any(_trains(program) for program in self._all()):
            names = {name: value for name, value in vars(module).items() if type(value) is Program}
            self._remember(main, names)

    def note(self, ran: Program, frame: Any) -> None:
        """Remember which programs there are when the script first runs one."""
        self._remember(ran, _names(frame))

    def _remember(self, ran: Program, names: dict[str, Program]) -> None:
        main = default_main_program()
        startup = default_startup_program()
        known = self._all()
        # chosen later: a UsageError raised here would go through the script's own `except`
        self.found = lambda title, wanted: self._choose(title, wanted, ran, main, startup, names, known)

    def _all(self) -> list[Program]:
        """Every program made since the script began."""
        found = [*programs_since(self.since), default_main_program(), default_startup_program()]
        distinct = {id(program): program for program in found}
        return sorted(distinct.values(), key=lambda program: program.serial)

    # ------------------------------------------------------------------ which program is which
    def _choose(
        self,
        title: str,
        wanted: str | None,
        ran: Program,
        main: Program,
        startup: Program,
        names: dict[str, Program],
        known: Sequence[Program],
    ) -> Captured:
        chosen = _named(wanted, names, title) if wanted else _training(ran, main, names, known, title)
        candidates = (ran, startup, *known)
        starts = next((one for one in candidates if _initialises(one, chosen)), startup)
        return Captured(chosen, starts, title)

    def startup_of(self, main: Program, default: Program) -> Program:
        """The program that initialises the parameters of `main`."""
        return next((one for one in (default, *self._all()) if _initialises(one, main)), default)


def _no_device(executor: Any, place: Any = None) -> None:
    """Take any place: no op will run, so the device need not be there."""
    executor.place = place


def _on_cpu(really: Callable[..., Any]) -> Callable[..., Any]:
    """The device need not be there."""
    return lambda executor, place=None: really(executor, CPUPlace())


def _names(frame: Any) -> dict[str, Program]:
    """The programs that variables of the script's frames hold, the outermost frame first."""
    found: list[dict[str, Program]] = []
    # up to where the script was started: the frames beyond are the command's
    while frame is not None and frame.f_code is not _execute.__code__:
        found.append({name: value for name, value in frame.f_locals.items() if type(value) is Program})
        frame = frame.f_back
    return {name: program for level in reversed(found) for name, program in level.items()}


def _named(wanted: str, names: dict[str, Program], title: str) -> Program:
    if wanted not in names:
        raise UsageError(
            f"{title}: no variable {wanted!r} holds a program at the script's first "
            f"run{did_you_mean(wanted, names)}"
        )
    return names[wanted]


def _training(
    ran: Program, main: Program, names: dict[str, Program], known: Sequence[Program], title: str
) -> Program:
    """The program that trains: the one that is run, the default one, or the only one that is initialised
    by what is run.
    """
    training = [program for program in known if _trains(program)]
    started = [program for program in training if _initialises(ran, program)]
    for program in (ran, main):
        if any(program is one for one in training):
            return program
    for group in (started, training):
        if len(group) == 1:
            return group[0]
    if training:
        found = ", ".join(name for name, program in names.items() if any(program is one for one in training))
        raise UsageError(
            f"{title} has {len(training)} training programs{f' ({found})' if found else ''}: "
            "choose one with --program NAME"
        )
    return main if main.global_block().ops else ran


def _trains(program: Program) -> bool:
    return any(op.role & OpRole.Optimize for block in program.blocks for op in block.ops)


def _initialises(startup: Program, main: Program) -> bool:
    """True if `startup`, which is not `main`, writes parameters of `main`."""
    parameters = {param.name for param in main.all_parameters()}
    return startup is not main and any(
        name in parameters for op in startup.global_block().ops for name in op.output_arg_names
    )
