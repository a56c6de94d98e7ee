"""The surroundings that kernels and gradient rules are given, as they see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["GradContext", "KernelContext"]


class KernelContext(Protocol):
    """The run that a kernel is part of: random generators, scope, other ranks."""

    op: Any  # the Operator
    scope: Any  # the Scope of the run
    place: Any
    threads: int
    compiled: Any  # recurrences in one call (`fluidlite.ops.kernels.compiled_steps`), or None
    searches: Any  # compiled searches of the host (paths, distances, boxes that are kept), or None
    unread: frozenset[str]  # output slots that nobody reads, and that need no value
    fixed: frozenset[str]  # input slots of persistable variables that the program does not write
    spare: frozenset[str]  # input slots whose arrays nobody reads any more, and that may be written over

    def rng(self, seed: int) -> Any:
        """A random source: fresh and reproducible for a seed other than 0, else the run's own."""

    def share(self, count: int, task: Callable[[slice], None]) -> None:
        """Run `task` on slices that together are `count` rows, each on a thread of its own where the run has
        more than one.
        """

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks that run this program together, in order; the value alone where there is
        one.
        """


class GradContext(Protocol):
    """The forward op that a gradient rule (`@op.grad_rule("X Y")`) reads, and the place for its gradient ops.

        @dropout.grad_rule("X")
        def _(context: GradContext) -> None:
            inputs = {"Mask": context.output("Mask"), "Out@GRAD": context.out_grad("Out")}
            context.emit("dropout_grad", inputs, {"X@GRAD": context.in_grad("X")})

    A rule is called once for each forward op on the way to the loss, last op first, and emits its ops in the
    order in which they run. It never adds up partial gradients: `fluidlite.backward` renames and sums them.
    """

    op: Any  # the forward Operator
    forward: Any  # the same as it stands in the program, where `op` has names for versions of variables
    grad_block: Any  # the Block with the gradient ops of the op's sub-block; None without one
    no_grad: Any  # names of the gradients that must not be made (a set)
    older: Any  # names of the variables that have a value before the op writes them (a set)

    def input(self, slot: str) -> list[str]:
        """Names in an input slot of the forward op; empty where the slot is absent."""

    def may_vary(self, slot: str) -> bool:
        """True if an input slot holds variables, and all of them elements that are real numbers."""

    def output(self, slot: str) -> list[str]:
        """Names in an output slot of the forward op; empty where the slot is absent."""

    def out_grad(self, slot: str) -> list[str]:
        """Names of the gradients of the variables in an output slot."""

    def in_grad(self, slot: str) -> list[str]:
        """Names of the gradients to write for an input slot, with "@EMPTY@" for those that nobody needs."""

    def has_gradient(self, name: str, made: Any) -> bool:
        """True if the gradient of a variable is among the names `made`, and somebody needs it."""

    def is_floating(self, slot: str) -> bool:
        """True if the variables in an input slot hold floating-point numbers."""

    def emit(
        self,
        type: str,
        inputs: Mapping[str, list[str]],
        outputs: Mapping[str, list[str]],
        attrs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Add a gradient op; `attrs` None copies the forward op's. Role, device, name scope and user line
        are set.
        """

    def default(self) -> Any:
        """Add the op that `Op.grad` declared: the slots its kernel reads, and X@GRAD for each slot of
        `wrt`.
        """
