"""Every error that FluidLite raises on purpose.

FluidError
├── EnforceNotMet            a program cannot be built or run (Paddle's name: old scripts catch it)
│   ├── ShapeError           shapes or dtypes do not fit an op
│   ├── SlotError            also ValueError, TypeError, AssertionError: slots or attributes that a type lacks
│   ├── UnknownOpError       also ValueError: `Operator "x" has not been registered.`
│   ├── NotFoundError        also KeyError and ValueError: no such variable, with the nearest name
│   ├── UninitializedError   a variable is read before anything wrote it
│   ├── ProgramEditError     also ValueError: an edit would leave, or a check found, a program that cannot run
│   ├── NanInfError          check_nan_inf found a NaN or an infinity
│   ├── AssertError          also ValueError: an `assert` op found its condition false
│   ├── MissingFileError     also FileNotFoundError: a file that should be loaded is not there
│   ├── CommunicatorError    an op needs other processes, and the run has no connection to any
│   ├── TranspilerError      also ValueError: a program, or the job that it is meant for, does not allow it
│   ├── ReaderError          the user's generator that feeds a program raised
│   ├── FeedError            also ValueError and TypeError: what was fed does not fit
│   ├── FormatError          also ValueError: a file or message is not what it should be
│   ├── ArgumentError        also ValueError, TypeError, AssertionError: an argument is missing or wrong
│   ├── UnsupportedError     also AssertionError: a part of Paddle that is left out
│   ├── UntrustedError       a loaded model does more than to compute, and nobody trusts its maker
│   └── KernelError          an op's kernel raised; also of the class of what it raised
├── MissingExtraError        also ImportError: an optional dependency is not installed
├── InstalledPaddleError     also ImportError: a real Paddle has the name that FluidLite should take
└── EOFException             a reader has no more data

FluidWarning                 a UserWarning: what runs as 1.8.5 runs it, and is hardly what was meant
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ArgumentError",
    "AssertError",
    "CommunicatorError",
    "EOFException",
    "EnforceNotMet",
    "FeedError",
    "FluidError",
    "FluidWarning",
    "FormatError",
    "InstalledPaddleError",
    "KernelError",
    "MissingExtraError",
    "MissingFileError",
    "NanInfError",
    "NotFoundError",
    "ProgramEditError",
    "ReaderError",
    "ShapeError",
    "SlotError",
    "TranspilerError",
    "UninitializedError",
    "UnknownOpError",
    "UnsupportedError",
    "UntrustedError",
    "did_you_mean",
]


class FluidError(Exception):
    """Root of all errors raised by FluidLite."""

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return str(self.args[0]) if self.args else ""


class FluidWarning(UserWarning):
    """A program that runs, as it does in PaddlePaddle 1.8.5, and hardly does what was meant."""


class EnforceNotMet(FluidError, RuntimeError):
    """A program cannot be built or run."""


class ShapeError(EnforceNotMet, ValueError):
    """The shapes or dtypes of an op's inputs do not fit together."""


class SlotError(EnforceNotMet, ValueError, TypeError, AssertionError):
    """An op's slots or attributes are not what its type declares (Paddle raises one or another of these)."""


class UnknownOpError(EnforceNotMet, ValueError):
    """No op of that type is registered."""


class NotFoundError(EnforceNotMet, ValueError, KeyError):
    """No variable of that name exists."""


class UninitializedError(EnforceNotMet):
    """A variable is read before anything has written it."""


class ProgramEditError(EnforceNotMet, ValueError):
    """An edit would leave a program that cannot run, or `verify()` found one."""


class NanInfError(EnforceNotMet):
    """A NaN or an infinity came out of an op while `FLAGS_check_nan_inf` was on."""


class AssertError(EnforceNotMet, ValueError):
    """The condition of an `assert` op is false."""


class MissingFileError(EnforceNotMet, FileNotFoundError):
    """A file that should be loaded is not there."""


class CommunicatorError(EnforceNotMet):
    """An op needs other processes, and the run has no connection to any, or they do not answer.

    names_op: True if the text names the op and the user's line already.
    """

    def __init__(self, text: str = "", names_op: bool = False) -> None:
        super().__init__(text)
        self.names_op = names_op


class TranspilerError(EnforceNotMet, ValueError):
    """A program cannot be transpiled, or not for the endpoints, ranks and options that were given."""


class ReaderError(EnforceNotMet):
    """The user's generator that feeds a program raised, or gave what does not fit; the cause is chained."""


class KernelError(EnforceNotMet):
    """A kernel raised; the message names the op, its inputs and the user's line.

    Where the cause is known (`KernelError.of`), it is an error of that class, too.
    """

    @staticmethod
    def of(cause: Exception, text: str) -> KernelError:
        """An error with this text that `except` finds by the class of `cause` as well."""
        made: KernelError = _of_kind(KernelError, cause)(text)
        return made

    def __reduce__(self) -> tuple[Any, ...]:  # classes that are made by the run have no name to be found by
        return KernelError, self.args


# the narrowest first
_KINDS = (FloatingPointError, OverflowError, ZeroDivisionError, ArithmeticError) + (
    *(IndexError, KeyError, LookupError),
    *(AssertionError, AttributeError, MemoryError, TypeError, ValueError),
)


def _of_kind(error: Any, cause: Exception) -> type[Any]:
    """The subclass of `error` that is of the class of `cause` as well, or `error` itself."""
    kind = next((kind for kind in _KINDS if isinstance(cause, kind)), None)
    return error if kind is None or issubclass(error, kind) else _both(error, kind)


@functools.cache
def _both(error: Any, kind: type[Exception]) -> type[Any]:
    return type(error.__name__, (error, kind), {"__module__": __name__})


class FeedError(EnforceNotMet, ValueError, TypeError):
    """A fed value does not fit the variable that it was fed to."""


class FormatError(EnforceNotMet, ValueError):
    """Bytes from a file or a message do not have the format that they should have."""


class UnsupportedError(EnforceNotMet, AssertionError):
    """A name of Paddle's is used that FluidLite leaves out on purpose; the message says why."""


class UntrustedError(EnforceNotMet):
    """A loaded model does more than to compute, and nobody has said that its maker is trusted."""


class ArgumentError(EnforceNotMet, ValueError, TypeError, AssertionError):
    """An argument is missing, or has a type or value that cannot be meant (Paddle raises one or another of
    these).
    """

    @staticmethod
    def of(cause: Exception, text: str) -> ArgumentError:
        """An error with this text that `except` finds by the class of `cause` as well."""
        made: ArgumentError = _of_kind(ArgumentError, cause)(text)
        return made

    def __reduce__(self) -> tuple[Any, ...]:  # as of KernelError
        return ArgumentError, self.args


class MissingExtraError(FluidError, ImportError):
    """An optional dependency is missing; the message names the extra that brings it."""


class InstalledPaddleError(FluidError, ImportError):
    """A real Paddle is installed, and nobody said that FluidLite should stand in its place."""


class EOFException(FluidError):
    """A reader that is not iterable has come to the end of its pass."""


def of_user(error: Exception) -> Exception:
    """The error of a function that the user gave, marked: it reaches the user as it was raised."""
    error.__dict__["raised_by_user"] = True
    return error


def is_of_user(error: Exception) -> bool:
    """True for an error that `of_user` has marked."""
    return "raised_by_user" in error.__dict__


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A suffix such as "; did you mean 'fc_0.w_0'?", or "" when nothing known is as near to `name` as
    `cutoff`.
    """
    import difflib  # start-up time

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
