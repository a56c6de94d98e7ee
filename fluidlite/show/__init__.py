"""Programs as something to look at: pure functions of a Program, one file a format, and the page of a
whole job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fluidlite.ir.program import Program
from fluidlite.show.dot import program_dot
from fluidlite.show.mermaid import program_mermaid

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """A way to write a program: the end of its file's name, and the function that writes it."""

    suffix: str
    render: Callable[[Program], bytes]


# A format's module that imports much is imported at its first use: the command needs the names of all, and
# writes one.
def _text(program: Program) -> bytes:
    from fluidlite.ir.printing import program_text

    return program_text(program).encode()


def _code(program: Program) -> bytes:
    from fluidlite.show.code import program_code

    return program_code(program).encode()


def _json(program: Program) -> bytes:
    from fluidlite.show.json import program_json

    return program_json(program).encode()


def _pb(program: Program) -> bytes:
    from fluidlite.ir.proto import serialize_program

    return serialize_program(program)


def _dot(program: Program) -> bytes:
    return program_dot(program).encode()


def _mermaid(program: Program) -> bytes:
    return program_mermaid(program).encode()


def _svg(program: Program) -> bytes:
    from fluidlite.show.picture import program_picture

    return program_picture(program).encode()


def _html(program: Program) -> bytes:
    from fluidlite.show.html import program_page

    return program_page(program).encode()


FORMATS = {
    "text": Format(".txt", _text),
    "code": Format(".code", _code),
    "json": Format(".json", _json),
    "pb": Format(".pdmodel", _pb),
    "dot": Format(".dot", _dot),
    "mermaid": Format(".mmd", _mermaid),
    "svg": Format(".svg", _svg),
    "html": Format(".html", _html),
}
"""Name -> format. `pb` is Paddle's ProgramDesc, under the suffix by which Netron knows it."""
