"""Element-wise ops, declared once as scalar expressions.

    unary(
        "leaky_relu",
        "where(x > 0, x, alpha * x)",
        grad="where(x > 0, dout, alpha * dout)",
        attrs={"alpha": 0.02},
    )

From the text come the portable kernel (NumPy or CuPy calls), the steps that a plan fuses, the CUDA text of a
fused kernel, and the slots that the gradient op reads: `x` is slot X, `out` is Out, `dout` is Out@GRAD.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import REAL_PARTS, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.records import dataclass
from fluidlite.base.registry import Op, Spec, grad_name
from fluidlite.values.tensor import SelectedRows

__all__ = [
    "FUNCTIONS",
    "ROUNDED",
    "ExprNode",
    "ScalarExpr",
    "binary_names",
    "is_one_number",
    "parse",
    "unary",
]

# name -> (array function, CUDA text); an array function is called with the array module and the operands
FUNCTIONS: dict[str, tuple[str, str]] = {
    "exp": ("exp", "exp({0})"),
    "expm1": ("expm1", "expm1({0})"),
    "log": ("log", "log({0})"),
    "log1p": ("log1p", "log1p({0})"),
    "sqrt": ("sqrt", "sqrt({0})"),
    "square": ("square", "({0} * {0})"),
    "abs": ("abs", "fabs({0})"),
    "sign": ("sign", "({0} != {0} ? {0} : ({0} > 0) - ({0} < 0))"),
    "floor": ("floor", "floor({0})"),
    "ceil": ("ceil", "ceil({0})"),
    "rint": ("rint", "rint({0})"),
    "sin": ("sin", "sin({0})"),
    "cos": ("cos", "cos({0})"),
    "tan": ("tan", "tan({0})"),
    "asin": ("arcsin", "asin({0})"),
    "acos": ("arccos", "acos({0})"),
    "atan": ("arctan", "atan({0})"),
    "sinh": ("sinh", "sinh({0})"),
    "cosh": ("cosh", "cosh({0})"),
    "tanh": ("tanh", "tanh({0})"),
    # NaN if one of the numbers is, as NumPy has it; CUDA's own max and min drop it
    "maximum": ("maximum", "({0} > {1} || {0} != {0} ? {0} : {1})"),
    "minimum": ("minimum", "({0} < {1} || {0} != {0} ? {0} : {1})"),
    "pow": ("power", "pow({0}, {1})"),
    "where": ("where", "(({0}) ? ({1}) : ({2}))"),
    "add": ("add", "({0} + {1})"),
    "sub": ("subtract", "({0} - {1})"),
    "mul": ("multiply", "({0} * {1})"),
    "div": ("divide", "({0} / {1})"),
    "neg": ("negative", "(-{0})"),
    "gt": ("greater", "({0} > {1})"),
    "ge": ("greater_equal", "({0} >= {1})"),
    "lt": ("less", "({0} < {1})"),
    "le": ("less_equal", "({0} <= {1})"),
    "eq": ("equal", "({0} == {1})"),
    "ne": ("not_equal", "({0} != {1})"),
    "both": ("logical_and", "({0} && {1})"),
    "either": ("logical_or", "({0} || {1})"),
    "invert": ("logical_not", "(!{0})"),
    "differ": ("logical_xor", "(!{0} != !{1})"),
    "fmod": ("fmod", "fmod({0}, {1})"),
    "mod": ("remainder", "({0} - floor({0} / {1}) * {1})"),
    "floordiv": ("floor_divide", "floor({0} / {1})"),
    "isnan": ("isnan", "isnan({0})"),
    "erf": ("erf", "erf({0})"),
}
PREDICATES = frozenset(("gt", "ge", "lt", "le", "eq", "ne", "both", "either", "invert", "differ", "isnan"))
# functions of numbers that have an order; the sign of a complex number is its direction
_ORDERING = frozenset(("gt", "ge", "lt", "le", "maximum", "minimum", "abs", "floor", "ceil", "rint", "erf"))
_OPERATORS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.USub: "neg",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.BitAnd: "both",
    ast.BitOr: "either",
    ast.Mod: "mod",
    ast.FloorDiv: "floordiv",
}
_MACROS: dict[str, str] = {"sigmoid": "1 / (1 + exp(-{0}))", "rsqrt": "1 / sqrt({0})"}


_SLOT_NAMES = {"X": "x", "Out": "out", "dOut": "dout", "Y": "y"}
# arithmetic on attributes alone stays plain Python: an array function would give a float64, which makes
# float32 results float64
_PLAIN = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
}


@dataclass(frozen=True)
class ExprNode:
    """One step of an expression: a function of operands, each a name, a number, or the index of an earlier
    node.
    """

    function: str
    operands: tuple[str | float | int | Ref, ...]

    @property
    def parts(self) -> tuple[str, tuple[str | float | int | Ref, ...]]:
        """Both of them."""
        return self.function, self.operands


@dataclass(frozen=True)
class Ref:
    """The result of node `index`."""

    index: int


def called_by(tree: ast.expr) -> tuple[str, list[ast.expr]]:
    """The function that an expression calls, and its operands; ValueError for what calls none."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        function, operands = tree.func.id, tree.args
    elif isinstance(tree, ast.BinOp):
        function, operands = _OPERATORS[type(tree.op)], [tree.left, tree.right]
    elif isinstance(tree, ast.UnaryOp):
        function, operands = _OPERATORS[type(tree.op)], [tree.operand]
    elif isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        function, operands = _OPERATORS[type(tree.ops[0])], [tree.left, tree.comparators[0]]
    else:
        raise ValueError(f"not a scalar expression: {ast.unparse(tree)}")
    # written out here, so that kernels, passes and CUDA text know the plain functions alone
    if function in _MACROS:
        text = _MACROS[function].format(*(f"({ast.unparse(operand)})" for operand in operands))
        return called_by(ast.parse(text, mode="eval").body)
    if function == "pow" and isinstance(operands[1], ast.Constant) and operands[1].value == 2:
        # one multiplication, where a general power takes a logarithm and an exponential
        return "square", operands[:1]
    return function, operands


_NEUTRAL = {"mul": (1, True), "div": (1, False), "add": (0, True), "sub": (0, False)}
"""Function -> the number that leaves the other operand as it is, and whether it may be the first one."""


def folded(function: str, operands: Sequence[Any]) -> Any:
    """The value of a function that need not be computed: a number if its operands are, or the operand
    that it leaves as it is; None where it has to be computed.
    """
    are_numbers = [isinstance(item, int | float) for item in operands]
    if function in FUNCTIONS and all(are_numbers):
        return getattr(np, FUNCTIONS[function][0])(*operands).item()
    neutral, either = _NEUTRAL.get(function, (None, False))
    if are_numbers[-1] and operands[-1] == neutral:
        return operands[0]
    return operands[1] if either and are_numbers[0] and operands[0] == neutral else None


class ScalarExpr:
    """A parsed scalar expression: `names` it reads, `nodes` in order of evaluation, `result` (a Ref, a
    name or a number).
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        self.nodes: list[ExprNode] = []
        self.result = self._visit(ast.parse(text, mode="eval").body)

    @property
    def ends_in_choice(self) -> bool:
        """True if the last function to be computed is `where`."""
        return bool(self.nodes) and self.nodes[-1].function == "where"

    @property
    def compares(self) -> bool:
        """True if the numbers must have an order, which complex ones do not."""
        return any(node.function in _ORDERING for node in self.nodes)

    def _visit(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Name):
            if tree.id not in self.names:
                self.names.append(tree.id)
            return tree.id
        if isinstance(tree, ast.Constant):
            return tree.value
        function, operands = called_by(tree)
        if function not in FUNCTIONS:
            raise ValueError(f"scalar expression {self.text!r}: unknown function {function!r}")
        if function == "neg" and isinstance(operands[0], ast.Constant):
            value: Any = operands[0].value
            return -value
        return self._node(function, tuple(self._visit(operand) for operand in operands))

    def _node(self, function: str, operands: tuple[Any, ...]) -> Ref:
        node = ExprNode(function, operands)
        # a subexpression written twice is computed once
        if node in self.nodes:
            return Ref(self.nodes.index(node))
        self.nodes.append(node)
        return Ref(len(self.nodes) - 1)

    def python(self) -> str:
        """The expression as calls on an array module `xp`."""
        return self._python(self.result)

    def _python(self, operand: Any) -> str:
        if isinstance(operand, Ref):
            node = self.nodes[operand.index]
            if node.function in _PLAIN and not self._reads_array(operand):
                return _PLAIN[node.function].format(*map(self._python, node.operands))
            arguments = ", ".join(self._python(item) for item in node.operands)
            if node.function == "erf":
                return f"erf(xp, {arguments})"
            return f"xp.{FUNCTIONS[node.function][0]}({arguments})"
        return repr(operand) if not isinstance(operand, str) else operand

    def _reads_array(self, operand: Any) -> bool:
        if isinstance(operand, Ref):
            return any(map(self._reads_array, self.nodes[operand.index].operands))
        return operand in _SLOT_NAMES.values()

    def cuda(self) -> str:
        """The expression as CUDA C, over scalars of the same names."""
        return self._cuda(self.result)

    def _cuda(self, operand: Any) -> str:
        if isinstance(operand, Ref):
            node = self.nodes[operand.index]
            return FUNCTIONS[node.function][1].format(*(self._cuda(item) for item in node.operands))
        return f"T({operand!r})" if not isinstance(operand, str) else operand


@functools.cache
def parse(text: str) -> ScalarExpr:
    """The parsed expression; the same text is parsed once."""
    return ScalarExpr(text)


def erf(xp: Any, x: Any) -> Any:
    """The error function, from SciPy or from CuPy's copy of it."""
    # imported when it is called: SciPy is slow to start, and few programs need it
    if xp.__name__ == "numpy":
        from scipy import special
    else:
        from cupyx.scipy import special  # type: ignore[import-not-found,no-redef]
    return special.erf(x)


def function_of(expr: str, parameters: Sequence[str], rename: Mapping[str, str]) -> Callable[..., Any]:
    """A Python function `f(xp, *parameters)` that evaluates `expr`; `rename` maps parameters to the
    expression's names.
    """
    body = "".join(f"    {rename[name]} = {name}\n" for name in parameters if rename.get(name, name) != name)
    source = f"def kernel({', '.join(['xp', *parameters])}):\n{body}    return {parse(expr).python()}\n"
    namespace: dict[str, Any] = {"erf": erf}
    exec(compile(source, f"<fluidlite scalar expression {expr}>", "exec"), namespace)
    function: Callable[..., Any] = namespace["kernel"]
    return function


def parameters_of(expr: str) -> list[str]:
    """The kernel parameters that an expression needs: slots for x, y, out, dout, and attributes under
    their own names.
    """
    slots = {value: key for key, value in _SLOT_NAMES.items()}
    return [slots.get(name, name) for name in parse(expr).names]


def binary_names() -> Mapping[str, str]:
    """Slot -> name inside an expression."""
    return _SLOT_NAMES


def unary(
    type: str,
    expr: str,
    grad: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    dtype: VarType | None = None,
    whole: bool = False,
    **facts: Any,
) -> Op:
    """An op `X -> Out` that applies `expr` to every element; `grad` is the derivative's expression of x,
    out and dout. `whole`: it takes integers, too. `facts` are fields of the Op.
    """
    op = Op(type, "X -> Out" if whole else "X. -> Out", attrs=attrs or {}, **facts)
    op.shape(_like_x(type, dtype, parse(expr).compares))
    parameters = parameters_of(expr)
    # the result has the shape of X even where the expression does not read it
    if "X" not in parameters:
        parameters.append("X")
    op.kernel(_keeping_integers(type, function_of(expr, parameters, _SLOT_NAMES), dtype))
    op.expr = expr
    if grad is not None:
        needed = parameters_of(grad)
        # likewise: a gradient looks like the one that comes in
        if "dOut" not in needed:
            needed.append("dOut")
        grad_op = op.grad("X", shape=_like_out_grad)(function_of(grad, needed, _SLOT_NAMES))
        grad_op.lod_of_2x = grad_name("Out")
        grad_op.expr = grad
        op.grad_exprs = {"X": grad}
    return op


def _like_x(type: str, dtype: VarType | None, compares: bool) -> Callable[..., Spec]:
    """The shape rule of such an op: rows of a table stay rows of a table. ShapeError for complex numbers
    where the op `compares` them, which have no order.
    """

    def rule(X: Spec) -> Spec:
        if compares and X.dtype in REAL_PARTS:
            raise ShapeError(f"op {type!r} takes no complex numbers, but X is {X.dtype.name}")
        return Spec(X.shape, X.dtype if dtype is None else dtype, kind=X.kind)

    return rule


# functions whose float32 versions in NumPy are off by a bit now and then, where C's are rounded: learning
# rates are made of them, one number a step
ROUNDED = frozenset(("exp", "log", "cos", "pow", "elementwise_pow"))


def is_one_number(x: Any) -> bool:
    """True for a float32 array of one element."""
    return bool(x.size == 1 and x.dtype == np.float32)


def _keeping_integers(type: str, function: Callable[..., Any], dtype: VarType | None) -> Callable[..., Any]:
    """`function`, with integers in and integers out: NumPy's functions of integers give float64, C++'s are
    cut off. Of selected rows, each row's elements.
    """

    @functools.wraps(function)
    def kernel(xp: Any, *operands: Any, **attrs: Any) -> Any:
        x: Any = attrs.get("X", operands[0] if operands else None)
        if isinstance(x, SelectedRows):
            return SelectedRows(x.ids, x.height(), kernel(xp, **{**attrs, "X": x.array}))
        if type in ROUNDED and is_one_number(x):
            return kernel(xp, **{**attrs, "X": x.astype("float64")}).astype(x.dtype)
        out = function(xp, *operands, **attrs)
        cut_off = dtype is None and x.dtype.kind in "iu" and out.dtype != x.dtype
        return out.astype(x.dtype) if cut_off else out

    return kernel


def _like_out_grad(dOut: Spec) -> Spec:
    return Spec(dOut.shape, dOut.dtype)
