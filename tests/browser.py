"""A headless Chromium for the tests that look at pages. CHROMIUM names one that is not found by itself."""

import os
import re
import shutil
from pathlib import Path

import pytest

SCREENSHOTS = Path(__file__).resolve().parent.parent / "build" / "screenshots"
SIZES = {"phone": {"width": 390, "height": 844}, "desktop": {"width": 1280, "height": 900}}
HARMLESS = (
    "Could not restore the debugger state"  # JupyterLab's, of a kernel that is shut before it has asked it
)
AS_ROOT = (
    hasattr(os, "geteuid") and os.geteuid() == 0
)  # root gets neither a sandbox nor, unasked, a Jupyter server


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed; `make test-book` does it"
    )
    with sync_api.sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM") or next(
            filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
            playwright.chromium.executable_path,
        )
        if not Path(path).is_file():
            pytest.skip(
                "there is no Chromium (Debian: apt install chromium; else: playwright install chromium)"
            )
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=not AS_ROOT)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """tab(size, ...) opens one; what goes wrong in it, and what it asks others for, fails the test."""
    contexts, wrong = [], []

    def heard(message):
        if message.type == "error" and not message.text.startswith(HARMLESS):
            wrong.append(f"console: {message.text}")

    def asked(request):
        if not re.match(r"(https?|wss?)://(localhost|127\.0\.0\.1)[:/]|data:|blob:|about:", request.url):
            wrong.append(f"asks for {request.url}")

    def opened(size, **how):
        context = chromium.new_context(viewport=SIZES[size], **how)
        contexts.append(context)
        context.set_default_timeout(120_000)  # on a busy machine
        new = context.new_page()
        new.on("console", heard)
        new.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        new.on("request", asked)
        new.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
        return new

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield opened
    for context in contexts:
        context.close()
    assert not wrong
