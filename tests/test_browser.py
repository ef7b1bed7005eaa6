"""JupyterLab in headless Chromium: it opens every notebook, and runs two of them by its menu."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import browser
import nbformat
import pytest
from browser import AS_ROOT, SCREENSHOTS

chromium, tab = browser.chromium, browser.tab  # the fixtures
ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")) + sorted(
    (ROOT / "notebooks" / "exercises").glob("[0-9]*.ipynb")
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a copy of the notebooks, by the command of `make lab`; nothing of the reader's is touched."""
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    (command,) = re.findall(
        r"^lab:.*\n\t@\$\(PY\) (.+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    first = NOTEBOOKS[0].relative_to(ROOT).as_posix()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = [f"--port={port}", "--ServerApp.port_retries=0", "--no-browser", "--ServerApp.token="]
    own += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
    own += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", *["--allow-root"] * AS_ROOT]
    places = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, *command.replace("$(firstword $(NOTEBOOKS))", first).split(), *own],
            cwd=folder,
            env={**os.environ, **places, "IPYTHONDIR": str(folder / "ipython")},
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.25)
        yield f"http://127.0.0.1:{port}/lab"
    finally:
        process.terminate()  # and its kernels with it
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# What the notebook in front has come to.
STATE = """() => {
    const panel = jupyterapp.shell.currentWidget, cells = panel.content.model?.toJSON().cells ?? [];
    const code = cells.filter(cell => cell.cell_type == "code" && cell.source.length);
    return {
        path: panel.context.path, ready: panel.context.isReady, cells: cells.length,
        kernel: panel.sessionContext.session?.kernel?.status,
        waiting: code.filter(cell => cell.execution_count == null).length,
        errors: code.flatMap(cell => cell.outputs).filter(o => o.output_type == "error" || o.name == "stderr"),
        dialogs: [...document.querySelectorAll(".jp-Dialog")].map(dialog => dialog.textContent),
    };
}"""
READY = f"path => {{ const s = ({STATE})(); return s.path == path && s.ready && s.kernel == 'idle' }}"


def open_in(page, path):
    page.evaluate(
        "async path => { await jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook'}) }",
        path,
    )
    page.wait_for_function(READY, arg=path, timeout=60_000)
    return page.evaluate(STATE)


def close_in(page):
    page.evaluate(
        "async () => { const panel = jupyterapp.shell.currentWidget;"
        " await panel.sessionContext.shutdown(); panel.dispose() }"
    )


@pytest.fixture
def jupyterlab(tab, lab):
    page = tab("desktop")
    page.goto(f"{lab}/workspaces/test?reset")
    page.wait_for_function("() => window.jupyterapp?.shell && !document.querySelector('#jupyterlab-splash')")
    page.evaluate("async () => { await jupyterapp.restored }")
    return page


def test_lab_opens_every_notebook(jupyterlab):
    for path in NOTEBOOKS:
        state = open_in(jupyterlab, path.relative_to(ROOT / "notebooks").as_posix())
        assert state["cells"] == len(nbformat.read(path, as_version=4).cells)
        assert not state["errors"] and not state["dialogs"]
        assert jupyterlab.locator(".jp-NotebookPanel:not(.lm-mod-hidden) h1").count() == 1
        close_in(jupyterlab)


@pytest.mark.parametrize(
    "path", ["02_shape_of_a_gradient.ipynb", "exercises/03_cross_entropy_in_eight_steps.ipynb"]
)
def test_lab_runs_a_notebook_by_its_menu(jupyterlab, path):
    open_in(jupyterlab, path)
    jupyterlab.evaluate(
        "async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs') }"
    )
    assert jupyterlab.evaluate(STATE)["waiting"] > 10
    jupyterlab.locator("#jp-MainMenu").get_by_text("Run", exact=True).click()
    jupyterlab.locator(".lm-Menu").get_by_text("Run All Cells", exact=True).click()
    done = f"() => {{ const s = ({STATE})(); return s.kernel == 'idle' && !s.waiting || s.errors.length }}"
    jupyterlab.wait_for_function(done, timeout=120_000)
    state = jupyterlab.evaluate(STATE)
    assert not state["errors"] and not state["dialogs"] and state["waiting"] == 0
    assert jupyterlab.locator(".jp-OutputArea-output img").count() > 0
    jupyterlab.screenshot(path=SCREENSHOTS / f"lab-{Path(path).parent.name or 'notebook'}.png")
    close_in(jupyterlab)
