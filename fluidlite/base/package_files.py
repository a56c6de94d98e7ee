"""Files beside modules, such as kernels in CUDA C: read through the module's loader, which finds them in an
installation that is a zip file, too.
"""

from __future__ import annotations

import pkgutil

__all__ = ["text_beside"]


def text_beside(package: str, name: str) -> str:
    """The text of a file in the folder of a package, or below it with slashes between the parts."""
    data = pkgutil.get_data(package, name)
    assert data is not None, f"the loader of {package} reads no files"
    return data.decode("utf8")
