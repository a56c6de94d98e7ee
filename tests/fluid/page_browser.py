"""A page in a browser: what the tests of pages share."""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import time
from typing import Any

import pytest
from PIL import Image

from fluidlite.cli.show import main

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
PICTURES = os.environ.get("FLUIDLITE_PICTURES")
BROWSER_MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no browser: Debian has chromium and chromium-driver"
    ),
]
LARGE, SMALL = (1280, 800), (800, 600)


class Page:
    """A page that is open in the browser."""

    def __init__(self, driver: Any, folder: pathlib.Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, name: str, address: str = "", size: tuple[int, int] = LARGE) -> None:
        """Load one of the pages anew; `address` is what stands behind its `#`."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get("about:blank")
        self.driver.get(f"file://{self.folder / name}.html#{address}")
        self.until("return document.documentElement.dataset.ready !== undefined")

    def js(self, script: str, *arguments: object) -> Any:
        """Run a script in the page; returns its result."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, seconds: float = 20) -> Any:
        """Wait until a script returns something true."""
        end = time.monotonic() + seconds
        while not (found := self.js(script)):
            assert time.monotonic() < end, script
            time.sleep(0.05)
        return found

    def keys(self, *keys: str) -> None:
        """Press keys, one after the other, where the focus is."""
        from selenium.webdriver import ActionChains  # optional: only these tests drive a browser

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def click(self, selector: str) -> None:
        """Click the first element that a selector finds."""
        self.driver.find_element("css selector", selector).click()

    def drag(self, selector: str, dx: int, dy: int, start: tuple[int, int] = (0, 0)) -> None:
        """Press the mouse at the middle of an element, or `start` from there, and move it."""
        from selenium.webdriver import ActionChains  # optional: only these tests drive a browser

        element = self.driver.find_element("css selector", selector)
        mouse = ActionChains(self.driver).move_to_element_with_offset(element, *start).click_and_hold()
        mouse.move_by_offset(dx // 2, dy // 2).move_by_offset(dx - dx // 2, dy - dy // 2).release().perform()

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that a selector finds."""
        found: list[str] = self.js(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )
        return found

    def address(self) -> str:
        """The part of the address behind its `#`."""
        text: str = self.js("return location.hash")
        return text

    def picture(self, name: str) -> None:
        """Save a picture of the window, where pictures are asked for."""
        if PICTURES:
            shot = Image.open(io.BytesIO(self.driver.get_screenshot_as_png()))
            # half of the bytes, and nobody sees it
            few = shot.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
            few.save(pathlib.Path(PICTURES) / f"{name}.png", optimize=True)


def write(folder: pathlib.Path, name: str, function: str, *options: str) -> None:
    argv = [f"page_programs:{function}", "--output", str(folder / f"{name}.html"), *options]
    assert main(argv) == 0


def start_browser() -> Any:
    """A browser that selenium drives."""
    from selenium import webdriver  # optional: only these tests drive a browser
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))
