"""Words for what is special in a random job, which rows of docs/TRANSPILERS.md ask for."""

from __future__ import annotations

from beside.jobs import Job

__all__ = ["job_tags"]

LOOKUPS = ("embedding", "embedding_v2", "pooled")


def job_tags(job: Job) -> set[str]:
    """Tags of the cluster, of the optimizer, and of what is trained."""
    config = job["config"]
    checks = {
        "one trainer": job["trainers"] == 1,
        "schedule": job["schedule"] is not None,
        "average": job["average"] is not None,
        "dc-asgd": config.get("enable_dc_asgd", False),
        "slices": config["slice_var_up"],
        "clip of the optimizer": job["clip"] is not None and job["clip"][1] == "optimizer",
        "not updated": _is_partly_idle(job),
        **_tags_of_tables(job),
    }
    found = {f"mode={job['mode']}", job["optimizer"][0]} | {name for name, holds in checks.items() if holds}
    return found | ({job["clip"][0]} if job["clip"] else set())


def _is_partly_idle(job: Job) -> bool:
    """True if a parameter may be that no update moves: frozen, or behind what passes no gradient on."""
    kinds = {layer[1] for layer in job["layers"]}
    return "'trainable': False" in repr(job["layers"]) or bool(kinds & {"stop", "unused"})


def _tags_of_tables(job: Job) -> dict[str, bool]:
    lookups = [layer for layer in job["layers"] if layer[1] in LOOKUPS]
    tables = [layer[3]["param_attr"]["name"] for layer in lookups]
    tables += [layer[3]["table"] for layer in job["layers"] if layer[1] == "tied"]
    sparse = [layer for layer in lookups if layer[3]["is_sparse"]]
    stops = [layer for layer in job["layers"] if layer[1] == "stop"]
    requests = {(layer[3]["param_attr"]["name"], layer[3]["padding_idx"]) for layer in sparse}
    return {
        "sparse": bool(sparse),
        "shared table": bool(sparse) and len(set(tables)) < len(tables),
        "paddings": len({table for table, _ in requests}) < len(requests),
        "frozen table": bool(sparse) and _is_partly_idle({"layers": [*lookups, *stops]}),
        "flat ids": any(layer[1] == "embedding_v2" for layer in sparse),
    }
