"""Layers of click-through models: shows and clicks, samples by tag."""

from __future__ import annotations

from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["continuous_value_model", "filter_by_instag"]


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Features [N, D] whose first two columns are shows and clicks: with `use_cvm` they become log(shows + 1)
    and log(clicks + 1) - log(shows + 1), without it they are cut off.

    `cvm` [batch, 2] are the shows and clicks that travel back to the first two columns as their gradient.
    """
    helper = LayerHelper("cvm")
    out = helper.create_variable(dtype=input.dtype)
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64"], "cvm")
    helper.append_op(
        type="cvm", inputs={"X": [input], "CVM": [cvm]}, outputs={"Y": [out]}, attrs={"use_cvm": use_cvm}
    )
    return out


def filter_by_instag(
    ins: Variable, ins_tag: Variable, filter_tag: Variable, is_lod: bool, out_val_if_empty: int = 0
) -> tuple[Variable, Variable]:
    """The samples that carry one of the tags `filter_tag`, and a weight of 1 for each of them.

    A sample is a sequence of `ins` where `is_lod`, else a row; the tags of sample i are sequence i of
    `ins_tag`. Where no sample is left, there is one row of `out_val_if_empty`, with a weight of 0.
    """
    helper = LayerHelper("filter_by_instag")
    out = helper.create_variable_for_type_inference(dtype=ins.dtype)
    weight = helper.create_variable_for_type_inference(dtype=VarType.FP64)
    index = helper.create_variable_for_type_inference(dtype=ins_tag.dtype)
    helper.append_op(
        type="filter_by_instag",
        inputs={"Ins": ins, "Ins_tag": ins_tag, "Filter_tag": filter_tag},
        outputs={"Out": out, "LossWeight": weight, "IndexMap": index},
        attrs={"is_lod": is_lod, "out_val_if_empty": out_val_if_empty},
    )
    return out, weight
