"""`paddle.utils.download`: files that 2.6.2 fetches, which must be in their place here."""

from __future__ import annotations

import os

from fluidlite.base.errors import MissingFileError
from fluidlite.paddle.dataset.common import check_md5

__all__ = ["get_weights_path_from_url"]

WEIGHTS_HOME = os.path.expanduser("~/.cache/paddle/hapi/weights")


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of a file of weights in `WEIGHTS_HOME`, where 2.6.2 would have put it; MissingFileError where
    it is not there, FormatError where its MD5 sum is another one.
    """
    path = os.path.join(WEIGHTS_HOME, url.split("/")[-1])
    if not os.path.isfile(path):
        raise MissingFileError(f"file {path} not found: FluidLite does not download weights; put {url} there")
    if md5sum is not None:
        check_md5(path, md5sum)
    return path
