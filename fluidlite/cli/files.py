"""Writing a job's programs to a folder, all files whole or none; folders that come with FluidLite."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterable, Sequence

import fluidlite
from fluidlite.cli.errors import UsageError
from fluidlite.cli.exchange import exchange_of
from fluidlite.show import FORMATS
from fluidlite.show.html import job_page
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["folder_of", "write_job"]


def folder_of(name: str) -> pathlib.Path:
    """The folder `docs` or `examples`: in the package, or beside it in a checkout."""
    for home in fluidlite.__path__:
        if (pathlib.Path(home) / name).is_dir():
            return pathlib.Path(home) / name
    raise UsageError(f"this installation of FluidLite has no {name}")


def write_job(
    job: Job, roles: Sequence[JobRole], formats: Iterable[str], folder: str, title: str, batch: int = 32
) -> list[str]:
    """Write `<role>.main.<suffix>` and `<role>.startup.<suffix>` for each role and format, `index.html` for
    html; the files' names.

    Everything is made in a folder beside the target's files first: where something fails, the target is as it
    was.
    """
    target = pathlib.Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        # inside the target, so on its file system: `os.replace` does not move files to another
        with tempfile.TemporaryDirectory(prefix=".fluidlite-", dir=target) as workplace:
            names = _write(job, roles, list(dict.fromkeys(formats)), pathlib.Path(workplace), title, batch)
            for name in names:
                os.replace(pathlib.Path(workplace) / name, target / name)
        return names
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from None


def _write(
    job: Job, roles: Sequence[JobRole], formats: Sequence[str], folder: pathlib.Path, title: str, batch: int
) -> list[str]:
    names = []
    for name in formats:
        if name == "html":
            (folder / "index.html").write_text(job_page(job, title, exchange_of(job, batch)), encoding="utf8")
            names.append("index.html")
            continue
        for role in roles:
            programs = job.programs(role)
            for which, program in (("main", programs.main), ("startup", programs.startup)):
                names.append(f"{role.name}.{which}{FORMATS[name].suffix}")
                (folder / names[-1]).write_bytes(FORMATS[name].render(program))
    return names
