"""Row kernels as CUDA C: a row of threads for each row, which sweeps along it as often as values need.

Nothing but results is stored, and each sweep computes anew what it needs: registers are cheaper than memory,
and half precision would round values on the way. Sums over rows have a kernel of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluidlite.executor.cuda.kernel import NOT_FINITE_NUMBERS
from fluidlite.ops.kernels.row_kernels import REDUCTIONS, RowForm, RowNode, RowOperand
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES, Ref

__all__ = ["RowText", "has_tiles", "indented", "rows_text", "totals_text"]

_REDUCED = {
    "sum": ("0", "{0} += {1};", "row_sum({0})"),
    "max": ("-INFINITY", "{0} = larger({0}, {1});", "row_max({0})"),
}


def rows_text(form: RowForm) -> str:
    """The kernel of the outputs that are no sums over rows: `FOR_EACH_ROW` of `blocks.cuh`."""
    return RowText(form, form.kernel.rows, form.kernel.columns).rows()


def totals_text(form: RowForm) -> str:
    """The kernel of the sums over rows."""
    if has_tiles(form):
        return RowText(form, form.kernel.rows, form.kernel.columns).tiles()
    kept = form.axes[form.totals[0]]
    return RowText(form, kept, "".join(axis for axis in form.kernel.axes if axis not in kept)).totals()


def has_tiles(form: RowForm) -> bool:
    """True if the sums over rows are those of columns, which are neighbours in memory: a block takes 32
    columns and 8 rows at once, and gives the sums of a part of the rows.
    """
    return form.kernel.columns in {form.axes[output] for output in form.totals}


class RowText:
    """The lines of a kernel: its rows of threads stand for the axes `outer`, and each goes along `inner`."""

    def __init__(self, form: RowForm, outer: str, inner: str) -> None:
        self.form = form
        self.outer = outer
        self.inner = inner
        self.number = "S"
        """The type of numbers."""
        self.lines: list[str] = []
        self.made: set[int] = set()
        """The nodes that have a variable where the next line stands."""

    # ------------------------------------------------------------------ kernels
    def rows(self) -> str:
        """One that sweeps along rows."""
        form = self.form
        outputs = [output for output in form.outputs if output not in form.totals]
        values = [form.last(output) for output in outputs]
        needed = form.needed_by(values)
        for depth in range(max(map(form.depth_of, values)) + 1):
            self._numbers(needed, depth)
            self._stores_of_row(outputs, depth)
            self._sweep(outputs, needed, depth)
        return self._kernel(form.kernel.name, outputs, [*self._begun(), *indented(indented(self.lines))])

    def _begun(self) -> list[str]:
        """The head of the loop over rows."""
        found = ["  FOR_EACH_ROW(row, end, rows, columns) {"]
        for label in self.form.labels:
            name = label.name
            found.append(f"    Index at_{name} = end ? {name}[row] : 0;")
            found.append(f"    const bool is_kept = at_{name} != {label.ignored};")
            found.append(f"    if (!is_kept) at_{name} = 0;")
            found.append(f"    const bool is_column = at_{name} >= 0 && at_{name} < end;")
        return found

    def _sweep(self, outputs: Sequence[str], needed: Sequence[int], depth: int) -> None:
        form = self.form
        reduced = [index for index in needed if self._is_reduced_at(index, depth)]
        stored = [name for name in outputs if self._is_stored_at(name, depth)]
        if not reduced and not stored:
            return
        operands = [form.nodes[index].operands[0] for index in reduced]
        self.lines += [f"S v{index} = {_REDUCED[self._kind(index)][0]};" for index in reduced]
        before = set(self.made)
        body = self._values([*operands, *map(form.last, stored)])
        for index, operand in zip(reduced, operands, strict=True):
            body.append(_REDUCED[self._kind(index)][1].format(f"v{index}", self._name(operand)))
        body += [f"{name}[{self._place(form.axes[name])}] = {self._cleared(name)};" for name in stored]
        self.lines += ["FOR_EACH_OF(i, end) {", *indented(body), "}"]
        self.made = before | set(reduced)
        for index in reduced:
            divisor = " / columns" if form.nodes[index].function == "mean" else ""
            self.lines.append(f"v{index} = {_REDUCED[self._kind(index)][2].format(f'v{index}')}{divisor};")

    def _kind(self, index: int) -> str:
        return "max" if self.form.nodes[index].function == "max" else "sum"

    def _is_reduced_at(self, index: int, depth: int) -> bool:
        node = self.form.nodes[index]
        return node.function in REDUCTIONS and self.form.depth_of(node.operands[0]) == depth

    def _is_stored_at(self, output: str, depth: int) -> bool:
        value = self.form.last(output)
        return not self._is_of_row(self.form.axes[output]) and self.form.depth_of(value) == depth

    def _stores_of_row(self, outputs: Sequence[str], depth: int) -> None:
        found = [
            f"{name}[{self._place(self.form.axes[name])}] = {self._cleared(name)};"
            for name in outputs
            if self._is_of_row(self.form.axes[name]) and self.form.depth_of(self.form.last(name)) == depth
        ]
        if found:
            self.lines += ["if (row < rows && threadIdx.x == 0) {", *indented(found), "}"]

    def totals(self) -> str:
        """One that adds up what belongs to each element of an output, along a row of threads."""
        outputs = self.form.totals
        body, operands = self._summands(outputs)
        lines = ["  FOR_EACH_ROW(row, end, rows, columns) {"]
        lines += [f"    S t{place} = 0;" for place in range(len(outputs))]
        lines += ["    FOR_EACH_OF(i, end) {", *indented(indented(indented(body)))]
        lines += [f"      t{place} += {operand};" for place, operand in enumerate(operands)]
        lines += ["    }", *(f"    t{place} = row_sum(t{place});" for place in range(len(outputs)))]
        lines.append("    if (row < rows && threadIdx.x == 0) {")
        lines += [f"      {name}[row] = t{place};" for place, name in enumerate(outputs)]
        return self._kernel(f"{self.form.kernel.name}_sums", outputs, [*lines, "    }"])

    def tiles(self) -> str:
        """One that adds up columns for parts of the rows, whose sums `add_parts` of `columns.cuh` adds."""
        outputs = self.form.totals
        body, operands = self._summands(outputs)
        lines = [
            "  const Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x, end = columns;",
            "  const Index first = (Index)blockIdx.y * blockDim.y + threadIdx.y;",
            "  const Index step = (Index)gridDim.y * blockDim.y;",
            *(f"  S t{place} = 0;" for place in range(len(outputs))),
            "  if (i < end)",
            "    for (Index row = first; row < rows; row += step) {",
            *indented(indented(indented(body))),
            *(f"      t{place} += {operand};" for place, operand in enumerate(operands)),
            "    }",
            *(f"  t{place} = over_column(t{place});" for place in range(len(outputs))),
            "  if (i < end && threadIdx.y == 0) {",
            *(f"    {name}[blockIdx.y * columns + i] = t{place};" for place, name in enumerate(outputs)),
        ]
        return self._kernel(f"{self.form.kernel.name}_sums", outputs, lines, "S")

    def _summands(self, outputs: Sequence[str]) -> tuple[list[str], list[str]]:
        """The lines that lead to what sums over rows add, and its names."""
        form = self.form
        totals = [form.nodes[value.index] for value in map(form.last, outputs) if isinstance(value, Ref)]
        operands = [node.operands[0] for node in totals]
        assert all(form.depth_of(item) == 0 for item in operands), "a sum over rows needs a reduction first"
        return self._values(operands), [self._name(item) for item in operands]

    def _kernel(self, name: str, outputs: Iterable[str], lines: Sequence[str], kind: str = "T") -> str:
        labels = {label.name for label in self.form.labels}
        given = [f"const {'Index' if array in labels else 'T'}* {array}" for array in self.form.inputs]
        sizes = [f"size_{axis}" for axis in self.form.kernel.axes]
        ignored = {label.ignored for label in self.form.labels}
        parameters = [
            *given,
            *(f"{kind}* {output}" for output in outputs),
            *(f"Index {size}" for size in ("rows", "columns", *sizes)),
            *(f"{'Index' if number in ignored else 'S'} {number}" for number in self.form.numbers),
        ]
        return "\n".join(
            [f'extern "C" __global__ void {name}({", ".join(parameters)}) {{', *lines, "  }", "}", ""]
        )

    # ------------------------------------------------------------------ values
    def _is_of_row(self, axes: str) -> bool:
        return not set(axes) & set(self.inner)

    def _numbers(self, needed: Sequence[int], depth: int) -> None:
        """The numbers of a row that are known ahead of a sweep."""
        for index in needed:
            node = self.form.nodes[index]
            if node.depth == depth and self._is_of_row(node.axes) and index not in self.made:
                self.lines += self._picked(index, node) if node.function == "pick" else [self._line(index)]
                self.made.add(index)

    def _picked(self, index: int, node: RowNode) -> list[str]:
        """The element at a label, computed by all threads of the row: NaN where the label is no column."""
        before = set(self.made)
        source, label = node.operands
        lines = [f"const Index i = at_{label};", *self._values([source]), f"v{index} = {self._name(source)};"]
        self.made = before
        return [f"S v{index} = NAN;", "if (is_column) {", *indented(lines), "}"]

    def _values(self, values: Iterable[RowOperand]) -> list[str]:
        """The lines that compute values from what there is, of an element at `i`."""
        found = []
        for index in self.form.needed_by(values, self.made):
            found.append(self._line(index))
            self.made.add(index)
        return found

    def _line(self, index: int) -> str:
        node = self.form.nodes[index]
        kind = "bool" if node.function in PREDICATES else self.number
        return f"const {kind} v{index} = {self._expression(node)};"

    def _expression(self, node: RowNode) -> str:
        if node.function == "load":
            name = str(node.operands[0])
            element = f"{name}[{self._place(node.axes)}]"
            # rows beyond the last one have threads, too
            return (
                f"end ? (S){element} : (S)0" if self._is_of_row(node.axes) and node.axes else f"(S){element}"
            )
        names = [self._name(operand) for operand in node.operands]
        if node.function == "put":
            return f"i == at_{names[1]} ? {names[2]} : {names[0]}"
        return FUNCTIONS[node.function][1].format(*names)

    def _name(self, operand: RowOperand) -> str:
        if isinstance(operand, Ref):
            return f"v{operand.index}"
        if isinstance(operand, str):
            return operand
        kind = "bool" if isinstance(operand, bool) else self.number
        return f"({kind}){_literal(operand)}"

    def _cleared(self, output: str) -> str:
        name = self._name(self.form.last(output))
        if output not in self.form.kernel.cleared:
            return name
        return f"is_kept ? {name} : (S)0"

    # ------------------------------------------------------------------ places
    def _place(self, axes: str) -> str:
        """The index of an element in an array with some axes."""
        if not axes:
            return "0"
        if axes in (self.outer, self.inner):
            return "row" if axes == self.outer else "i"
        if axes == self.outer + self.inner:
            return "row * columns + i"
        text = ""
        for axis in axes:
            text = (
                self._coordinate(axis) if not text else f"({text}) * size_{axis} + {self._coordinate(axis)}"
            )
        return text

    def _coordinate(self, axis: str) -> str:
        """The place along one axis."""
        variable, axes = ("row", self.outer) if axis in self.outer else ("i", self.inner)
        _, _, behind = axes.partition(axis)
        text = f"{variable} / ({' * '.join(f'size_{other}' for other in behind)})" if behind else variable
        return text if axes[0] == axis else f"{text} % size_{axis}"


def _literal(number: float) -> str:
    return NOT_FINITE_NUMBERS.get(str(number), repr(number).lower())


def indented(lines: Iterable[str]) -> list[str]:
    """The lines of a block."""
    return [f"  {line}" for line in lines]
