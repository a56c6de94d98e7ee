"""Updates that are alike but for their arrays: the rule lowers the first of them, and its steps are repeated
on the arrays of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from fluidlite.base.records import dataclass
from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.plan.actions import Chained, ChainForm, replaced
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["RepeatedSteps", "as_chains"]

ENOUGH = 4  # element-wise steps that are kept together: of sgd's two, passes look at each


@dataclass(frozen=True, eq=False)
class RepeatedSteps:
    """The steps of one op, for others of the same form: `given` are the arrays that its rule found, and those
    that it made for its outputs.
    """

    given: tuple[Value, ...]
    steps: tuple[Step, ...]

    def emit(self, e: Emitter, values: Sequence[Value]) -> None:
        """The same steps on other arrays, with temporaries of their own."""
        at = dict(zip(self.given, values, strict=True))

        def change(value: Value) -> Value:
            found = at.get(value)
            if found is None:
                # constants are shared
                is_own = value.storage is Storage.BUFFER
                found = at[value] = e.temp(value.shape or (), value.dtype) if is_own else value
            return found

        for step in self.steps:
            action = step.action
            if isinstance(action, Chained):
                e.step(Chained(action.form, tuple(map(change, action.values))), temps=action.form.inner)
            else:
                e.step(replaced(action, change), writes=tuple(map(change, step.writes)))


Group: TypeAlias = "list[Step]"


def as_chains(steps: Sequence[Step], shape: tuple[int, ...] | None) -> tuple[Step, ...]:
    """The steps, with those that follow each other over arrays of a shape as one."""
    result: list[Step] = []
    for is_chain, group in _groups(steps, lambda step: _is_over(step, shape)):
        if not is_chain or len(group) < ENOUGH:
            result += group
            continue
        around = [step for step in steps if step not in group]
        form = _form_of(group, around)
        result.append(Step(group[0].op, Chained(form, form.arguments), temps=form.inner))
    return tuple(result)


def _is_over(step: Step, shape: tuple[int, ...] | None) -> bool:
    return step.elementwise is not None and step.writes[0].shape == shape


def _groups(steps: Iterable[Step], kind: Callable[[Step], bool]) -> list[tuple[bool, Group]]:
    """The steps that follow each other and are of one kind."""
    found: list[tuple[bool, Group]] = []
    for step in steps:
        if not found or found[-1][0] != kind(step):
            found.append((kind(step), []))
        found[-1][1].append(step)
    return found


def _form_of(chain: Sequence[Step], around: Iterable[Step]) -> ChainForm:
    """The form of some element-wise steps of an op; what its other steps touch is no temporary of theirs."""
    run = tuple((action, step.writes[0]) for step in chain if (action := step.elementwise) is not None)
    written = dict.fromkeys(out for _, out in run)
    others = {value for step in around for value in (*step.reads, *step.writes)}
    inner = {out for out in written if out.storage is Storage.BUFFER and not out.name and out not in others}
    read = dict.fromkeys(value for step in chain for value in step.reads if value not in written)
    leaves = [out for out in written if out not in inner]
    arguments: tuple[Any, ...] = (*read, *leaves)
    inputs = range(len(read))
    outputs = range(len(read), len(arguments))
    return ChainForm(run, arguments, tuple(inputs), tuple(outputs))
