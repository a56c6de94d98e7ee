"""Setuptools reads setup.cfg; the long description is README.md with links that work everywhere."""

import pathlib
import re

from setuptools import setup

HOME = "https://github.com/fluidlite/fluidlite/"
README = pathlib.Path(__file__).with_name("README.md").read_text(encoding="utf8")

# pictures as files, pages as GitHub shows them
README = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{HOME}raw/main/", README)

setup(
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({HOME}blob/main/", README),
    long_description_content_type="text/markdown",
)
