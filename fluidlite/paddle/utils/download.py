"""`paddle.utils.download`: files of weights, fetched where the user allows it."""

from __future__ import annotations

import os

from fluidlite.paddle.dataset.common import find_file

__all__ = ["get_weights_path_from_url"]

WEIGHTS_HOME = os.path.expanduser("~/.cache/paddle/hapi/weights")


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of a file of weights in `WEIGHTS_HOME`, where 2.6.2 would have put it; MissingFileError where
    it is not there, FormatError where its MD5 sum is another one.
    """
    path = os.path.join(WEIGHTS_HOME, url.split("/")[-1])
    return find_file(path, url, md5sum)
