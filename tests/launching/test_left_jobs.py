"""Workers that have left their job, or have not begun: one sentence at once, not the end of a time limit."""

from __future__ import annotations

import pathlib

from launcher import launch

LEFT = "this process has left the job (stop_worker, or exe.close()), and the server at 127.0.0.1:"


def test_what_a_worker_does_after_it_has_left(tmp_path: pathlib.Path) -> None:
    done = launch(
        tmp_path, "-n", "1", "--pservers", "1", str(pathlib.Path(__file__).with_name("left_fleet.py"))
    )
    assert done.returncode == 0 and "waiting for" not in done.stdout, done
    lines = [line.partition(" | ")[2] for line in done.stdout.splitlines() if line.startswith("trainer0 | ")]
    said = {name: (when, what) for name, when, what in (line.split("; ", 2) for line in lines)}
    assert said["stop"] == (
        "soon",
        "ArgumentError: fleet.stop_worker: this worker has not started: call fleet.init_worker() first",
    )
    for name in ("persistables", "inference", "train"):
        when, what = said[name]
        assert when == "soon" and LEFT in what and "has stopped since" in what, said
    assert said["stop again"] == ("soon", "done")
