"""The source of blocked loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from fluidlite.executor.compile.operands import Operands
from fluidlite.executor.plan.actions import CompiledRun, TiledLoop
from fluidlite.executor.plan.sizes import Size
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Value

__all__ = ["compiled", "patterns_in", "tiled"]

_INDENT = "    "
_MANY = 4  # loops from which one function for all is shorter than a text for each
_LONG = 32  # operands of a kernel that are passed as one name
# of these the text depends on shapes as well
_SHAPED = frozenset(("maximum", "minimum", "where"))


def compiled(operands: Operands, action: CompiledRun) -> list[str]:
    """A call of a compiled kernel, and array calls for as long as there is none."""
    kernel = operands.text(action.kernel)
    arrays = ", ".join(map(operands.text, action.arrays))
    # the call of hundreds of updates took a third of compiling a plan
    if len(action.arrays) >= _LONG and all(value.fixed for value in action.arrays):
        arrays = f"*{operands.group(f'{kernel}_arrays', action.arrays)}"
    return [
        f"if {kernel}.ready():",
        f"{_INDENT}{kernel}({arrays})",
        "else:",
        *(f"{_INDENT}{line}" for line in _by_calls(operands, kernel, action.loops)),
    ]


def _by_calls(operands: Operands, kernel: str, loops: Sequence[TiledLoop]) -> list[str]:
    """The array calls of some loops: a loop over their arrays, where all have one function."""
    keys = {operands.patterns.get(id(loop)) for loop in loops}
    rows = [tuple(_parameters(loop)) for loop in loops]
    is_fixed = len(loops) >= _MANY and all(value.fixed for row in rows for value in row)
    if not is_fixed or len(keys) > 1 or None in keys:
        return [line for loop in loops for line in tiled(operands, loop)]
    function = _function_of(operands, loops[0])
    return [f"for row in {operands.group(f'{kernel}_rows', rows)}:", f"{_INDENT}{function}(*row)"]


def tiled(operands: Operands, loop: TiledLoop) -> list[str]:
    """Element-wise calls on one block after the other, by one thread or shared by a team."""
    if loop.walk.is_whole:
        return _whole(operands, loop)
    text = operands.text
    head, body, local = _blocks(operands, loop)
    block = loop.walk.block
    cut = "" if _is_even(loop) else f"[:{_rest(operands, loop)}]"
    for action, out in loop.run:
        body.extend(operands.elementwise(action, out, local, block, cut))
    add = operands.function("add.reduce") if loop.sums else ""
    body.extend(
        f"{text(item.partial)}[i // {text(loop.walk.chunk)}] = {add}({local[item.source]}, axis=None)"
        for item in loop.sums
    )
    tail = [f"{add}({text(item.partial)}, out={text(item.total)})" for item in loop.sums]
    extent = text(loop.walk.extent)
    chunk = text(loop.walk.chunk)
    if loop.team is None:
        # registers have a row for each thread, of which there is one here
        loop_head = f"for i in range(0, {extent}, {chunk}):"
        return ["t = 0", *head, loop_head, *(f"{_INDENT}{line}" for line in body), *tail]
    name = operands.names.unique("tile")
    return [
        f"def {name}(t):",
        *(f"{_INDENT}{line}" for line in head),
        f"{_INDENT}for i in range(t * {chunk}, {extent}, {text(loop.walk.chunk * loop.threads)}):",
        *(f"{_INDENT * 2}{line}" for line in body),
        f"{text(loop.team)}({name})",
        *tail,
    ]


def patterns_in(steps: Iterable[Step]) -> dict[int, Hashable]:
    """The patterns of loops of which there are many, by `id`: the updates of all parameters are alike."""
    found: dict[int, Hashable] = {}
    for step in flat(steps):
        action = step.action
        loops = action.loops if isinstance(action, CompiledRun) else (action,)
        for loop in loops:
            if isinstance(loop, TiledLoop):
                like = found.get(id(loop.like)) if loop.like is not None else None
                found[id(loop)] = _pattern(loop) if like is None else like
    counts = Counter(found.values())
    return {number: key for number, key in found.items() if key is not None and counts[key] >= _MANY}


def _parameters(loop: TiledLoop) -> list[Value]:
    """The values that calls of a loop's pattern differ in."""
    return list(dict.fromkeys((*loop.reads, *loop.writes, *loop.registers)))


def _pattern(loop: TiledLoop) -> Hashable:
    """A key that loops over whole arrays share if their texts are alike but for names; None for others."""
    if len(loop.run) < _MANY or loop.sums or not loop.walk.is_whole:
        return None
    places: dict[Any, int] = {value: place for place, value in enumerate(_parameters(loop))}
    # an inner value has the name of its register
    places.update((value, places[loop.registers[number]]) for value, number in loop.held_in.items())
    parts: list[Any] = [len(places)]
    for action, out in loop.run:
        if action.function in _SHAPED or any(isinstance(item, Size) for item in action.operands):
            return None
        parts.append((action.function, places[out], out.dtype))
        # 0.0, -0.0 and False are equal, and are not written alike
        parts += [
            (places[item], item.dtype) if isinstance(item, Value) else repr(item) for item in action.operands
        ]
    return tuple(parts)


def _whole(operands: Operands, loop: TiledLoop) -> list[str]:
    """Element-wise calls on whole arrays; a call of one function where many loops are alike."""
    key = operands.patterns.get(id(loop))
    if key is None:
        return _calls(operands, loop, {})
    return [f"{_function_of(operands, loop)}({', '.join(map(operands.text, _parameters(loop)))})"]


def _function_of(operands: Operands, loop: TiledLoop) -> str:
    """The function of the pattern of a loop."""
    key = operands.patterns[id(loop)]
    found = operands.functions_of.get(key)
    if found is None:
        found = operands.functions_of[key] = operands.names.unique("each")
        names = {value: f"a{place}" for place, value in enumerate(_parameters(loop))}
        operands.common += ["", f"def {found}({', '.join(names.values())}):"]
        operands.common += [f"{_INDENT}{line}" for line in _calls(operands, loop, names)]
    return found


def _calls(operands: Operands, loop: TiledLoop, names: dict[Value, str]) -> list[str]:
    """The calls; `names` stand for some values."""

    def text(value: Value) -> str:
        return names.get(value) or operands.text(value)

    local = {**names, **{value: text(loop.registers[number]) for value, number in loop.held_in.items()}}
    lines: list[str] = []
    for action, out in loop.run:
        lines += operands.elementwise(action, out, local, out.shape)
    add = operands.function("add.reduce") if loop.sums else ""
    for item in loop.sums:
        source = local.get(item.source) or text(item.source)
        lines.append(f"{add}({source}, axis=None, out={text(item.total)})")
    return lines


def _blocks(operands: Operands, loop: TiledLoop) -> tuple[list[str], list[str], dict[Value, str]]:
    """Lines ahead of the loop, lines that cut its blocks, and the names of those."""
    walk = loop.walk
    text = operands.text
    head: list[str] = []
    body: list[str] = []
    registers = [operands.names.unique(f"w{number}") for number in range(len(loop.registers))]
    # the last block may be short; where blocks divide the rows evenly, registers are cut once, outside of
    # the loop
    for register, scratch in zip(registers, loop.registers, strict=True):
        piece = f"{text(scratch)}[t]" if _is_even(loop) else f"{text(scratch)}[t, :{_rest(operands, loop)}]"
        (head if _is_even(loop) else body).append(f"{register} = {piece}")
    local = {value: registers[number] for value, number in loop.held_in.items()}
    for value in dict.fromkeys((*loop.reads, *loop.writes)):
        if walk.takes_along(value):
            source = text(value)
            if walk.flat and len(walk.shape) > 1:
                flat_name = operands.names.unique(f"{source}__flat")
                head.append(f"{flat_name} = {source}.reshape(-1)")
                source = flat_name
            local[value] = operands.names.unique(f"{text(value)}__block")
            body.append(f"{local[value]} = {source}[i:i + {text(walk.chunk)}]")
        elif walk.flat and len(value.shape or ()) > 1:
            # blocks have one dimension, and one number of [1, 1] would give them two
            local[value] = operands.names.unique(f"{text(value)}__flat")
            head.append(f"{local[value]} = {text(value)}.reshape(-1)")
    return head, body, local


def _is_even(loop: TiledLoop) -> bool:
    """True if all blocks have the same size, for every size that the plan serves: feeds of which it holds by
    chance (lengths cut off at 128) would need a plan of their own, and the texts differ by one slice a block.
    """
    rest = loop.walk.extent % loop.walk.chunk
    return not isinstance(rest, Size) and rest == 0


def _rest(operands: Operands, loop: TiledLoop) -> str:
    """The size of the block at `i`."""
    return f"min({operands.text(loop.walk.chunk)}, {operands.text(loop.walk.extent)} - i)"
