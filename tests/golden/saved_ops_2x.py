"""Ops that saved models of 2.x hold, one program an op, with what PaddlePaddle 2.6.2 computes.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2:

    python -m golden.saved_ops_2x

writes `saved_ops_2x.json.gz`: for each case the bytes of the program, the feeds and the results. Fused ops
run with oneDNN, whose kernels alone read their attributes.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import pathlib
from typing import Any

import numpy as np

PATH = pathlib.Path(__file__).parent / "saved_ops_2x.json.gz"
Case = tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]  # type, inputs, attributes, output slots

RNG = np.random.RandomState(0)
CONV: dict[str, Any] = {
    "strides": [1, 1],
    "paddings": [0, 0],
    "dilations": [1, 1],
    "groups": 1,
    "padding_algorithm": "EXPLICIT",
    "data_format": "NCHW",
    "use_mkldnn": True,
}
ONEDNN = [
    "fused_conv2d",
    "fused_conv3d",
    "fused_matmul",
    "fused_elementwise_add",
    "fused_elementwise_sub",
    "fused_elementwise_mul",
    "fused_elementwise_div",
    "fused_softplus",
    "fused_transpose",
]
NMS: dict[str, Any] = {
    "background_label": -1,
    "score_threshold": 0.05,
    "nms_top_k": 10,
    "nms_threshold": 0.5,
    "keep_top_k": 5,
    "nms_eta": 1.0,
    "normalized": True,
}


def real(*shape: int, scale: float = 1.0) -> Any:
    """Numbers between -scale and scale."""
    return RNG.uniform(-scale, scale, shape).astype("float32")


def boxes(*shape: int) -> Any:
    """Boxes whose corners are in order."""
    corners = RNG.uniform(0, 20, (*shape, 2))
    return np.concatenate([corners, corners + RNG.uniform(1, 10, (*shape, 2))], -1).astype("float32")


def fused_convolutions() -> dict[str, Case]:
    """A bias, a residual and each activation."""
    x, w, b = real(2, 2, 5, 5), real(3, 2, 3, 3), real(3)
    operands = {"Input": x, "Filter": w, "Bias": b}
    settings: dict[str, tuple[float, ...]] = {
        "relu": (),
        "leaky_relu": (0.2,),
        "hard_swish": (1 / 6, 0.5),
        "hard_sigmoid": (0.2, 0.5),
        "swish": (1.5,),
        "sigmoid": (),
        "tanh": (),
        "gelu_tanh": (),
        "gelu_erf": (),
        "mish": (),
        "abs": (),
        "clip": (-0.5, 0.5),
    }
    cases: dict[str, Case] = {"bias": ("fused_conv2d", operands, CONV, ("Output",))}
    for name, values in settings.items():
        given = dict(zip(("fuse_alpha", "fuse_beta"), values, strict=False))
        cases[name] = ("fused_conv2d", operands, {**CONV, "fuse_activation": name, **given}, ("Output",))
    residual = {**CONV, "fuse_activation": "relu", "fuse_residual_connection": True}
    cases["residual"] = (
        "fused_conv2d",
        {**operands, "ResidualData": real(2, 3, 3, 3)},
        residual,
        ("Output",),
    )
    volume = {
        **CONV,
        "strides": [1, 2, 1],
        "paddings": [1, 0, 1],
        "dilations": [1] * 3,
        "data_format": "NCDHW",
    }
    cases["volume"] = (
        "fused_conv3d",
        {"Input": real(1, 2, 4, 5, 4), "Filter": real(3, 2, 2, 3, 3), "Bias": b},
        {**volume, "fuse_activation": "relu"},
        ("Output",),
    )
    return cases


def fused_products() -> dict[str, Case]:
    """Products with transpositions, residuals, activations."""
    x, y = real(2, 3, 4), real(2, 4, 5)
    out = ("Out",)
    return {
        "matmul": ("fused_matmul", {"X": x, "Y": y}, {"matmul_alpha": 0.5, "fuse_activation": "tanh"}, out),
        "matmul turned": ("fused_matmul", {"X": real(2, 4, 3), "Y": y}, {"trans_x": True}, out),
        "matmul residual": (
            "fused_matmul",
            {"X": x, "Y": y, "ResidualData": real(2, 3, 5)},
            {"fuse_activation": "relu", "fused_output_scale": 2.0},
            out,
        ),
        "matmul reshaped": (
            "fused_matmul",
            {"X": real(2, 3, 8), "Y": real(2, 2, 4, 5)},
            {
                "fused_reshape_X": [0, 0, 2, 4],
                "fused_transpose_X": [0, 2, 1, 3],
                "fused_transpose_Out": [0, 2, 1, 3],
                "fused_reshape_Out": [0, 0, 10],
            },
            out,
        ),
    }


def fused_others() -> dict[str, Case]:
    """Elementwise ops, softplus, transpose."""
    x, y, out = real(2, 3, 4), real(3, 4, scale=2.0), ("Out",)
    cases: dict[str, Case] = {
        f"elementwise_{name}": (
            f"fused_elementwise_{name}",
            {"X": x, "Y": y},
            {"axis": -1, "fuse_activation": activation, "fused_output_scale": scale},
            out,
        )
        for name, activation, scale in (
            ("add", "relu", 1.0),
            ("sub", "tanh", 0.5),
            ("mul", "", 3.0),
            ("div", "abs", 1.0),
        )
    }
    cases["softplus"] = ("fused_softplus", {"X": x}, {"beta": 2.0, "fuse_activation": "tanh"}, out)
    cases["transpose"] = (
        "fused_transpose",
        {"X": real(2, 1, 3, 4)},
        {"axis": [2, 0, 1], "fused_squeeze2_axes": [1]},
        ("Out", "XShape"),
    )
    cases["transpose reshaped"] = (
        "fused_transpose",
        {"X": x},
        {"axis": [0, 2, 1], "fused_reshape2_shape": [2, 12]},
        ("Out", "XShape"),
    )
    return cases


def quantised() -> dict[str, Case]:
    """Rounding both ways, both axes."""
    x = real(3, 4, 2, scale=3.0)
    halves = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 3.7, 127.0]], "float32")
    none, four = np.zeros(1, "float32"), np.zeros(4, "float32")
    cases: dict[str, Case] = {}
    for kind in (0, 1):
        rounding = {"bit_length": 8, "round_type": kind}
        for type in ("fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"):
            cases[f"{type} {kind}"] = (type, {"X": halves}, rounding, ("Out", "OutScale"))
        for type in ("fake_channel_wise_quantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"):
            for axis in (0, 1):
                attrs = {**rounding, "quant_axis": axis}
                cases[f"{type} {kind} {axis}"] = (type, {"X": x}, attrs, ("Out", "OutScale"))
        for type in ("quantize_linear", "dequantize_linear"):
            given = x if type[0] == "q" else np.rint(x * 20)
            tensor = {"X": given, "Scale": np.array([2.0], "float32"), "ZeroPoint": none}
            channel = {"X": given, "Scale": abs(x).max((0, 2)), "ZeroPoint": four}
            for axis, inputs in ((-1, tensor), (1, channel)):
                attrs = {"bit_length": 8, "round_type": kind, "quant_axis": axis, "is_test": True}
                cases[f"{type} {kind} {axis}"] = (type, inputs, attrs, ("Y",))
    scales = [np.arange(1, 5).astype("float32"), np.array([2.0], "float32")]
    whole = {"X": np.rint(real(3, 4, 4, 2, scale=100)), "Scales": scales}
    for columns in (1, 2):
        attrs = {"quant_bits": [8, 8], "x_num_col_dims": columns}
        cases[f"dequantize columns {columns}"] = (
            "fake_channel_wise_dequantize_max_abs",
            whole,
            attrs,
            ("Out",),
        )
    attrs = {"quant_bits": [8], "quant_axis": 1}
    cases["dequantize axis"] = (
        "fake_channel_wise_dequantize_max_abs",
        {**whole, "Scales": scales[:1]},
        attrs,
        ("Out",),
    )
    return cases


def detections() -> dict[str, Case]:
    """Heads of detectors that count boxes by image."""
    slots = ("Out", "Index", "NmsRoisNum")
    images = {"BBoxes": boxes(2, 8), "Scores": RNG.uniform(0, 1, (2, 3, 8)).astype("float32")}
    regions = {
        "BBoxes": boxes(9, 3),
        "Scores": RNG.uniform(0, 1, (9, 3)).astype("float32"),
        "RoisNum": np.array([5, 0, 4], "int32"),
    }
    levels = {
        "MultiLevelRois": [boxes(4), boxes(3)],
        "MultiLevelScores": [RNG.uniform(0, 1, (n, 1)).astype("float32") for n in (4, 3)],
        "MultiLevelRoIsNum": [np.array([1, 3], "int32"), np.array([2, 1], "int32")],
    }
    return {
        "nms3": ("multiclass_nms3", images, NMS, slots),
        "nms3 background": (
            "multiclass_nms3",
            images,
            {**NMS, "background_label": 0, "keep_top_k": -1},
            slots,
        ),
        "nms3 pixels": ("multiclass_nms3", images, {**NMS, "normalized": False, "nms_eta": 0.9}, slots),
        "nms3 nothing": ("multiclass_nms3", images, {**NMS, "score_threshold": 2.0}, slots),
        "nms3 regions": ("multiclass_nms3", regions, NMS, slots),
        "collect": ("collect_fpn_proposals", levels, {"post_nms_topN": 5}, ("FpnRois", "RoisNum")),
    }


def renamed() -> dict[str, Case]:
    """Ops that do what others do, too."""
    x, y, out = real(2, 3, 4), real(2, 3, 4), ("Out",)
    resized = {"data_layout": "NCHW", "out_w": 7, "interp_method": "linear", "align_corners": False}
    cases: dict[str, Case] = {
        "grad_add": ("grad_add", {"X": x, "Y": y}, {"axis": -1}, out),
        "two steps": (
            "fused_elemwise_add_activation",
            {"X": x, "Y": y},
            {"functor_list": ["elementwise_add", "relu"], "axis": -1},
            ("Out", "IntermediateOut"),
        ),
        "fill_any": ("fill_any", {"X": x}, {"value": 2.5}, out),
        "copy": ("memcpy_h2d", {"X": x}, {"dst_place_type": 0}, out),
        "lines": ("linear_interp", {"X": x}, {**resized, "align_mode": 0}, out),
        "lines aligned": ("linear_interp", {"X": x}, {**resized, "align_corners": True}, out),
    }
    for kind in ("downgrade_in_infer", "upscale_in_train"):
        attrs = {"dropout_prob": 0.25, "is_test": True, "dropout_implementation": kind, "axis": [0]}
        cases[f"dropout {kind}"] = ("dropout_nd", {"X": x}, attrs, ("Out", "Mask"))
    for normalized, onesided in ((True, True), (False, True)):
        attrs = {"n_fft": 8, "hop_length": 3, "normalized": normalized, "onesided": onesided}
        inputs = {"X": real(2, 20), "Window": abs(real(8))}
        cases[f"stft {normalized} {onesided}"] = ("stft", inputs, attrs, out)
    return cases


def all_cases() -> dict[str, Case]:
    """Name -> case."""
    return {
        **fused_convolutions(),
        **fused_products(),
        **fused_others(),
        **quantised(),
        **detections(),
        **renamed(),
    }


# ---------------------------------------------------------------------- recording
class Recorded:
    """A program that is written op by op; arrays become feeds."""

    def __init__(self) -> None:
        import paddle

        self.paddle = paddle
        self.program = paddle.static.Program()
        self.block = self.program.global_block()
        self.feed: dict[str, Any] = {}

    def data(self, name: str, array: Any) -> Any:
        """A variable that is fed."""
        var = self.block.create_var(
            name=name, shape=array.shape, dtype=str(array.dtype), need_check_feed=False
        )
        var.is_data = True
        self.feed[name] = array
        return var

    def add(self, type: str, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        """One op; kernels of oneDNN are those that heed what fused ops hold."""
        op = self.block.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)
        for name in ("Scale_in", "Scale_out", "Scale_weights", "Scale_in_eltwise"):
            if name in attrs:
                op._set_attr(name, attrs[name])
        if type in ONEDNN or type in ("quantize", "dequantize"):
            op._set_attr("use_mkldnn", True)

    def packed(self, names: list[str]) -> dict[str, Any]:
        """The program, the feeds, and the variables `names` after a run, as the file holds them."""
        data = self.program.desc.serialize_to_string()
        exe = self.paddle.static.Executor()
        found = exe.run(self.program, feed=self.feed, fetch_list=names, return_numpy=False)
        return {
            "program": base64.b64encode(data).decode(),
            "feed": {name: _packed(array) for name, array in self.feed.items()},
            "results": {name: _packed(np.asarray(value)) for name, value in zip(names, found, strict=True)},
        }


def _record(case: Case) -> dict[str, Any]:
    type, inputs, attrs, slots = case
    made = Recorded()
    given: dict[str, Any] = {}
    for slot, arrays in inputs.items():
        each = arrays if isinstance(arrays, list) else [arrays]
        given[slot] = [made.data(f"{slot}_{at}", array) for at, array in enumerate(each)]
    dtype = "complex64" if type == "stft" else "float32"
    outputs = {slot: [made.block.create_var(name=f"out_{slot}", dtype=dtype)] for slot in slots}
    made.add(type, given, outputs, attrs)
    return made.packed([f"out_{slot}" for slot in slots if slot not in ("XShape", "IntermediateOut", "Mask")])


def _eight_bits(activation: str, residual: bool) -> dict[str, Any]:
    """quantize, a convolution of 8-bit numbers, dequantize.

    The numbers are small: processors without instructions for them saturate sums of large ones.
    """
    made = Recorded()
    x, w, b = abs(real(2, 2, 5, 5, scale=0.4)), real(3, 2, 3, 3, scale=0.5), real(3)
    fed = {slot: made.data(slot, array) for slot, array in (("Input", x), ("Filter", w), ("Bias", b))}
    layout = {"output_format": "NCHW"}
    quantised = made.block.create_var(name="quantised", dtype="uint8")
    made.add(
        "quantize",
        {"Input": fed["Input"]},
        {"Output": quantised},
        {"Scale": 255.0, "is_negative_input": False, **layout},
    )
    attrs = {
        **CONV,
        "mkldnn_data_type": "int8",
        "fuse_activation": activation,
        "fuse_residual_connection": residual,
    }
    attrs |= {
        "Scale_in": 255.0,
        "Scale_weights": [100.0, 120.0, 90.0],
        "Scale_out": 50.0,
        "Scale_in_eltwise": 60.0,
    }
    operands = {**fed, "Input": quantised}
    if residual:
        operands["ResidualData"] = made.block.create_var(name="other", dtype="int8")
        fed["other"] = made.data("residual", real(2, 3, 3, 3))
        given = {"Scale": 60.0, "is_negative_input": True, **layout}
        made.add("quantize", {"Input": fed["other"]}, {"Output": operands["ResidualData"]}, given)
    out = made.block.create_var(name="out", dtype="int8" if residual or not activation else "uint8")
    made.add("fused_conv2d", operands, {"Output": out}, attrs)
    back = made.block.create_var(name="back", dtype="float32")
    made.add("dequantize", {"Input": out}, {"Output": back}, {"Scale": 50.0})
    return made.packed(["back"])


def _packed(array: Any) -> list[Any]:
    plain = array.view("float32") if array.dtype == "complex64" else array
    return [str(array.dtype), list(array.shape), plain.ravel().tolist()]


def unpacked(packed: list[Any]) -> Any:
    """The array of a recorded list."""
    dtype, shape, values = packed
    if dtype == "complex64":
        return np.array(values, "float32").view(dtype).reshape(shape)
    return np.array(values, dtype).reshape(shape)


def main() -> None:
    """Record all cases."""
    os.environ["FLAGS_use_mkldnn"] = "1"
    import paddle

    paddle.enable_static()
    recorded = {name: _record(case) for name, case in all_cases().items()}
    for activation, residual in (("", False), ("relu", False), ("relu", True)):
        recorded[f"8 bits {activation} {residual}"] = _eight_bits(activation, residual)
    PATH.write_bytes(gzip.compress(json.dumps(recorded).encode(), mtime=0))


if __name__ == "__main__":
    main()
