"""Every code block of README, CONTRIBUTING and docs runs as written, and prints what the page shows."""

from __future__ import annotations

import ast
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pages
import pytest
from pages import PAGES, ROOT, Block, Command, Page
from ports import free_endpoint, free_ports

import fluidlite as fluid
from fluidlite.base.flags import known_flags
from fluidlite.cli.docs import groups
from fluidlite.cli.options import parser
from fluidlite.executor.passes import PASSES
from fluidlite.show import FORMATS

READ = [pages.read(path) for path in PAGES if path.exists()]
SECONDS = 300  # the longest that a block may take
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
LANGUAGES = {"python", "console", "text"}

# beginnings of commands that are not run here, each with the reason
NOT_RUN = {
    "make ": "sets up an environment of its own; that the target exists is checked",
    "pip install ": "changes the environment; that the extra exists is checked",
    "git clone ": "needs the network",
}


def folder_of(page: Page, folder: pathlib.Path) -> pathlib.Path:
    """Write the examples and the files that the page shows into a folder; return where its commands run."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for block in page.blocks:
        if "file" in block.run:
            file = folder / block.run["file"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.text, encoding="utf8")
    return folder / page.run.get("folder", ".")


def environment(**variables: str) -> dict[str, str]:
    """That of the tests, without roles of a job, and with this interpreter's commands found first."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PADDLE_", "TRAINING_"))
    }
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    return {**clean, "PATH": path, "NO_COLOR": "1", "FLAGS_rpc_deadline": "200000", **variables}


# ---------------------------------------------------------------------- Python
@pytest.mark.parametrize("page", [page for page in READ if page.python()], ids=lambda page: page.name)
def test_python_runs_and_prints_what_is_shown(page: Page, tmp_path: pathlib.Path) -> None:
    ran = subprocess.run(
        [sys.executable, pages.__file__, str(ROOT / page.name)],
        cwd=folder_of(page, tmp_path),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    printed = re.split("^" + pages.OUTPUT_OF.format(r"\d+") + "\n", ran.stdout, flags=re.M)[1:]
    for block, output in zip(page.python(), printed, strict=True):
        shown = page.shown_below(block)
        assert shown is None or pages.matches(shown, output), f"{block.place} printed:\n{output}"
    for picture in page.pictures():
        drawn = tmp_path / page.run.get("folder", ".") / picture.name
        hint = f"python tests/house/pages.py --pictures {page.name}"
        assert picture.read_bytes() == drawn.read_bytes(), f"{picture.name} is of another version: {hint}"


JOBS = [block for page in READ for block in page.blocks if "processes" in block.run]


@pytest.mark.parametrize("block", JOBS, ids=lambda block: block.place)
def test_a_script_of_a_job_runs_as_its_processes(block: Block, tmp_path: pathlib.Path) -> None:
    script = tmp_path / block.run["file"]
    script.write_text(block.text, encoding="utf8")
    roles = block.run["processes"].split(",")
    endpoints = [free_endpoint() for role in roles if role == "pserver"]
    shared = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_TRAINERS_NUM": str(roles.count("trainer")),
        "FLUIDLITE_JOB_KEY": "of this test",
    }
    started = []
    for index, role in enumerate(roles):
        number = roles[:index].count(role)
        own = {"PADDLE_TRAINER_ID": str(number)}
        if role == "pserver":
            host, port = endpoints[number].split(":")
            own = {"POD_IP": host, "PADDLE_PORT": port, "PADDLE_CURRENT_ENDPOINT": endpoints[number]}
        variables = environment(TRAINING_ROLE=role.upper(), **shared, **own)
        started.append(
            subprocess.Popen(
                [sys.executable, str(script)], cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True
            )
        )
    for process in started:
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors


# ---------------------------------------------------------------------- commands
def reason_not_to_run(command: Command) -> str | None:
    return next((reason for start, reason in NOT_RUN.items() if command.text.startswith(start)), None)


def console_blocks() -> list[object]:
    found = []
    for page in READ:
        for block in page.blocks:
            if block.language == "console" and not all(map(reason_not_to_run, pages.commands(block))):
                needs_mpi = any(
                    word in block.text for word in ("mpiexec", "nproc_per_node", "fluidlite-launch")
                )
                marks = [pytest.mark.mpi] if needs_mpi else []
                found.append(pytest.param(page, block, marks=marks, id=block.place))
    return found


@pytest.mark.parametrize("page, block", console_blocks())
def test_commands_print_what_is_shown(page: Page, block: Block, tmp_path: pathlib.Path) -> None:
    """The commands of a block run in one shell, so that what one exports the next ones see."""
    wanted = [command for command in pages.commands(block) if not reason_not_to_run(command)]
    script = (
        "".join(f"{command.text}\necho; echo '==== {i}' $?\n" for i, command in enumerate(wanted)) + "wait\n"
    )
    for port in set(re.findall(r"127\.0\.0\.1:(\d+)", script)) if "PADDLE_PSERVERS" in script else ():
        script = script.replace(port, str(free_ports(1)[0]))  # the page's may be taken by another test
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder_of(page, tmp_path),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    parts = re.split(r"\n==== \d+ (\d+)\n", ran.stdout)
    for command, output, code in zip(wanted, parts[0::2], parts[1::2], strict=False):
        assert int(code) == 0 or "error" in command.shown, f"{block.place} $ {command.text}\n{output}"
        if command.shown:
            assert pages.matches(command.shown, output), f"{block.place} $ {command.text}\n{output}"
    assert len(parts) == 2 * len(wanted) + 1, ran.stdout


COMMANDS = [
    command
    for page in READ
    for block in page.blocks
    if block.language == "console"
    for command in pages.commands(block)
]


def test_commands_that_are_not_run_name_what_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    for command in COMMANDS:
        if command.text.startswith("make "):
            assert re.search(rf"^{command.text.split()[1]}:", makefile, re.M), command.text
        for extra in re.findall(r"\[(\w+)\]", command.text) if command.text.startswith("pip ") else ():
            assert extra in config["options.extras_require"], command.text


# ---------------------------------------------------------------------- pages
@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_blocks_have_a_language_and_a_way_to_run(page: Page) -> None:
    assert {block.language for block in page.blocks} <= LANGUAGES
    indented = [line for line in page.prose.splitlines() if re.match(r" {4,}(?![-*|])", line)]
    assert not [line for line in indented if re.search(r"[=(]", line)], "code belongs in a fenced block"


# what looks like a path of the repository: a folder of it, then names
PATH = re.compile(r"`((?:fluidlite|executor|transpiler|tests|benchmarks|examples|docs)/[\w/.*-]*)`")


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_paths_exist(page: Page) -> None:
    missing = [path for path in PATH.findall(page.prose) if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    """To files that exist, and to headings of the pages that they name."""
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.prose)
    here = ROOT / page.name
    assert not [link for link, _ in links if link and not (here.parent / link).exists()]
    for link, heading in links:
        if heading:
            target = here.parent / link if link else here
            assert heading in headings(target), f"{page.name}: {link}#{heading}"


def headings(path: pathlib.Path) -> set[str]:
    """The fragments of a page's headings, as GitHub and MyST make them."""
    found = re.findall(r"^#+ (.+)$", pages.read(path).prose, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def test_every_page_is_in_one_group() -> None:
    """`docs/README.md` is what the site and `fluidlite docs` list."""
    index = groups((ROOT / "docs/README.md").read_text(encoding="utf8"))
    assert [group.title for group in index] == ["Start", "How to", "Learn", "Reference", "Inside"]
    listed = [(ROOT / "docs" / page.file).resolve() for group in index for page in group.pages]
    pages_here = {path for path in PAGES if path.name != "README.md"} | {ROOT / "CHANGELOG.md"}
    assert len(listed) == len(set(listed)) and set(listed) == pages_here
    names = [page.name for group in index for page in group.pages]
    assert len(names) == len(set(names))


def test_every_picture_is_shown() -> None:
    """A picture that a program draws is drawn by the page that shows it."""
    drawn = {picture for page in READ for picture in page.pictures()}
    assert drawn == set((ROOT / "docs/pictures").glob("*.svg"))


# ---------------------------------------------------------------------- tables
def test_the_command_page_has_every_option_and_format() -> None:
    text = next(page.prose for page in READ if page.name == "docs/COMMAND.md")
    options = set(re.findall(r"--[a-z][a-z-]*", parser().format_help()))
    assert not [name for name in options if not re.search(rf"`{name}\b", text)]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`\.\w+`(?:, )?)+) \|", text, re.M)
    listed = [pair for row in rows for pair in zip(*(cell.split(", ") for cell in row), strict=True)]
    assert listed == [(f"`{name}`", f"`{format_.suffix}`") for name, format_ in FORMATS.items()]


def test_flags_of_the_pages_exist() -> None:
    named = {name for page in READ for name in re.findall(r"FLAGS_\w+(?![\w*])", page.prose)}
    known = {f"FLAGS_{name.removeprefix('FLAGS_')}" for name in known_flags()}
    assert not {name for name in named if not any(flag.startswith(name) for flag in known)}


def test_every_room_is_listed() -> None:
    text = next(page.prose for page in READ if page.name == "docs/ARCHITECTURE.md")
    rooms = re.findall(r"^\| `([\w/]+)` \|", text, re.M)
    homes = (ROOT / name for name in ("fluidlite", "executor", "transpiler"))
    packages = [path.parent for home in homes for path in home.rglob("__init__.py")]
    assert sorted(rooms) == sorted(path.relative_to(ROOT).as_posix() for path in packages)


def defined(tree: ast.AST, name: str) -> bool:
    """True if a function, class or method called `name` or `Class.method` is defined in a module."""
    found = [node for node in ast.iter_child_nodes(tree) if isinstance(node, DEFINITIONS)]
    first, _, rest = name.partition(".")
    return any(node.name == first and (not rest or defined(node, rest)) for node in found)


def test_the_ways_through_the_house_are_real() -> None:
    """Rows of `docs/ARCHITECTURE.md` that name a file and a function of it."""
    text = next(page.prose for page in READ if page.name == "docs/ARCHITECTURE.md")
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (?:`([\w.]+)`)? ?\| \S", text, re.M)
    assert len(rows) > 40
    missing = []
    for file, name in rows:
        path = ROOT / file
        if not path.exists() or (name and not defined(ast.parse(path.read_text(encoding="utf8")), name)):
            missing.append(f"{file}: {name}")
    assert not missing


def test_the_passes_are_described() -> None:
    text = next(page.prose for page in READ if page.name == "docs/EXECUTOR.md")
    assert not [change.__name__ for change in PASSES if f"`{change.__name__}`" not in text]


# ---------------------------------------------------------------------- the reference
def test_the_reference_describes_every_public_thing_once(tmp_path: pathlib.Path) -> None:
    """`make docs` makes HTML of these pages, with every warning an error."""
    command = [sys.executable, str(ROOT / "docs" / "sphinx" / "build.py"), "--pages", str(tmp_path / "pages")]
    subprocess.run(command, env=environment(), check=True)
    pages_made = (tmp_path / "pages" / "reference").glob("*.rst")
    text = "\n".join(path.read_text(encoding="utf8") for path in pages_made)
    described = re.findall(r"^\.\. (?:autoclass|autofunction|py:data):: (\S+)$", text, re.M)
    assert len(described) == len(set(described))
    assert {"fluidlite.Executor", "fluidlite.optimizer.AdamOptimizer", "fluidlite.Program"} <= set(described)
    linked = {f"fluidlite.layers.{name}" for name in re.findall(r"^- :py:obj:`(\w+) <", text, re.M)}
    layers = {f"fluidlite.layers.{name}" for name, thing in vars(fluid.layers).items() if callable(thing)}
    public = {f"fluidlite.layers.{name}" for name in fluid.layers.__all__}
    assert public & layers <= {*described, *linked}


def test_pages_pictures_and_examples_are_installed() -> None:
    """`fluidlite docs` and `fluidlite examples` find them in the package."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = dict(config["options.package_data"])
    for package, folder in (
        ("fluidlite.docs", "docs"),
        ("fluidlite.docs.pictures", "docs/pictures"),
        ("fluidlite.examples", "examples"),
    ):
        assert package in config["options"]["packages"].split()
        files = [path for path in (ROOT / folder).iterdir() if path.is_file()]
        taken = [*patterns[package].split(", "), "*.py"]
        assert not [path for path in files if not any(path.match(pattern) for pattern in taken)]
