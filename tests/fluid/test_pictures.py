"""Pictures of programs and jobs: what they show, where, and that nothing else is in them."""

from __future__ import annotations

import pathlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import page_programs
import pytest

import fluidlite as fluid
from fluidlite.cli.show import main as show
from fluidlite.distributed import job_picture
from fluidlite.show.picture import program_picture
from fluidlite.show.svg import Picture
from fluidlite.transpiler import make_job

SVG = "{http://www.w3.org/2000/svg}"


def train() -> tuple[fluid.Program, fluid.Program]:
    x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 1])
    hidden = fluid.layers.fc(x, 16, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return fluid.default_main_program(), fluid.default_startup_program()


class Seen:
    """A picture as its reader sees it: boxes by their first line, at corners, with kinds."""

    def __init__(self, picture: Picture) -> None:
        self.root = ET.fromstring(picture)
        self.boxes: list[tuple[str, str, float, float]] = []
        for group in self.root.iter(f"{SVG}g"):
            rect, words = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
            assert rect is not None and words is not None
            corner = float(rect.get("x", "")), float(rect.get("y", ""))
            self.boxes.append((words.text or "", rect.get("class", ""), *corner))

    def named(self, name: str) -> list[tuple[str, str, float, float]]:
        return [box for box in self.boxes if box[0] == name]

    def words(self) -> str:
        return " ".join(element.text or "" for element in self.root.iter(f"{SVG}text"))


def test_gradients_and_updates_stand_beside_their_ops() -> None:
    seen = Seen(program_picture(train()[0]))
    for op, gradient in (("mul", "mul_grad"), ("tanh", "tanh_grad"), ("square", "square_grad")):
        assert [box[3] for box in seen.named(op)] == sorted(box[3] for box in seen.named(gradient))
    kinds = {box[0]: box[1] for box in seen.boxes}
    assert (kinds["mul"], kinds["mul_grad"], kinds["sgd"]) == ("forward", "backward", "update")
    assert len({box[2] for box in seen.boxes}) == 3
    assert "fc_0.b_0 [16]" in seen.words() and "y [N, 1]" in seen.words()


def test_what_a_job_adds_has_a_colour_of_its_own() -> None:
    job = make_job(*train(), "grad_allreduce", trainers=2)
    seen = Seen(program_picture(job.trainer().main))
    reduced = seen.named("c_allreduce_sum")
    assert len(reduced) == 4 and {box[1] for box in reduced} == {"communication"}
    assert {box[1] for box in seen.named("c_sync_comm_stream")} == {"communication"}
    server = make_job(*train(), "pserver", trainers=2, endpoints=2)
    seen = Seen(program_picture(server.programs(server.roles[-1]).main))
    assert [box[0] for box in seen.boxes].count("sgd") == seen.words().count("block ") - 1


@pytest.mark.parametrize(
    "build", [page_programs.resnet50, page_programs.sentiment, page_programs.transformer]
)
def test_boxes_never_lie_on_each_other(build: Callable[[], None]) -> None:
    main, _ = page_programs.built(build)
    picture = program_picture(main)
    seen = Seen(picture)
    assert picture == program_picture(main)  # the same text each time
    assert len(seen.boxes) == min(len(main.global_block().ops), 400) + sum(
        len(block.ops) for block in main.blocks[1:]
    )
    corners = sorted((x, y) for _, _, x, y in seen.boxes)
    assert all(one[0] != other[0] or other[1] - one[1] >= 40 for one, other in zip(corners, corners[1:]))


def test_a_job_shows_what_crosses_its_links() -> None:
    main, startup = train()
    seen = Seen(job_picture(make_job(main, startup, "pserver", trainers=3, endpoints=2)))
    assert [box[0] for box in seen.boxes] == ["trainer0", "trainer1", "trainer2", "pserver0", "pserver1"]
    assert "each trainer: 68 B" in seen.words() and "back: 192 B" in seen.words()
    many = Seen(job_picture(make_job(main, startup, "pserver", trainers=900, endpoints=40)))
    assert [box[0] for box in many.boxes][2::3] == ["trainer899", "pserver39"] and "..." in many.words()
    ring = Seen(job_picture(make_job(main, startup, "grad_allreduce", trainers=4)))
    assert "each rank sends 390 B a step, in 24 messages" in ring.words()


def test_the_command_writes_pictures(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (
        "import fluidlite as fluid",
        "loss = fluid.layers.mean(fluid.layers.fc(fluid.data('x', [None, 2]), 2))",
        "fluid.optimizer.SGD(0.1).minimize(loss)",
    )
    pathlib.Path("net.py").write_text("\n".join(lines))
    assert show(["net.py", "-o", "net.svg"]) == 0
    assert show(["net.py", "--mode", "pserver", "-o", "job.svg"]) == 0
    assert "sgd" in Seen(Picture(pathlib.Path("net.svg").read_text())).words()
    assert "pserver1" in Seen(Picture(pathlib.Path("job.svg").read_text())).words()
    assert capsys.readouterr().out == "net.svg\njob.svg\n"


def test_both_themes_are_in_the_file() -> None:
    picture = program_picture(train()[0])
    light, dark = picture.split("@media (prefers-color-scheme:dark)")
    for kind in ("rect.forward", "text.head", ".paper", ".tip"):
        colours = [re.search(rf"{re.escape(kind)}{{fill:(#\w+)", part) for part in (light, dark)]
        assert all(colours) and colours[0][1] != colours[1][1]  # type: ignore[index]
    assert picture._repr_svg_() == picture and "<script" not in picture and "http" not in picture[60:]
