"""Programs in every format, what became of them, and the page of a job."""

from __future__ import annotations

import html.parser
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import debugger
from fluidlite.base.registry import AttrType
from fluidlite.cli.exchange import exchange_of
from fluidlite.errors import FormatError, NanInfError
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.text import parse as parse_text
from fluidlite.show import FORMATS
from fluidlite.show.code import op_code, program_code
from fluidlite.show.diff import diff, diff_text, summary
from fluidlite.show.html import job_page, program_page
from fluidlite.show.json import parse as parse_json
from fluidlite.show.json import program_data, program_json
from fluidlite.show.listings import listings
from fluidlite.show.values import value_facts
from fluidlite.transpiler.cost.estimate import estimate
from fluidlite.transpiler.modes import Job, make_job, mode_names

HOSTILE = "</script><b>\"x\" & 'y'\\"


def training(size: int = 1000) -> tuple[fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        hidden = fluid.layers.fc(fluid.data("x", [None, size]), size)
        loss = fluid.layers.mean(
            fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), fluid.data("y", [None, 1]))
        )
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return main, startup


@pytest.fixture(scope="module")
def job() -> Job:
    return make_job(*training())


def looping() -> fluid.Program:
    program = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(program, fluid.Program()):
        i, n = fluid.layers.fill_constant([1], "int64", 0), fluid.layers.fill_constant([1], "int64", 3)
        condition = fluid.layers.less_than(i, n)
        loop = fluid.layers.While(condition)
        with loop.block():
            fluid.layers.increment(i)
            fluid.layers.less_than(i, n, cond=condition)
    return program


def hostile() -> fluid.Program:
    program = fluid.Program()
    block = program.global_block()
    block.create_var(name=HOSTILE, shape=[3])
    block.append_op(
        type="assign",
        inputs={"X": [HOSTILE]},
        outputs={"Out": [HOSTILE]},
        attrs={"op_namescope": f"/{HOSTILE}/"},
    )
    return program


# ------------------------------------------------------------------------------------------------ formats
@pytest.mark.parametrize("mode", mode_names())
def test_text_json_and_bytes_of_every_role_read_back(mode: str) -> None:
    made = make_job(*training(100), mode=mode)
    for role in made.roles:
        for program in (made.programs(role).main, made.programs(role).startup):
            text = str(program)
            assert str(parse_text(text)) == text
            again = parse_json(program_json(program))
            assert str(again) == text and serialize_program(again) == serialize_program(program)
            assert [type(var) for var in again.list_vars()] == [type(var) for var in program.list_vars()]
            read = fluid.Program.parse_from_string(FORMATS["pb"].render(program))
            ops = program.global_block().ops
            assert [op.type for op in read.global_block().ops] == [op.type for op in ops]


def test_json_keeps_blocks_and_values_without_a_number() -> None:
    program = looping()
    block = program.global_block()
    block.append_op(
        type="scale",
        inputs={"X": ["fill_constant_0.tmp_0"]},
        outputs={"Out": ["fill_constant_0.tmp_0"]},
        attrs={"scale": float("inf"), "bias": 0.5},
    )
    again = parse_json(program_json(program))
    assert str(again) == str(program)
    assert [op.attr("sub_block").idx for op in again.global_block().ops if op.type == "while"] == [1]
    assert again.global_block().ops[-1].attr("scale") == float("inf")
    assert program_data(program)["blocks"][0]["ops"][-1]["attrs"]["scale"] == {
        "type": "float",
        "value": "inf",
    }
    assert again.global_block().ops[-1].attr_type("scale") == AttrType.FLOAT


def with_attr(kind: str, value: object) -> dict[str, object]:
    op = {"type": "f", "inputs": {}, "outputs": {}, "attrs": {"a": {"type": kind, "value": value}}}
    return {"blocks": [{"parent": -1, "vars": [], "ops": [op]}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "is not a program"),
        ({"version": 2}, "is not a program"),
        ({"blocks": []}, "1 to"),
        ({"blocks": 3}, "'blocks' should be list"),
        ({"blocks": [{"parent": -1}]}, "'vars' should be list"),
        ({"blocks": [{"parent": 7, "vars": [], "ops": []}]}, "parent"),
        (
            {
                "blocks": [
                    {
                        "parent": -1,
                        "vars": [{"name": "a", "kind": "lod_tensor", "dtype": "float33", "shape": []}],
                        "ops": [],
                    }
                ]
            },
            "float33",
        ),
        (
            {
                "blocks": [
                    {
                        "parent": -1,
                        "vars": [{"name": "a", "kind": "lod_tensor", "dtype": None, "shape": ["3"]}],
                        "ops": [],
                    }
                ]
            },
            "shape",
        ),
        (
            {
                "blocks": [
                    {"parent": -1, "vars": [], "ops": [{"type": "f", "inputs": {"X": [3]}, "outputs": {}}]}
                ]
            },
            "inputs",
        ),
        (with_attr("int", "1"), "a: '1'"),
        (with_attr("block", 5), "no block 5"),
        (with_attr("float", "x"), "float"),
        ({"blocks": [{"parent": -1, "vars": [], "ops": [3]}]}, "block 0"),
    ],
)
def test_json_that_is_no_program(change: dict[str, object], message: str) -> None:
    data = {**program_data(fluid.Program()), **change}
    with pytest.raises(FormatError, match=message):
        parse_json(json.dumps(data))


def test_code_is_what_fluid_prints() -> None:
    main, _ = training(10)
    text = program_code(main)
    first = (
        "    persist trainable parameter fc_0.b_0 : fluid.VarType.LOD_TENSOR.shape(10,).astype(VarType.FP32)"
    )
    assert text.split("\n")[:2] == ["{ // block 0", first]
    assert (
        text.endswith("}\n")
        and "op_callstack" not in text
        and "op_callstack" in program_code(main, skip_op_callstack=False)
    )
    line = op_code(main.global_block().ops[0])
    assert (
        line.startswith("{Out=['fc_0.tmp_0']} = mul(inputs={X=['x'], Y=['fc_0.w_0']}, ")
        and "x_num_col_dims = 1" in line
    )
    assert "sub_block = block[1]" in program_code(looping()) and "{ // block 1\n" in program_code(looping())


def test_fluids_functions_write_the_listing(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    from fluidlite.transpiler import details

    main, _ = training(10)
    details.program_to_code(main)
    assert capsys.readouterr().out == program_code(main)
    with (tmp_path / "code").open("w") as file:
        details.block_to_code(main.global_block(), 0, fout=file, skip_op_callstack=True)
    assert (tmp_path / "code").read_text() == program_code(main) and capsys.readouterr().out == ""
    assert details.op_to_code(main.global_block().ops[0]) in program_code(main)
    assert (
        details.variable_to_code(main.global_block().vars["x"])
        == "var x : fluid.VarType.LOD_TENSOR.shape(-1, 10).astype(VarType.FP32)"
    )


def test_graphs_have_every_op_and_escape_names() -> None:
    program = looping()
    for name, op_mark, link in (
        ("dot", "[shape=box, label=", "-> op1_0 [style=dashed"),
        ("mermaid", ":::op", "-.-> block1"),
    ):
        text = FORMATS[name].render(program).decode()
        assert text.count(op_mark) == sum(len(block.ops) for block in program.blocks) and link in text
    assert '\\"x\\"' in FORMATS["dot"].render(hostile()).decode()
    drawn = FORMATS["mermaid"].render(hostile()).decode()
    assert "<b>" not in drawn and "#60;#47;script#62;".replace("#47;", "/") in drawn


# ------------------------------------------------------------------------------------------------ differences
def test_differences_of_known_edits() -> None:
    main, _ = training(10)
    assert summary(diff(main, main.clone())) == {"kept": 19, "changed": 0, "inserted": 0, "removed": 0}
    edited = main.clone()
    block = edited.global_block()
    block.ops[2]._set_attr("x_num_col_dims", 7)
    block.insert_after(
        block.ops[3], type="scale", inputs={"X": ["fc_1.tmp_1"]}, outputs={"Out": ["fc_1.tmp_1"]}
    )
    block.remove_op(block.ops[-1])
    edits = diff(main, edited)
    assert summary(edits) == {"kept": 17, "changed": 1, "inserted": 1, "removed": 1}
    (changed,) = (edit for edit in edits if edit.kind == "changed")
    assert (changed.before, changed.after, changed.changes) == (2, 2, ("x_num_col_dims: 1 -> 7",))
    assert [edit.after for edit in edits if edit.kind == "inserted"] == [4]
    assert [edit.before for edit in edits if edit.kind == "removed"] == [18]
    assert not any(edit.moved for edit in edits)


def test_an_op_that_moved_is_kept() -> None:
    main, _ = training(10)
    moved = main.clone()
    ops = moved.global_block().ops
    ops.append(ops.pop(-3))
    edits = diff(main, moved)
    assert summary(edits)["kept"] == 19 and [edit.new.type for edit in edits if edit.moved and edit.new] == [
        "momentum"
    ]


def test_differences_of_roles(job: Job) -> None:
    trainer = diff(job.main, job.trainer(0).main)
    assert summary(trainer) == {"kept": 12, "changed": 3, "inserted": 12, "removed": 4}
    assert [edit.old.type for edit in trainer if edit.kind == "removed" and edit.old] == ["momentum"] * 4
    server = diff(job.main, job.server(job.endpoints[0]).main)
    (cut,) = (edit for edit in server if edit.new and edit.new.inputs.get("Param") == ["fc_0.w_0.block1"])
    assert cut.kind == "changed" and "Param: fc_0.w_0 -> fc_0.w_0.block1" in cut.changes
    text = diff_text(trainer)
    assert (
        "\x1b" not in text
        and "+ send_barrier(" in text
        and text.endswith("12 kept, 3 changed, 12 inserted, 4 removed\n")
    )
    assert "\x1b[32m+ send_barrier(" in diff_text(trainer, colour=True) and "kept\n" in diff_text(
        trainer, context=0
    )
    assert all(op.where for block in job.main.blocks for op in block.ops)


# ------------------------------------------------------------------------------------------------ the page
class _Page(html.parser.HTMLParser):
    """The tags of a page, and the text of its script elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.lasttag == "script":
            self.scripts[-1] += data


def page_data(page: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(_Page(page).scripts[0])
    return found


def test_the_page_needs_nothing_else(job: Job) -> None:
    page = job_page(job, "fc")
    parsed = _Page(page)
    assert [tag for tag, _ in parsed.tags].count("script") == 2
    assert not [attrs for _, attrs in parsed.tags if {"src", "href"} & set(attrs)]
    # without the data, of which the listing of this file is a part
    frame = page.replace(parsed.scripts[0].strip(), "")
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|innerHTML", frame)
    assert set(re.findall(r"https?://[^\s\"']+", frame)) <= {"http://www.w3.org/2000/svg"}
    assert len(frame) < 150_000


def test_the_page_says_which_server_holds_which_rows(job: Job) -> None:
    page = job_page(job, "fc")
    for part in job.slices:
        last = part.first_row + part.shape[0] - 1
        assert (
            f"<tr><td>{part.param}</td><td>{part.first_row} – {last}</td><td>{part.endpoint}</td></tr>"
            in page
        )
    data = page_data(page)
    assert data["endpoints"] == list(job.endpoints)
    assert {(row[0], row[4], row[5][0], job.endpoints[row[6]]) for row in data["slices"]} == {  # type: ignore[attr-defined]
        (part.param, part.first_row, part.shape[0], part.endpoint) for part in job.slices
    }


def test_trainers_share_programs_and_each_op_is_matched(job: Job) -> None:
    data = page_data(job_page(job, "fc"))
    roles: list[dict[str, object]] = data["roles"]  # type: ignore[assignment]
    assert [role["name"] for role in roles] == ["trainer0", "trainer1", "pserver0", "pserver1"]
    assert roles[0]["main"] == roles[1]["main"] and roles[1]["matches"] == 0
    matches: list[int] = roles[0]["matches"]["main"]  # type: ignore[index]
    assert len(matches) == len(job.trainer(0).main.global_block().ops) and matches.count(0) == 12
    many = page_data(job_page(make_job(*training(), trainers=60), "fc"))
    assert len(many["programs"]) == len(data["programs"])  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", mode_names())
def test_every_mode_has_a_page(mode: str) -> None:
    made = make_job(*training(100), mode=mode, trainers=3)
    data = page_data(job_page(made, mode, exchange_of(made)))
    assert len(data["roles"]) == len(made.roles)  # type: ignore[arg-type]
    assert bool(data["links"]) == bool(estimate(made).links)


def test_ops_of_trainers_name_the_variables_of_servers(job: Job) -> None:
    data: Any = page_data(job_page(job, "fc", exchange_of(job)))
    names, roles = data["names"], {role["name"]: role for role in data["roles"]}
    blocks = data["programs"][roles["trainer1"]["main"]]
    pieces = [piece for _, _, ops, _ in blocks for number in ops for piece in data["ops"][number][6]]
    assert {server for _, server in pieces} == {0, 1} and any(name < 0 for name, _ in pieces)
    for name, server in pieces:
        program = job.programs(job.role(f"pserver{server}")).main
        assert name < 0 or program.global_block().has_var(names[name].replace("\x01", "1"))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, 2.0, 4.0], {"count": 3, "zeros": 0, "bad": 0, "low": 1.0, "high": 4.0}),
        ([0.0, np.nan, np.inf, -2.0], {"count": 4, "zeros": 1, "bad": 2, "low": -2.0, "high": 0.0}),
        ([np.nan], {"count": 1, "zeros": 0, "bad": 1}),
        ([], {"count": 0, "zeros": 0, "bad": 0}),
        ([1e308, -1e308], {"count": 2, "low": -1e308, "high": 1e308, "std": None}),
        ([True, False], {"count": 2, "zeros": 1, "mean": 0.5, "std": 0.5}),
        ([1j, 0], {"count": 2, "zeros": 1, "bad": 0}),
    ],
)
def test_values_of_weights_in_a_few_numbers(values: list[Any], wanted: dict[str, Any]) -> None:
    facts = value_facts(np.array(values))
    assert {key: facts[key] for key in wanted} == wanted
    assert sum(facts.get("bins", [])) in (0, facts["count"] - facts["bad"])
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_names_from_programs_never_become_markup() -> None:
    page = program_page(hostile(), title=HOSTILE)
    assert [tag for tag, _ in _Page(page).tags].count("b") == 0
    assert [tag for tag, _ in _Page(page).tags].count("script") == 2
    assert HOSTILE in page_data(page)["names"]  # type: ignore[operator]
    cell = hostile()._repr_html_()
    assert '<b>"x"' not in cell and "&lt;b&gt;&quot;x&quot;" in cell


def test_notebooks_show_programs(job: Job) -> None:
    cell = job.main._repr_html_()
    assert "Program: 19 ops in 1 block, 4 parameters" in cell and "<script" not in cell and "fc_0.w_0" in cell
    assert job.server(job.endpoints[0]).main._repr_html_().count("<details") == 4


# ---------- fluid.debugger
def test_runs_that_stop_at_the_first_nan() -> None:
    main = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        mean = fluid.layers.mean(fluid.layers.log(fluid.data("x", [None, 3])))
    exe = fluid.Executor(fluid.CPUPlace())
    assert debugger.prepare_fast_nan_inf_debug(main) is None
    (good,) = debugger.run_fast_nan_inf_debug(exe, main, {"x": [[1.0, 1.0, 1.0]]}, [mean])
    assert good == [0]
    with pytest.raises(NanInfError, match="log"):
        debugger.run_fast_nan_inf_debug(exe, main, {"x": [[1.0, -1.0, 1.0]]}, [mean], dump_core=False)
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
    with pytest.raises(TypeError, match="takes a Program"):
        debugger.prepare_fast_nan_inf_debug("x")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- the text of scripts
def test_listings_are_bounded(tmp_path: pathlib.Path) -> None:
    small, large, cut = (tmp_path / name for name in ("small.py", "large.py", "cut.py"))
    small.write_text("a = 1\nb = 2\n", encoding="utf8")
    large.write_text("x" * 50 + "\n" + ("y" * 50 + "\n") * 20_000, encoding="utf8")
    cut.write_text("one\n", encoding="utf8")
    (tmp_path / "key").write_text("secret\n", encoding="utf8")
    found = listings(
        {
            str(large): [5, 9000, 9050, 12000],
            str(small): [2],
            str(cut): [7],  # another version of the file: it has no such line
            str(tmp_path / "key"): [1],  # no script, whatever a model from elsewhere says
            str(tmp_path / "gone.py"): [1],
        }
    )
    assert sorted(found) == [str(large), str(small)]
    assert found[str(small)] == [(1, ["a = 1", "b = 2"])]
    assert [(first, len(lines)) for first, lines in found[str(large)]] == [(1, 45), (8960, 131), (11960, 81)]


def test_the_page_holds_the_script() -> None:
    page = program_page(training()[0])
    data = json.loads(_Page(page).scripts[0])
    ((first, lines),) = data["listings"][str(data["files"].index(__file__))]
    assert first == 1 and lines == pathlib.Path(__file__).read_text(encoding="utf8").splitlines()
