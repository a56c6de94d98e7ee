"""Specs for an op's rules, and those of its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.errors import ShapeError
from fluidlite.base.gradient_names import GRAD_SUFFIX
from fluidlite.base.open_sizes import closed, opened
from fluidlite.base.specs import Spec

__all__ = ["spec_arguments", "specs_of_gradient", "with_known_sizes"]


def spec_arguments(
    op: Any, rule: str, specs: Mapping[str, list[Spec | None]], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a rule of an op: specs of slots, attributes; ShapeError for an empty input slot that
    has to be filled.
    """
    arguments: dict[str, Any] = {}
    for parameter, kind, key in op.arguments[rule]:
        if kind == "attr":
            arguments[parameter] = attrs.get(key, op.attr_defs[key].default)
            continue
        if kind not in ("in", "out"):
            continue
        slot = op.inputs[key] if kind == "in" else op.outputs[key]
        found = specs.get(key) or []
        if not found and not slot.optional:
            raise ShapeError(f"op {op.type!r}: input slot {key} is empty")
        found = [_with_open_sizes(spec) for spec in found]
        first = found[0] if found else None
        arguments[parameter] = found if slot.many else first
    return arguments


def specs_of_gradient(op: Any, inputs: Mapping[str, list[Spec | None]]) -> dict[str, list[Spec]]:
    """A gradient has the shape of what it is the gradient of; without that, of the gradient that came in."""
    specs: dict[str, list[Spec]] = {}
    incoming = next((values for name, values in inputs.items() if name.endswith(GRAD_SUFFIX) and values), [])
    for name in op.outputs:
        source = inputs.get(name.removesuffix(GRAD_SUFFIX)) if name.endswith(GRAD_SUFFIX) else None
        source = source or (incoming if name.endswith(GRAD_SUFFIX) else None)
        if source:
            specs[name] = [spec for spec in source if spec is not None]
    return specs


def _with_open_sizes(spec: Any) -> Any:
    return spec if spec is None or -1 not in spec.shape else spec._replace(shape=opened(spec.shape))


def with_known_sizes(spec: Any) -> Any:
    """The spec with -1 for the sizes that a rule may reckon with, and that are not known."""
    return spec if spec is None or -1 not in spec.shape else spec._replace(shape=closed(spec.shape))
