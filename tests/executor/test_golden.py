"""Recordings of what PaddlePaddle 1.8.5 built, ran and saved: FluidLite builds, runs and loads the same."""

import pathlib
from typing import Any

import pytest
import test_golden_differences
from golden import harness, models

import fluidlite as fluid

# among the recorded programs are some that are hardly meant
pytestmark = pytest.mark.filterwarnings("ignore::fluidlite.errors.FluidWarning")

CASES = harness.recorded_cases()
BUILT = [name for name in CASES if name in harness.load_cases()]
MOST_LINES = 30
PADDLE_IS_WRONG = set(test_golden_differences.CASES)  # held there, to 1.8.5's fault and to the right numbers


@pytest.mark.parametrize("name", [name for name in CASES if name not in PADDLE_IS_WRONG])
def test_run(name: str) -> None:
    """Paddle's program, started from Paddle's values and fed Paddle's data, gives Paddle's numbers."""
    harness.replay(fluid, harness.Golden(name))


WHERE = "program 0, block 0"
PART = "scale_19.tmp_0@GRAD@RENAME@block0@"


def parameter_of_gradient(place: str, op_type: str, name: str) -> str:
    """A difference: 1.8.5 renames the parameter of the gradient that an op makes with what the op reads."""
    mine = [name, f"{name}@GRAD"]
    theirs = [f"{name}.quantized.dequantized", f"{name}@GRAD"]
    where = f"program 0, block 0, op {place} ({op_type})"
    return f"{where}: attribute op_role_var is {mine}, Paddle has {theirs}"


QUANTISED = [("mul_grad", "fc_0.w_0"), ("conv2d_grad", "conv2d_1.w_0"), ("conv2d_grad", "conv2d_0.w_0")]
# 1.8.5 leaves out what passes through an op whose gradient has no gradient there
DERIVED_TWICE = ("gradient_penalty",)
DECLARED_BETTER = {
    **{
        f"quantised_{how}": [
            parameter_of_gradient(place, *op) for place, op in zip(places, QUANTISED, strict=True)
        ]
        for how, places in (
            ("by_average", ("29", "32", "36")),
            ("by_window", ("30", "33", "37")),
            ("each_time", ("29", "32", "36")),
        )
    },
    # 1.8.5 forgets that an image has several windows, each a row
    "pad_ops": [
        f"{WHERE}: shape of {name}{suffix} is [8, 16], Paddle has [2, 16]"
        for name in ("im2sequence_0.tmp_0", "square_12.tmp_0")
        for suffix in ("", "@GRAD")
    ],
    # 1.8.5 drops the gradient that comes into the cell
    **{
        name: [
            (
                f"program 0, block 0, op {place} (lstm_grad): "
                f"inputs Cell@GRAD is ['{cell}@GRAD'], Paddle has None"
            )
        ]
        for name, place, cell in (
            ("lstm_projected", 29, "lstm_0.tmp_1"),
            ("stacked_lstm", 41, "lstm_2.tmp_1"),
        )
    },
    # 1.8.5 declares one type and computes another, and forgets a column
    "click_through": [
        f"{WHERE}: dtype of filter_by_instag_0.tmp_1 is 5, Paddle has 6",
        f"{WHERE}: shape of filter_by_instag_0.tmp_2 is [-1, 3], Paddle has [-1, 2]",
    ],
    # 1.8.5 takes a length for 1 that it does not know, and sums a partial gradient that no op computes
    "sequence_ops": [
        f"{WHERE}, op 130 (sum): inputs X is ['{PART}0'], Paddle has ['{PART}0', '{PART}1']",
        f"{WHERE}: variable {PART}1 is missing",
        *(
            f"{WHERE}: shape of square_12.tmp_0{suffix} is [-1, -1, 4], Paddle has [-1, 1, 4]"
            for suffix in ("", "@GRAD")
        ),
    ],
}


# 1.8.5 warns of it, and two of the programs use it
@pytest.mark.filterwarnings("ignore:actual_shape will:UserWarning")
@pytest.mark.parametrize("name", BUILT)
def test_build(name: str) -> None:
    """The same source builds the same program: operators, slots, attributes, variables, names."""
    lines = list(harness.build_differences(fluid, harness.Golden(name)))
    if name in DERIVED_TWICE:
        assert lines and "tanh_grad_grad" in lines[0]
        return
    if name in DECLARED_BETTER:
        assert sorted(lines) == sorted(DECLARED_BETTER[name])
    else:
        assert not lines, f"{len(lines)} differences\n" + "\n".join(lines[:MOST_LINES])


@pytest.mark.parametrize("layout, files", models.LAYOUTS)
@pytest.mark.parametrize("name", models.model_names())
def test_inference_model(name: str, layout: str, files: Any) -> None:
    models.check_inference(fluid, models.SavedModel(name), layout, files)


@pytest.mark.parametrize("folder", ["persistables", "persistables_combined"])
@pytest.mark.parametrize("name", models.model_names())
def test_persistables(name: str, folder: str, tmp_path: pathlib.Path) -> None:
    models.check_persistables(fluid, models.SavedModel(name), folder, str(tmp_path / "again"))


@pytest.mark.parametrize("name", models.model_names())
def test_saved(name: str) -> None:
    models.check_saved(fluid, models.SavedModel(name))
