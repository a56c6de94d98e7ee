"""The page of a job, and of a saved model, in a browser: its processes first, ways from op to op across them,
the whole of a graph in sight, and pictures that are saved.
"""

from __future__ import annotations

import io
import pathlib
import time
import xml.etree.ElementTree

import numpy as np
import page_programs
import pytest
from page_browser import BROWSER_MARKS, LARGE, SMALL, Page, write
from PIL import Image

import fluidlite as fluid
from fluidlite import layers
from fluidlite.cli.exchange import exchange_of
from fluidlite.cli.show import main
from fluidlite.ir import framework_pb
from fluidlite.transpiler.modes import Job, make_job

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    target = tmp_path_factory.mktemp("jobs")
    for name in ("lenet", "resnet50"):
        write(target, name, name)
    write(target, "job", "resnet50", "--mode=pserver", "--trainers=8", "--pservers=4")
    write(target, "small_job", "lenet", "--mode=pserver", "--trainers=2", "--pservers=2")
    write(target, "ranks", "lenet", "--mode=grad_allreduce", "--trainers=4")
    saved = save_in_a_loop(target / "model")
    assert main([str(saved), "--output", str(target / "saved.html")]) == 0
    return target


def save_in_a_loop(path: pathlib.Path) -> pathlib.Path:
    """A model as scripts save it: in the loop of the training, by a release that marks no parameters."""
    main_program, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main_program, startup):
        x = fluid.data("x", [None, 13])
        guess = layers.fc(layers.fc(x, 32, act="relu"), 3, act="softmax")
        best = layers.fc(x, 1)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(2):
            fluid.io.save_inference_model(str(path), ["x"], [guess, best], exe)
    return unmarked(path)


def unmarked(path: pathlib.Path) -> pathlib.Path:
    """The same model, whose file tells no parameter from another variable, as PaddlePaddle 1.8.5's."""
    file = path / "__model__"
    desc = framework_pb.ProgramDesc.FromString(file.read_bytes())
    for var in desc.blocks[0].vars:
        var.ClearField("is_parameter")
    file.write_bytes(desc.SerializeToString())
    return path


# ---------------------------------------------------------------------- the processes of a job
def test_a_job_begins_with_its_processes(page: Page) -> None:
    page.open("small_job")
    assert "view=job" in page.address() and page.texts("#view button")[:2] == ["job", "servers"]
    assert page.texts(".process .name") == ["trainer0", "trainer1", "pserver0", "pserver1"]
    assert page.js("return document.querySelectorAll('.traffic').length") == 4
    links = {link[:2]: link.bytes for link in exchange_of(job_of_lenet()).links}
    kilobytes = [links["trainer0", f"pserver{number}"] / 1e3 for number in range(2)]
    assert page.texts(".bytes text") == [f"↓ {size:.3g} kB  ↑ {size:.3g} kB" for size in kilobytes]
    assert f"sends {sum(kilobytes):.3g} kB and receives" in page.texts("#job-note")[0]
    page.picture("show-job")
    page.click(".process.pserver .name")
    assert "view=both" in page.address() and "role=pserver0" in page.address()
    assert "sum" in page.texts("#list .type")


def job_of_lenet() -> Job:
    return make_job(*page_programs.built(page_programs.lenet), mode="pserver", trainers=2)


def test_the_processes_are_opened_by_keyboard(page: Page) -> None:
    page.open("small_job")
    page.js("document.querySelectorAll('.process')[1].focus()")
    page.keys("\ue007")  # Enter
    assert "role=trainer1" in page.address()


def test_bytes_lead_to_the_ops_that_exchange_them(page: Page) -> None:
    page.open("small_job")
    page.click(".bytes text")
    assert set(page.texts("#drawer .through .type")) == {"send", "send_barrier", "recv", "fetch_barrier"}
    page.click("#drawer .through")
    assert "role=trainer0" in page.address() and page.texts("#drawer h2") == ["send"]


def test_ranks_stand_in_a_ring_without_servers(page: Page) -> None:
    page.open("ranks", size=SMALL)
    assert page.texts(".process .name") == [f"trainer{number}" for number in range(4)]
    (size,) = set(page.texts(".bytes text"))
    assert size.endswith("kB") and page.js("return document.querySelectorAll('.traffic').length") == 4
    assert "servers" not in page.texts("#view button") and "server" not in page.texts("#job-note")[0]


@pytest.mark.parametrize(("size", "count"), [(SMALL, 3), (LARGE, 6)])
def test_many_processes_are_counted(page: Page, size: tuple[int, int], count: int) -> None:
    page.open("job", size=size)
    names = page.texts(".process.trainer .name")
    assert len(names) == count and names[-1] == "trainer7"
    assert names[-2] == f"… {8 - count + 1} more"
    assert inside(page, ".process", size)


def inside(page: Page, selector: str, size: tuple[int, int]) -> bool:
    """True if every element that is shown lies in the window."""
    found = page.js(
        "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"
        ".map((one) => { const box = one.getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom]; })",
        selector,
    )
    assert found, selector
    return all(
        left >= -1 and top >= -1 and right <= size[0] + 1 and bottom <= size[1] + 1
        for left, top, right, bottom in found
    )


# ---------------------------------------------------------------------- from process to process
def test_a_send_leads_to_the_servers_sum_and_back(page: Page) -> None:
    page.open("small_job", "view=both&role=trainer0&op=20")
    assert page.texts("#drawer h2") == ["send"]
    page.click("#drawer .through")
    assert page.texts("#drawer h2") == ["sum"] and "role=pserver" in page.address()
    assert page.texts("#drawer .through .note") == ["trainer0", "trainer1"]
    page.js("document.querySelectorAll('#drawer .through')[1].click()")
    assert page.texts("#drawer h2") == ["send"] and "role=trainer1" in page.address()
    assert "fc_0.w_0@GRAD.trainer_1" in page.texts("#drawer .name")


def test_an_update_leads_to_what_fetches_it_and_back(page: Page) -> None:
    page.open("small_job", "view=both&role=pserver0&op=3")
    assert page.texts("#drawer h2") == ["adam"] and page.texts("#drawer .through .type") == ["recv", "recv"]
    page.click("#drawer .through")
    assert page.texts("#drawer h2") == ["recv"] and "adam" in page.texts("#drawer .through .type")


def test_the_op_that_listens_names_all_that_arrives(page: Page) -> None:
    page.open("small_job", "view=both&role=pserver0&op=0")
    assert page.texts("#drawer h2") == ["listen_and_serv"]
    assert [text for text in page.texts("#drawer h3") if "sends" in text] == [
        "trainer0 sends and fetches",
        "trainer1 sends and fetches",
    ]
    assert {"send", "recv"} <= set(page.texts("#drawer .through .type"))


def test_collectives_have_a_colour_of_their_own(page: Page) -> None:
    page.open("ranks", "view=both&role=trainer1&show=backward")
    colours = page.js(
        "const colour = (text) => getComputedStyle(document.querySelector("
        '`.node[aria-label^="${text},"] .mark`)).fill;'
        " return ['c_allreduce_sum', 'mul_grad'].map(colour);"
    )
    assert colours[0] != colours[1] and "of all ranks" in page.texts("#phases .check")
    number = page.js(
        "return [...document.querySelectorAll('#list .cell.op')].find((one) =>"
        " one.querySelector('.type').textContent === 'c_allreduce_sum').querySelector('.no').textContent"
    )
    page.js(f"location.hash = 'view=both&role=trainer1&op={number}'")
    page.until("return !document.getElementById('drawer').hidden")
    assert "The other ranks come to the same op" in page.texts("#drawer h3")
    page.click("#drawer .server")
    assert "role=trainer0" in page.address() and page.texts("#drawer h2") == ["c_allreduce_sum"]


# ---------------------------------------------------------------------- all of it in sight
@pytest.mark.parametrize("size", [LARGE, SMALL])
@pytest.mark.parametrize(
    ("name", "address"),
    [("resnet50", "show=forward+backward+optimize"), ("job", "view=graph"), ("lenet", "view=both")],
)
def test_fit_shows_the_whole_graph(page: Page, name: str, address: str, size: tuple[int, int]) -> None:
    page.open(name, address, size=size)
    for button in page.driver.find_elements("css selector", ".tools [title='Show all (0)']")[:1]:
        button.click()
    for pane, boxes in page.js(
        "return [...document.querySelectorAll('.graph')].map((graph) => [graph, ...graph.querySelectorAll("
        "'.node, .frame, .pill')].map((one) => { const box = one.getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom]; })).map(([pane, ...boxes]) => [pane, boxes])"
    ):
        assert boxes
        for left, top, right, bottom in boxes:
            assert left >= pane[0] and top >= pane[1] and right <= pane[2] and bottom <= pane[3]


@pytest.mark.parametrize(
    ("name", "address"),
    [("job", ""), ("job", "view=both&op=20"), ("job", "view=graph"), ("ranks", "view=code"), ("saved", "")],
)
def test_everything_is_reached_in_a_small_window(page: Page, name: str, address: str) -> None:
    page.open(name, address, size=SMALL)
    assert inside(page, ".top *, .bar *, .heads *, .tools *, #shut, .minimap", SMALL)
    page.keys("?")
    assert page.js("return document.getElementById('keys').open") and inside(page, "#keys", SMALL)


def test_the_second_pane_closes_and_comes_back(page: Page) -> None:
    page.open("job", "view=graph", size=SMALL)
    graphs = "return document.querySelectorAll('.graph').length"
    width = "return document.querySelector('.graph').getBoundingClientRect().width"
    before = page.js(width)
    page.click("#shut")
    assert page.js(graphs) == 1 and page.js(width) > 1.8 * before and "panes=1" in page.address()
    page.keys("x")
    assert page.js(graphs) == 2 and "panes" not in page.address()
    page.open("saved", "panes=1", size=SMALL)
    assert not page.js("return document.getElementById('second').checkVisibility()")
    page.click("#view button")
    assert page.js("return document.getElementById('list').checkVisibility()")


# ---------------------------------------------------------------------- saved models
def test_a_saved_model_has_no_loop_and_its_weights_are_parameters(page: Page) -> None:
    page.open("saved")
    assert not [text for text in page.texts(".frame text, .node text") if "for " in text or "×" in text]
    assert page.texts(".node.io > text:first-of-type") == ["feed", "fetch", "fetch"]
    weights = {f"fc_{number}.{kind}_0" for number in range(3) for kind in "wb"}
    assert set(page.texts(".pill.parameter text")) == weights and not page.texts(".pill.state text")


def test_a_weight_of_a_saved_model_shows_its_values(page: Page) -> None:
    page.open("saved", "param=fc_0.w_0", size=SMALL)
    values = np.frombuffer((page.folder / "model" / "fc_0.w_0").read_bytes()[-4 * 13 * 32 :], np.float32)
    rows = [text.split(" ")[0] for text in page.texts("#drawer tr")]
    assert {"numbers416", f"low{values.min():.3g}", f"high{values.max():.3g}"} <= set(rows)
    counts = [int(text.split(" ")[0]) for text in page.texts("#drawer .bars title")]
    assert counts == np.histogram(values.astype(float), 24)[0].tolist()
    page.picture("show-weights")


# ---------------------------------------------------------------------- saved pictures
@pytest.mark.parametrize(
    ("name", "address", "words"),
    [("lenet", "theme=dark", {"conv2d", "fc_0.w_0", "image"}), ("small_job", "", {"trainer0", "pserver1"})],
)
def test_what_is_drawn_is_saved(
    page: Page, tmp_path: pathlib.Path, name: str, address: str, words: set[str]
) -> None:
    page.open(name, address)
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    paper = page.js("return getComputedStyle(document.documentElement).getPropertyValue('--sheet')").strip()
    page.click(".tools [title='Save what is drawn as SVG']")
    text = saved(tmp_path, "*.svg").decode()
    tree = xml.etree.ElementTree.fromstring(text)
    assert words <= {element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert "var(--" not in text and " class=" not in text and f'fill="{paper}"' in text
    page.click(".tools [title='Save what is drawn as PNG']")
    image = Image.open(io.BytesIO(saved(tmp_path, "*.png"))).convert("RGB")
    assert image.size == (2 * int(tree.attrib["width"]), 2 * int(tree.attrib["height"]))
    red, green, blue = np.asarray(image)[2, 2]
    assert f"#{red:02x}{green:02x}{blue:02x}" == paper
    assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 20


def saved(folder: pathlib.Path, pattern: str) -> bytes:
    """The file that the browser writes."""
    end = time.monotonic() + 20
    while not (found := list(folder.glob(pattern))):
        assert time.monotonic() < end, pattern
        time.sleep(0.05)
    return found[0].read_bytes()
