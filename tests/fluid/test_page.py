"""The page in a browser: moved, searched, walked through by keyboard, and looked at.

The pictures of docs/SHOW.md are made here: `make page-pictures`.
"""

from __future__ import annotations

import pathlib

import page_programs
import pytest
from page_browser import BROWSER_MARKS, LARGE, SMALL, Page, write

import fluidlite as fluid
from fluidlite.show.html import program_page

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    target = tmp_path_factory.mktemp("pages")
    for name in ("lenet", "resnet50", "sentiment", "transformer"):
        write(target, name, name)
    write(target, "job", "resnet50", "--mode=pserver", "--trainers=8", "--pservers=4")
    write(target, "small_job", "lenet", "--mode=pserver", "--trainers=2", "--pservers=2")
    return target


# ---------------------------------------------------------------------- what is to be seen
@pytest.mark.parametrize("name", ["lenet", "resnet50", "sentiment", "transformer", "job", "small_job"])
def test_graphs_are_readable_at_once(page: Page, name: str) -> None:
    page.open(name, "view=both")
    heights = page.js(
        "return [...document.querySelectorAll('.node text:first-of-type')]"
        ".map((one) => one.getBoundingClientRect().height)"
    )
    assert 4 <= len(heights) <= 40 and min(heights) > 8
    boxes = page.js(
        "return [...document.querySelectorAll('.node .body')].map((one) => {"
        " const box = one.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"
    )
    for place, (left, top, right, bottom) in enumerate(boxes):
        for x, y, x2, y2 in boxes[place + 1 :]:
            assert right <= x + 1 or x2 <= left + 1 or bottom <= y + 1 or y2 <= top + 1
    if name == "resnet50":
        page.picture("show-resnet50")


def test_the_large_job_is_ready_soon_and_small(page: Page, folder: pathlib.Path) -> None:
    assert (folder / "job.html").stat().st_size < 2_000_000
    page.open("job")
    ready = page.js("return document.documentElement.dataset.ready")
    size = (folder / "job.html").stat().st_size
    print(f"ResNet-50, 8 trainers, 4 servers: {size / 1e6:.2f} MB, interactive after {ready} ms")


def test_blocks_that_repeat_are_folded_and_open(page: Page) -> None:
    page.open("resnet50")
    labels = page.texts(".node.repeat > text:first-of-type")
    assert labels == [f"bottleneck × {count}" for count in (3, 4, 6, 3)]
    page.click(".node.repeat .body")
    assert page.texts(".node.call > text:first-of-type").count("bottleneck") == 3
    assert "forward" not in page.texts(".frame text") and not page.texts(".node.op[aria-label*=_grad]")


def test_backward_and_update_on_demand(page: Page) -> None:
    page.open("lenet")
    assert not page.js("return document.querySelector('[aria-label*=conv2d_grad]')")
    page.keys("b", "u")
    frames = page.texts(".frame.phase text")
    assert frames == ["▾ forward pass", "▾ backward pass", "▾ update"]
    assert (
        page.js("return document.querySelector('[aria-label*=adam]') !== null") and "show=" in page.address()
    )


def test_feeds_parameters_shapes_and_arrows(page: Page) -> None:
    page.open("lenet")
    assert page.texts(".feed text") == ["image", "label"]
    assert {"conv2d_0.w_0", "fc_0.b_0"} <= set(page.texts(".pill text"))
    assert "N×20×24×24 · 46.1 kB × N" in page.texts(".shape")
    assert page.js("return document.querySelectorAll('.edge[marker-end]').length") > 10


# ---------------------------------------------------------------------- moving
def scale(page: Page, pane: int = 0) -> float:
    matrix: float = page.js(
        "return document.querySelectorAll('.graph > svg > g')[arguments[0]].getCTM().a", pane
    )
    return matrix


def test_zoom_fit_and_both_graphs_together(page: Page) -> None:
    page.open("job", "view=graph")
    before = scale(page)
    page.keys("+", "+")
    assert scale(page) > 1.5 * before and scale(page, 1) == pytest.approx(scale(page), rel=0.2)
    assert page.js("return [...document.querySelectorAll('.minimap')].some((map) => !map.hidden)")
    page.keys("0")
    assert scale(page) == scale(page, 1) < before
    page.js(
        "document.querySelector('.graph > svg').dispatchEvent(new WheelEvent('wheel',"
        " {deltaY: -400, bubbles: true, cancelable: true, clientX: 300, clientY: 300}))"
    )
    assert scale(page) > 1.3 * before and scale(page, 1) > 1.3 * before


def test_the_splitter_moves_by_keyboard(page: Page) -> None:
    page.open("lenet")
    width = "return document.getElementById('first').getBoundingClientRect().width"
    before = page.js(width)
    page.js("document.getElementById('splitter').focus()")
    page.keys("\ue012", "\ue012")  # arrow left
    assert page.js(width) < before - 60


def test_the_splitter_is_dragged(page: Page) -> None:
    page.open("lenet")
    width = "return document.getElementById('first').getBoundingClientRect().width"
    before = page.js(width)
    page.drag("#splitter", -200, 10)
    assert page.js(width) == pytest.approx(before - 200, abs=12)
    page.drag("#splitter", 150, 0)
    assert page.js(width) == pytest.approx(before - 50, abs=12)
    assert page.js("return document.querySelectorAll('.node').length") > 4


def offset(page: Page, pane: int = 0) -> tuple[float, float]:
    found = page.js(
        "const at = document.querySelectorAll('.graph > svg > g')[arguments[0]].getCTM();"
        " return [at.e, at.f]",
        pane,
    )
    return found[0], found[1]


def test_the_minimap_is_dragged(page: Page) -> None:
    page.open("resnet50")
    page.keys("+", "+", "+")
    before, sight = offset(page), "return Number(document.querySelector('.minimap .sight').getAttribute('y'))"
    place = page.js(sight)
    page.drag(".minimap svg", 0, 40, start=(0, -30))
    assert page.js(sight) > place and offset(page) != before
    moved = offset(page)
    page.drag(".graph > svg", 60, 30, start=(200, 150))  # the graph itself, by its ground
    assert offset(page) == pytest.approx((moved[0] + 60, moved[1] + 30), abs=2)


CHOSEN = """
return [...document.querySelectorAll('.graph')].map((pane) => {
  const node = pane.querySelector('.node.at'), { left, top } = pane.getBoundingClientRect();
  const box = node.querySelector('.body').getBoundingClientRect();
  return [node.getAttribute('aria-label').split(',')[0], box.left - left, box.top - top];
});
"""


def test_two_graphs_never_drift_apart(page: Page) -> None:
    page.open("job", "view=graph&show=forward+backward+comm+optimize")
    page.js("document.querySelectorAll('.graph > svg')[1].querySelector('.node').focus()")
    page.keys("+", "+")
    assert scale(page) == scale(page, 1)
    page.drag(".graph > svg", -80, -150)
    page.drag("#second .graph > svg", 50, -60)
    page.keys("-")
    page.open("job", "view=graph&op=30")
    page.keys("\ue00c")
    mine, others = page.js(CHOSEN)
    assert mine[0] == others[0] and mine[1:] == pytest.approx(others[1:], abs=2)
    page.drag(".graph > svg", -40, -50, start=(150, 100))
    page.drag(".minimap svg", 20, 10)
    page.keys("j", "j", "j")
    mine, others = page.js(CHOSEN)
    assert mine[0] == others[0] and mine[1:] == pytest.approx(others[1:], abs=2)
    assert scale(page) == scale(page, 1)


# ---------------------------------------------------------------------- choosing
@pytest.mark.parametrize("size", [LARGE, SMALL, (1024, 700), (1920, 1080)])
def test_the_drawer_covers_nothing(page: Page, size: tuple[int, int]) -> None:
    page.open("job", "view=both&op=20", size=size)
    drawer, *panes = page.js(
        "return ['#drawer', '#first', '#second', '#compare'].map((one) => {"
        " const box = document.querySelector(one).getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom]; })"
    )
    for left, top, right, bottom in panes:
        assert right <= drawer[0] or bottom <= drawer[1]
        assert right - left > 150 and bottom - top > 100
    assert drawer[2] - drawer[0] > 300 and drawer[3] - drawer[1] > 200


# ---------------------------------------------------------------------- the script
MARKED = "return [...document.querySelectorAll('.code-line.at .text')].map((one) => one.textContent)"


def test_the_script_is_listed_and_linked_both_ways(page: Page) -> None:
    page.open("resnet50", "view=code")
    assert page.texts("#code-file option") == ["page_programs.py"]
    source = pathlib.Path(page_programs.__file__).read_text(encoding="utf8")
    assert page.texts(".code-line .text") == [line or " " for line in source.splitlines()]
    # from a line to its ops, one after the other
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "4 * filters, 1)" in text)
    page.js(f"document.querySelector('.code-line[data-line=\"{line}\"]').click()")
    first = page.address()
    assert page.texts(".code-line.at .no") == [str(line)] and "op=" in first
    assert page.js("return document.querySelectorAll('.node.lined').length") > 3
    page.js(f"document.querySelector('.code-line[data-line=\"{line}\"]').click()")
    assert page.address() != first and page.texts(".code-line.at .no") == [str(line)]
    # from an op to its line, and to those that called
    page.open("resnet50", "view=code&op=20")
    assert page.js(MARKED) == ["    return layers.batch_norm(x, act=act)"]
    through = page.texts(".code-line.through .text")
    assert "            x = bottleneck(x, 64 << stage, 2 if stage and not block else 1)" in through
    box, pane = page.js(
        "return ['.code-line.at', '#code-text'].map((one) => {"
        " const box = document.querySelector(one).getBoundingClientRect(); return [box.top, box.bottom]; })"
    )
    assert pane[0] <= box[0] and box[1] <= pane[1]
    page.picture("show-code")
    page.keys("\ue00c", "j", "j")
    assert page.js(MARKED) == [
        "    x = layers.conv2d(x, filters, size, stride, (size - 1) // 2, bias_attr=False)"
    ]


def test_a_frame_of_a_stack_leads_to_its_line(page: Page) -> None:
    page.open("small_job", "view=both&role=trainer0&op=3")
    frames = page.texts("#drawer .stack button")
    assert len(frames) >= 1
    page.js("document.querySelector('#drawer .stack button').click()")
    assert "view=code" in page.address()
    assert page.texts(".code-line.at .no") == [frames[0].split(":")[1].split(" ")[0]]


def test_both_panes_and_the_address_follow_what_is_chosen(page: Page) -> None:
    page.open("resnet50", "op=60")
    number = "return document.querySelector('.row.at .no').textContent"
    assert page.js(number) == "60" and page.js("return document.querySelectorAll('.node.at').length") == 1
    page.keys("\ue00c", "j")  # Escape, next op
    assert page.js(number) == "61" and "op=61" in page.address()
    chosen = page.js("return document.querySelector('.node.at').getBoundingClientRect().x")
    assert 0 < chosen < LARGE[0]
    page.js("location.hash = 'op=3'")
    page.until(f"{number} === '3'")


def test_a_chosen_op_opens_its_part_of_the_program(page: Page) -> None:
    page.open("lenet", "op=20")
    assert page.js("return document.querySelector('.node.at').getAttribute('aria-label')").startswith(
        "relu_grad"
    )
    ticked = "return [...document.querySelectorAll('#phases input')].map((box) => box.checked)"
    assert page.js(ticked) == [True, True, False, True]


def test_an_op_shows_the_whole_call_stack(page: Page) -> None:
    page.open("resnet50", "op=20")
    stack = page.texts("#drawer .stack li")
    functions = [
        line.split(" in ")[1].split(" ")[0] for line in page.texts("#drawer .stack .mono") if " in " in line
    ]
    assert functions == ["conv_bn", "bottleneck", "resnet", "resnet50"]
    assert "batch_norm" in stack[0] and "bottleneck(x" in stack[2]
    page.picture("show-op")


def test_search_takes_words_in_any_order_and_arrow_keys(page: Page) -> None:
    page.open("job")
    page.keys("/", *"bottleneck conv2d_5.w_0")
    found = page.texts("#results button .type")
    assert found[:2] == ["conv2d", "conv2d_grad"] and "momentum" not in found
    page.js("document.getElementById('query').value = ''")
    page.keys(*"conv2d_5.w_0 bottleneck")
    assert page.texts("#results button .type") == found
    page.keys("\ue015", "\ue015")  # arrow down, twice
    assert page.texts("#found") == [f"2 of {page.texts('#found')[0].split(' of ')[1]}"]
    first = page.address()
    page.keys("\ue015")
    assert page.address() != first and page.js("return document.activeElement.id") == "query"
    assert page.js("return document.querySelectorAll('.node.at, .row.at').length") >= 1
    page.picture("show-search")


def test_a_parameter_is_followed_to_its_server(page: Page) -> None:
    page.open("job", "view=places")
    page.js(
        "[...document.querySelectorAll('.name')].find((one) => one.textContent === 'conv2d_2.w_0').click()"
    )
    page.picture("show-servers")
    servers = page.texts("#drawer .server")
    assert len(servers) == 4 and all("pserver" in text for text in servers)
    page.js("document.querySelectorAll('#drawer .server')[2].click()")
    assert page.js("return document.getElementById('role').value") not in ("0", "")
    assert "role=pserver" in page.address() and "param=conv2d_2.w_0" in page.address()
    assert page.js("return document.querySelectorAll('.node.touch').length") >= 1


def test_every_node_is_reached_by_keyboard(page: Page) -> None:
    page.open("transformer")
    assert page.js("return document.querySelectorAll('.graph [tabindex=\"0\"]').length") == 1
    page.js("document.querySelector('.graph [tabindex=\"0\"]').focus()")
    focused = "return document.activeElement.dataset.id"
    first = page.js(focused)
    page.keys("\ue015", "\ue015")  # arrow down
    assert page.js(focused) != first
    everything = page.js(
        "return [...document.querySelectorAll('.graph [data-id]')].map((one) => one.dataset.id)"
    )
    seen = set()
    for _ in everything:
        page.keys("\ue00f")  # page down
        seen.add(page.js(focused))
    assert seen == set(everything) and any(":" in one for one in seen)
    assert page.js(
        "return [...document.querySelectorAll('.graph [data-id]')]"
        ".every((one) => one.getAttribute('aria-label'))"
    )
    page.js("document.querySelector('.node[aria-expanded=false]').focus()")
    group = page.js("return document.activeElement.dataset.id")
    page.keys("\ue007")  # Enter opens
    assert page.js(f"return document.querySelector('.frame[data-id=\"{group}\"]') !== null")
    page.keys("\ue003")  # Backspace closes
    assert page.js(f"return document.querySelector('.node[data-id=\"{group}\"]') !== null")


# ---------------------------------------------------------------------- light, dark, small
CONTRASTS = (pathlib.Path(__file__).parent / "page_contrast.js").read_text(encoding="utf8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("lenet", "op=3"),
        ("small_job", "view=job"),
        ("resnet50", "view=list&q=bottleneck"),
        ("small_job", "view=graph&show=forward+backward+comm&role=trainer0"),
        ("small_job", "view=list"),
        ("small_job", "view=code&op=5"),
        ("small_job", "view=places&param=fc_0.w_0"),
        ("small_job", "view=both&role=pserver0"),
    ],
)
def test_texts_stand_out(page: Page, name: str, address: str, theme: str) -> None:
    page.open(name, f"{address}&theme={theme}")
    seen, poor = page.js(CONTRASTS)
    assert not poor and seen > 25
    if (name, theme) == ("lenet", "dark"):
        page.picture("show-dark")


def test_a_program_without_ops(page: Page) -> None:
    (page.folder / "empty.html").write_text(program_page(fluid.Program()), encoding="utf8")
    page.open("empty")
    assert "This program has no ops." in page.texts(".empty") and not page.texts(".node")


def test_a_small_window(page: Page) -> None:
    page.open("job", "view=both", size=SMALL)
    width, height = page.js(
        "const one = document.querySelector('.graph').getBoundingClientRect(); return [one.width, one.height]"
    )
    assert width > 400 and height > 380
    assert not page.js("return document.documentElement.scrollWidth > innerWidth")
    page.picture("show-window")
