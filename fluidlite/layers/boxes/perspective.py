"""The layer that pulls quadrilaterals of an image, as text lies in it, into rectangles."""

from __future__ import annotations

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["roi_perspective_transform"]


def roi_perspective_transform(
    input: Variable,
    rois: Variable,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Quadrilaterals `rois` [R, 8], corners clockwise from the upper left, pulled into rectangles.

    Gives the rectangles [R, C, height, width], where they have a source in the input [R, 1, height, width],
    and the maps from rectangles to the input [R, 9].
    """
    check_variable_and_dtype(input, "input", ["float32"], "roi_perspective_transform")
    check_variable_and_dtype(rois, "rois", ["float32"], "roi_perspective_transform")
    check_type(transformed_height, "transformed_height", int, "roi_perspective_transform")
    check_type(transformed_width, "transformed_width", int, "roi_perspective_transform")
    check_type(spatial_scale, "spatial_scale", float, "roi_perspective_transform")
    helper = LayerHelper("roi_perspective_transform", name=name)
    dtypes = {
        "Out": input.dtype,
        "Mask": "int32",
        "TransformMatrix": input.dtype,
        "Out2InIdx": "int32",
        "Out2InWeights": input.dtype,
    }
    outputs = {slot: helper.create_variable_for_type_inference(dtype=dtype) for slot, dtype in dtypes.items()}
    helper.append_op(
        type="roi_perspective_transform",
        inputs={"X": input, "ROIs": rois},
        outputs=outputs,
        attrs={
            "transformed_height": transformed_height,
            "transformed_width": transformed_width,
            "spatial_scale": spatial_scale,
        },
    )
    return outputs["Out"], outputs["Mask"], outputs["TransformMatrix"]
