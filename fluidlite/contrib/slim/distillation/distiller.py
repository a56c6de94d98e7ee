"""`fluid.contrib.slim.distillation.distiller`: losses by which a model learns from a larger one.

A distiller adds its loss to the output "loss" of a graph that holds both models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.contrib.slim.distillation.distillation_strategy import DistillationStrategy
from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper
from fluidlite.framework import Program, Variable, program_guard
from fluidlite.layers.arithmetic.elementwise import sum as add_up
from fluidlite.layers.arithmetic.reduce import reduce_mean, softmax
from fluidlite.layers.loss import cross_entropy
from fluidlite.layers.neural.criteria import fsp_matrix
from fluidlite.layers.ops import square

__all__ = [
    "DistillationStrategy",
    "FSPDistiller",
    "FSPDistillerPass",
    "L2Distiller",
    "L2DistillerPass",
    "SoftLabelDistiller",
    "SoftLabelDistillerPass",
]


class _Distiller:
    """A loss between two models, as a distiller and as the pass that adds it; `weight` multiplies it."""

    def __init__(self, weight: float) -> None:
        self.distillation_loss_weight = weight

    def distiller_loss(self, graph: GraphWrapper) -> GraphWrapper:
        """Add the loss to the graph's output "loss", and return the graph."""
        return self.apply(graph)

    def apply(self, graph: GraphWrapper) -> GraphWrapper:
        """Add the loss to the graph's output "loss", and return the graph."""
        with program_guard(graph.program, Program()):
            loss = self._loss(graph) * self.distillation_loss_weight
            graph.out_nodes[self._name()] = loss.name
            if "loss" in graph.out_nodes:
                loss = loss + graph.var(graph.out_nodes["loss"])._var
            graph.out_nodes["loss"] = loss.name
        return graph

    def _name(self) -> str:
        raise AssertionError(f"{type(self).__name__} does not define the name of its loss")

    def _loss(self, graph: GraphWrapper) -> Variable:
        raise AssertionError(f"{type(self).__name__} does not define its loss")


class L2Distiller(_Distiller):
    """The mean of the squared differences between a feature map of the student and one of the teacher."""

    def __init__(
        self, student_feature_map: str, teacher_feature_map: str, distillation_loss_weight: float = 1
    ) -> None:
        super().__init__(distillation_loss_weight)
        self.student_feature_map, self.teacher_feature_map = student_feature_map, teacher_feature_map

    def _name(self) -> str:
        return f"l2loss_{self.student_feature_map}_{self.teacher_feature_map}"

    def _loss(self, graph: GraphWrapper) -> Variable:
        student = graph.var(self.student_feature_map)._var
        teacher = graph.var(self.teacher_feature_map)._var
        return _mean_square(student, teacher)


class FSPDistiller(_Distiller):
    """The mean squared difference between the matrices of the flow of solution procedure (Yim, Joo, Bae and
    Kim 2017), the products of two feature maps over all places, of the student and of the teacher.

    Parameters
    ----------
    student_pairs, teacher_pairs: pairs of names of feature maps with the same height and width.
    """

    def __init__(
        self,
        student_pairs: Sequence[Sequence[str]],
        teacher_pairs: Sequence[Sequence[str]],
        distillation_loss_weight: float = 1,
    ) -> None:
        super().__init__(distillation_loss_weight)
        self.student_pairs, self.teacher_pairs = student_pairs, teacher_pairs

    def _name(self) -> str:
        return "fsp_distillation_loss"

    def _loss(self, graph: GraphWrapper) -> Variable:
        losses = []
        for student, teacher in zip(self.student_pairs, self.teacher_pairs, strict=True):
            matrices = [
                fsp_matrix(graph.var(one[0])._var, graph.var(one[1])._var) for one in (student, teacher)
            ]
            losses.append(_mean_square(*matrices))
        total: Variable = add_up(losses)
        return total


class SoftLabelDistiller(_Distiller):
    """The cross entropy of the student's probabilities with the teacher's, each made of logits over a
    temperature (Hinton, Vinyals and Dean 2015).
    """

    def __init__(
        self,
        student_feature_map: str | None = None,
        teacher_feature_map: str | None = None,
        student_temperature: float = 1.0,
        teacher_temperature: float = 1.0,
        distillation_loss_weight: float = 1,
    ) -> None:
        super().__init__(distillation_loss_weight)
        self.student_feature_map, self.teacher_feature_map = student_feature_map, teacher_feature_map
        self.student_temperature, self.teacher_temperature = student_temperature, teacher_temperature

    def _name(self) -> str:
        return f"soft_label_loss_{self.student_feature_map}_{self.teacher_feature_map}"

    def _loss(self, graph: GraphWrapper) -> Variable:
        student = graph.var(str(self.student_feature_map))._var
        teacher = graph.var(str(self.teacher_feature_map))._var
        probable = softmax(student / self.student_temperature)
        wanted = softmax(teacher / self.teacher_temperature)
        wanted.stop_gradient = True
        loss: Variable = reduce_mean(cross_entropy(probable, wanted, soft_label=True))
        return loss


def _mean_square(student: Any, teacher: Any) -> Variable:
    loss: Variable = reduce_mean(square(student - teacher))
    return loss


# 1.8.5 has passes beside the distillers, with the same arguments
L2DistillerPass = L2Distiller
FSPDistillerPass = FSPDistiller
SoftLabelDistillerPass = SoftLabelDistiller
