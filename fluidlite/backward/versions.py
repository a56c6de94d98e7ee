"""Versions of variables: which value an op reads, and to which gradient it contributes.

An op that writes a variable anew makes the next version of it. Each version that is written anew has a
gradient of its own: what readers behind the op contribute belongs to the new one, what readers in front of it
contribute to the old one. Where an old value may show through - of a variable that a loop or branch writes,
of an array of which an op writes one entry - both versions share one gradient: the op's gradient op takes it
as it is behind the op, and leaves it as it is in front.

In a program that writes each variable once, every gradient is called x@GRAD and no value is copied. Where
there are several, the one that keeps this name is that of the oldest version, which has come in from outside
if there was a value before the first op; of a variable whose gradient itself comes in, as that of a target,
the newest. What a loop or branch writes has both inside of its block: x@GRAD is what comes in for the newest
version, and what is left at the end for the oldest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from fluidlite import unique_name
from fluidlite.backward.rules import helper_op, is_gradient
from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import copy_operator
from fluidlite.ir.replaced import forward_writes, replaced_names, rewound_names
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["Version", "Versions"]

Version = tuple[str, int]
"""A variable and how many times it was written before."""


def _shows_through(op: Operator) -> set[str]:
    """Variables that `op` writes and whose old values may show through."""
    slots = op.definition.updates if op.definition is not None else ()
    return {name for slot in slots for name in op.output(slot)}


def _written(op: Operator) -> list[str]:
    """Variables that get another value from `op`."""
    untouched = op.definition.untouched if op.definition is not None else ()
    same = {name for slot in untouched for name in op.output(slot)}
    return [name for name in dict.fromkeys(op.output_arg_names) if name != EMPTY_VAR and name not in same]


class Versions:
    """The versions of the variables of one block; `incoming` are those whose gradients come in.

    `runner` is the op that runs the block, None for the outermost.
    """

    def __init__(self, block: Block, incoming: Iterable[str] = (), runner: Operator | None = None) -> None:
        self.block = block
        self.incoming = tuple(dict.fromkeys(incoming))
        self.runner = runner
        self.before: dict[Operator, dict[str, int]] = {}
        self.after: dict[Operator, dict[str, int]] = {}
        self._shared: dict[Operator, set[str]] = {}
        self._gradients: dict[str, list[int]] = {}  # for each version the number of its gradient
        self._writer: dict[Version, Operator] = {}
        self._read_first = set[str]()
        self.names = set[str]()  # under which rules know old versions
        for op in block.ops:
            self._add(op)

    def _add(self, op: Operator) -> None:
        shared = self._shared[op] = _shows_through(op)
        written = _written(op)
        # what a gradient op counts back inside of its block stands in none of its slots
        written += sorted(forward_writes(op).difference(written, op.block.vars) if op.sub_blocks() else ())
        # of outputs that it leaves untouched an op knows the version, too
        names = dict.fromkeys([*op.input_arg_names, *op.output_arg_names, *written])
        self.before[op] = {name: self.newest(name) for name in names}
        self._read_first.update(name for name in op.input_arg_names if not self.newest(name))
        if not op.role & OpRole.Optimize:
            for name in written:
                self._write(op, name, shared)
        self.after[op] = {name: self.newest(name) for name in names}

    def _write(self, op: Operator, name: str, shared: Collection[str]) -> None:
        # gradients of an earlier pass are summed and carried under one name; an op in place makes another one
        if is_gradient(name) and name not in op.input_arg_names:
            return
        numbers = self._gradients.setdefault(name, [0])
        is_new = name not in shared and self._is_floating(name)
        numbers.append(numbers[-1] + is_new)
        self._writer[name, len(numbers) - 1] = op

    # ------------------------------------------------------------------ versions
    def newest(self, name: str) -> int:
        """How many times the block writes a variable."""
        return len(self._gradients.get(name, (0,))) - 1

    def first(self, name: str) -> Version:
        """The oldest version that has a value."""
        return (name, 0) if self.exists(name, 0) or not self.newest(name) else (name, 1)

    def exists(self, name: str, version: int) -> bool:
        """True if something may have written this version: an op, or what is outside of the block."""
        if version:
            return True
        var = self.block.vars.get(name)
        if var is None or var.is_data or name in self._read_first:
            return True
        return var.persistable and not self._begins_anew(var)

    def _begins_anew(self, var: Variable) -> bool:
        """True if nothing depends on what an earlier run has left in a persistable variable: an op writes it
        first. A parameter is there before any run.
        """
        writer = self._writer.get((var.name, 1))
        is_inner = self.runner is not None or isinstance(var, Parameter)
        return writer is not None and not is_inner and var.name not in self._shared[writer]

    def from_outside(self, name: str) -> bool:
        """True for a variable of the blocks around."""
        var = self.block.vars.get(name)
        return self.runner is not None and (var is None or var.persistable)

    def reads(self, op: Operator) -> list[Version]:
        """The versions that the results of `op` depend on."""
        names = dict.fromkeys([*op.input_arg_names, *self._shared[op]])
        return [(name, self.before[op][name]) for name in names if name != EMPTY_VAR]

    def writes(self, op: Operator) -> list[Version]:
        """The versions that `op` makes."""
        return [(name, self.after[op][name]) for name in op.output_arg_names if name != EMPTY_VAR]

    def older(self, op: Operator, no_grad: Collection[str]) -> set[str]:
        """Variables that have a value before `op` writes them, which depends on something whose gradient is
        not in `no_grad`.
        """
        return {
            name for name in op.output_arg_names if self._depends(name, self.before[op].get(name, 0), no_grad)
        }

    def _depends(self, name: str, version: int, no_grad: Collection[str]) -> bool:
        if self.exists(name, 0):
            return True
        writers = [self._writer[name, at] for at in range(1, version + 1)]
        return any(grad_name(read) not in no_grad for op in writers for read in self._floating(op))

    def _floating(self, op: Operator) -> Iterable[str]:
        return filter(self._is_floating, op.input_arg_names)

    def _is_floating(self, name: str) -> bool:
        var = self.block._find_var_recursive(name)
        return var is not None and var._dtype is not None and is_float(var._dtype)

    def are_replaced(self, ops: Iterable[Operator]) -> bool:
        """True if a variable of `ops` is written over; running statistics do not count."""
        for name in {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}:
            var = self.block._find_var_recursive(name)
            is_state = var is not None and var.persistable and var.stop_gradient
            if not is_state and self.newest(name) > self.first(name)[1]:
                return True
        return False

    # ------------------------------------------------------------------ gradients
    def gradient(self, name: str, version: int) -> str:
        """The name of the gradient of a version."""
        numbers = self._gradients.get(name, (0,))
        if numbers[version] == self._plain(name):
            return grad_name(name)
        # other than in the blocks around, whose gradients are seen from here
        return f"{grad_name(name)}@VERSION@block{self.block.idx}@{numbers[version]}"

    def _plain(self, name: str) -> int:
        """The gradient that is called x@GRAD."""
        numbers = self._gradients.get(name, (0,))
        if name in self.incoming and not self.from_outside(name):
            return numbers[-1]
        return numbers[self.first(name)[1]]

    def is_split(self, name: str) -> bool:
        """True if a variable has several gradients."""
        numbers = self._gradients.get(name, (0,))
        return numbers[-1] != numbers[self.first(name)[1]]

    def started(self) -> dict[str, str]:
        """Gradient -> the name under which it, or a part of it, comes in."""
        return {self.gradient(name, self.newest(name)): grad_name(name) for name in self.incoming}

    def replaced(self) -> set[str]:
        """Gradients of oldest versions under whose names those of the newest ones come in."""
        return {grad_name(name) for name in self.incoming if self.from_outside(name) and self.is_split(name)}

    def newer(self) -> set[str]:
        """Gradients called x@GRAD that are not those of oldest versions."""
        return {
            grad_name(name)
            for name in self._gradients
            if self.is_split(name) and self.gradient(*self.first(name)) != grad_name(name)
        }

    def stop(self, no_grad: set[str]) -> None:
        """Add the gradients of all versions of the variables whose gradient must not be made."""
        for name, numbers in self._gradients.items():
            if grad_name(name) in no_grad:
                no_grad.update(self.gradient(name, version) for version in range(len(numbers)))

    def join(self, ops: Sequence[Operator], forward_of: Mapping[Operator, Operator]) -> dict[str, str]:
        """Let the gradients on both sides of an op in place have one name, where its only gradient op that
        reads that of the new version makes that of the old one.

        `ops` are all gradient ops of the block, which get the new names; returns new names by old ones.
        """
        of_forward: dict[Operator, list[Operator]] = defaultdict(list)
        for op in ops:
            of_forward[forward_of[op]].append(op)
        joined: dict[str, str] = {}
        for name in filter(self.is_split, list(self._gradients)):
            names = [self.gradient(name, version) for version in range(self.newest(name) + 1)]
            for version in range(1, self.newest(name) + 1):
                makers = of_forward[self._writer[name, version]]
                readers = [op for op in makers if names[version] in op.input_arg_names]
                if len(readers) == 1 and names[version - 1] in readers[0].output_arg_names:
                    self._join(name, version)
            joined.update(zip(names, (self.gradient(name, at) for at in range(len(names))), strict=True))
        for op in ops if joined else ():
            op.inputs, op.outputs = _mapped(op.inputs, joined), _mapped(op.outputs, joined)
        return joined

    def _join(self, name: str, version: int) -> None:
        numbers = self._gradients[name]
        new, old = numbers[version], numbers[version - 1]
        self._gradients[name] = [old if number == new else number for number in numbers]

    # ------------------------------------------------------------------ what a gradient rule sees
    def _value(self, name: str, version: int) -> str:
        """A version as a rule knows it: the variable's name for the newest, another for those before it."""
        if version == self.newest(name):
            return name
        self.names.add(f"{name}@BEFORE@{version}")
        return f"{name}@BEFORE@{version}"

    def view(self, op: Operator) -> Operator:
        """`op` with a name for each version. An op with sub-blocks, whose gradient finds its values in the
        frames that were kept, stays as it is.
        """
        if op.sub_blocks() or self._is_plain(op):
            return op
        seen = copy_operator(op, op.block)
        seen.inputs = self._renamed(op.inputs, self.before[op])
        seen.outputs = self._renamed(op.outputs, self.after[op])
        return seen

    def _is_plain(self, op: Operator) -> bool:
        """True if `op` knows no variable of which there are several versions."""
        pairs = (*self.before[op].items(), *self.after[op].items())
        return all(version == self.newest(name) for name, version in pairs) and not any(
            map(self.is_split, self.before[op])
        )

    def _renamed(
        self, slots: Mapping[str, Sequence[str]], versions: Mapping[str, int]
    ) -> dict[str, list[str]]:
        return {
            slot: [name if name == EMPTY_VAR else self._value(name, versions[name]) for name in names]
            for slot, names in slots.items()
        }

    def no_grad_of(self, op: Operator, no_grad: set[str]) -> set[str]:
        """`no_grad` under the names that the rule of `op` knows."""
        if self._is_plain(op):
            return no_grad
        plain = bool(op.sub_blocks())
        return {
            grad_name(name if plain else self._value(name, version))
            for name, version in self.before[op].items()
            if self.gradient(name, version) in no_grad
        }

    def name_gradients(self, op: Operator, ops: Iterable[Operator], grad_of: dict[str, str]) -> None:
        """Call the gradients in `ops`, the gradient ops of `op`, by their names; `grad_of` keeps those of
        oldest versions.
        """
        if self._is_plain(op):
            return
        coming, going = (self._names_of(op, versions) for versions in (self.after[op], self.before[op]))
        # a rule sees each version of its own op under another name; that of an op with sub-blocks does not,
        # but reads the gradients behind it, and makes those in front of it
        if not op.sub_blocks():
            coming = going = {**coming, **going}
        # in a gradient of a gradient y@GRAD may be a value that `op` has, and not the gradient of y of now
        read = {key: name for key, name in coming.items() if key not in self.before[op]}
        for gradient_op in ops:
            gradient_op.inputs = _mapped(gradient_op.inputs, read)
            gradient_op.outputs = _mapped(gradient_op.outputs, going)
        oldest = {self.gradient(*self.first(name)): name for name in self.before[op]}
        named = {coming.get(key, key) for key in grad_of} | {going.get(key, key) for key in grad_of}
        kept = {key: name for key, name in grad_of.items() if key not in coming and key not in going}
        grad_of.clear()
        grad_of.update(kept, **{key: name for key, name in oldest.items() if key in named})

    def arriving(self, op: Operator, made: Collection[str]) -> set[str]:
        """The variables that `op` writes to whose new versions a gradient of those in `made` comes."""
        return {name for name, version in self.writes(op) if self.gradient(name, version) in made}

    def _names_of(self, op: Operator, versions: Mapping[str, int]) -> dict[str, str]:
        """The gradient of each version as a rule knows it -> its name."""
        plain = bool(op.sub_blocks())
        return {
            grad_name(name if plain else self._value(name, version)): self.gradient(name, version)
            for name, version in versions.items()
        }

    # ------------------------------------------------------------------ values
    def keep_values(self, ops: Iterable[Operator], forward_of: Mapping[Operator, Operator]) -> int:
        """Let gradient ops read the values that their forward ops read: an `assign` keeps each that is gone
        by then. Returns how many ops were inserted.
        """
        values = _Values(self)
        for op in ops:
            forward = forward_of.get(op)
            if forward is not None and not forward.sub_blocks():
                values.rename(op, forward)
            for block in op.sub_blocks():
                for inner in block.ops:
                    values.held.update(dict.fromkeys(forward_writes(inner)))
        return values.insert()


def _mapped(slots: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> dict[str, list[str]]:
    return {slot: [names.get(name, name) for name in found] for slot, found in slots.items()}


class _Values:
    """Which version each variable holds while the gradient ops run; None where it is none of this run."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self.block = versions.block
        self.copies: dict[Version, str] = {}
        self.held: dict[str, int | None] = {}
        if versions.runner is not None:
            self._begin(versions.runner)

    def _begin(self, runner: Operator) -> None:
        """In a sub-block: outer variables are as they were when the step began, and some are not kept."""
        assert runner.definition is not None
        frames = runner.definition.frames
        kept = replaced_names(runner) & set(runner.input_arg_names) if frames else set[str]()
        counted = rewound_names(self.block, runner.definition.repeats)
        for name in {name for op in self.block.ops for name in forward_writes(op)}:
            if self.versions.from_outside(name) and (name in kept or name not in counted):
                self.held[name] = 0 if name in kept and not self._is_array(name) else None

    def _is_array(self, name: str) -> bool:
        var = self.block._find_var_recursive(name)
        return var is not None and var.type == VarType.LOD_TENSOR_ARRAY

    def rename(self, op: Operator, forward: Operator) -> None:
        """Let `op`, a gradient op of `forward`, read the versions that it means."""
        meant = self._meant(forward)
        back = [seen for seen in dict.fromkeys(op.output_arg_names) if seen in meant]
        for seen in dict.fromkeys(op.input_arg_names):
            if seen in meant:
                name, version = meant[seen]
                is_held = self.held.get(name, self.versions.newest(name)) == version
                # what counts back from another number than it should leaves one that nobody may read
                if back and not is_held:
                    self.held.update((meant[made][0], None) for made in back)
                found = name if is_held or back else self._copy(name, version)
                if found != seen:
                    op._rename_input(seen, found)
        for seen in back:
            name, version = meant[seen]
            if self.held.get(name, version) is not None:
                self.held[name] = version
            op._rename_output(seen, name)

    def _meant(self, forward: Operator) -> dict[str, Version]:
        """Each version of a written variable, as the rule of `forward` knows it -> the version."""
        pairs = [*self.versions.before[forward].items(), *self.versions.after[forward].items()]
        return {
            self.versions._value(name, version): (name, version)
            for name, version in pairs
            if self.versions.newest(name)
        }

    def _copy(self, name: str, version: int) -> str:
        if (name, version) not in self.copies:
            self.copies[name, version] = unique_name.generate(name + "@BEFORE")
        return self.copies[name, version]

    def insert(self) -> int:
        """Insert the ops that keep values; returns how many."""
        for (name, version), copy in self.copies.items():
            var = self.block._var_recursive(name)
            self.block.create_var(
                name=copy,
                shape=var.shape,
                dtype=var.dtype,
                type=var.type,
                lod_level=var.lod_level,
                stop_gradient=var.stop_gradient,
            )
            index, like = self._place(name, version)
            role = {ROLE_ATTR: int(OpRole.Forward)}
            keeper = helper_op(self.block, like, "assign", {"X": [name]}, {"Out": [copy]}, role)
            self.block.adopt(index, keeper)
        return len(self.copies)

    def _place(self, name: str, version: int) -> tuple[int, Operator]:
        """In front of the op that writes the variable next, or behind the last that does."""
        writer = self.versions._writer
        later = writer.get((name, version + 1))
        if later is not None:
            return later.idx, later
        return writer[name, version].idx + 1, writer[name, version]
