"""The browser of the tests of pages, one for all of them, and a page in it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import Page, start_browser


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    pytest.importorskip("selenium", reason="no selenium, which drives the browser")
    made = start_browser()
    yield made
    made.quit()


@pytest.fixture
def page(driver: Any, folder: pathlib.Path) -> Iterator[Page]:
    """A page of the test's folder; whatever a test does, the browser's console stays empty."""
    driver.get_log("browser")
    yield Page(driver, folder)
    assert not driver.get_log("browser")
