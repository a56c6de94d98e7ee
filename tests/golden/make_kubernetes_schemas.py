"""Keep the published schemas of the Kubernetes objects that job files hold.

From the folder `tests`, with a Python that has the package kubernetes-validate:

    python -m golden.make_kubernetes_schemas

writes `kubernetes_schemas.json.xz`: version -> definitions of a Job, a Service, a template of pods, and all
that they are made of, in their strict form, which takes no fields that it does not know.
"""

from __future__ import annotations

import json
import lzma
import pathlib
import re

import kubernetes_validate  # type: ignore[import-not-found]

VERSIONS = ("1.25", "1.37")
KINDS = ("io.k8s.api.batch.v1.Job", "io.k8s.api.core.v1.Service", "io.k8s.api.core.v1.PodTemplateSpec")
_REFERENCE = re.compile(r'"[^"]*#/(?:definitions|\$defs)/([^"]+)"')
HOME = pathlib.Path(__file__).parent / "kubernetes_schemas.json.xz"


def closure(version: str) -> object:
    """The definitions of KINDS, and those that they refer to."""
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    text = (folder / f"v{version}.0-local-strict" / "_definitions.json").read_text(encoding="utf8")
    whole = json.loads(text)
    every = whole.get("$defs") or whole["definitions"]
    found: dict[str, object] = {}
    waiting = list(KINDS)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        said = json.dumps(every[name])
        waiting += _REFERENCE.findall(said)
        found[name] = json.loads(_REFERENCE.sub(r'"#/definitions/\1"', said))
    return without_descriptions(found)


def without_descriptions(schema: object) -> object:
    """The schema without its texts, which are most of it."""
    if isinstance(schema, dict):
        texts = {"description"} if isinstance(schema.get("description"), str) else set()
        return {key: without_descriptions(value) for key, value in schema.items() if key not in texts}
    return [without_descriptions(item) for item in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    written = json.dumps({version: closure(version) for version in VERSIONS}, sort_keys=True)
    HOME.write_bytes(lzma.compress(written.encode()))
