"""What PaddlePaddle 1.8.5 built, ran and saved, against what FluidLite builds, runs and loads."""

import pathlib
from typing import Any

import pytest
import test_golden_differences
from golden import harness, models

import fluidlite as fluid

CASES = harness.recorded_cases()
BUILT = [name for name in CASES if name in harness.load_cases()]
MOST_LINES = 30
PADDLE_IS_WRONG = set(test_golden_differences.CASES)  # held there, to 1.8.5's fault and to the right numbers


@pytest.mark.parametrize("name", [name for name in CASES if name not in PADDLE_IS_WRONG])
def test_run(name: str) -> None:
    """Paddle's program, started from Paddle's values and fed Paddle's data, gives Paddle's numbers."""
    harness.replay(fluid, harness.Golden(name))


DECLARED_BETTER = {
    "pad_ops": ("im2sequence_0.tmp_0", "square_12.tmp_0"),  # 1.8.5 forgets the windows of an image
    "searches": ("isinf_0.tmp_0", "isnan_0.tmp_0", "assign_0.tmp_0"),  # and that these are bool
    "sequence_ops": (
        "square_12.tmp_0",
        "scale_19.tmp_0",
    ),  # partial gradients that nothing computes are not summed
    "shape_ops": ("expand_as_0.tmp_0", "square_18.tmp_0"),  # and what expand_as makes
}


@pytest.mark.parametrize("name", BUILT)
def test_build(name: str) -> None:
    """The same source builds the same program: operators, slots, attributes, variables, names."""
    known = DECLARED_BETTER.get(name, ())
    lines = [
        line
        for line in harness.build_differences(fluid, harness.Golden(name))
        if not any(f" of {variable} is" in line or f"{variable}@GRAD" in line for variable in known)
    ]
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
