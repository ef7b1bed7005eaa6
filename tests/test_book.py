"""The book that `make book` builds: complete, in order, with links that lead somewhere and nothing from outside;
and its pages in headless Chromium, at a phone's width and a desktop's."""

import functools
import http.server
import importlib.util
import re
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import browser
import nbformat
import pytest
from browser import SCREENSHOTS, SIZES

chromium, tab = browser.chromium, browser.tab  # the fixtures
ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "book"

spec = importlib.util.spec_from_file_location("book", ROOT / "tools" / "book.py")
book = importlib.util.module_from_spec(spec)
spec.loader.exec_module(book)
NUMBERED = [path for path in book.notebooks() if path.parent.name == "notebooks"]


def name_of(path):
    return path.relative_to(ROOT).with_suffix(".html").as_posix()


@cache
def built():
    """Build the book, once for all tests, or skip."""
    for package in ("sphinx", "myst_nb", "sphinx_book_theme"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make test-book` installs it")
    if not book.MATHJAX.is_dir():
        pytest.skip("MathJax is not there; `make test-book` fetches it with npm")
    # warnings are errors, in there
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "book.py"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return PAGES


@cache
def page(name):
    from bs4 import BeautifulSoup  # comes with the theme

    return BeautifulSoup((built() / name).read_text(encoding="utf-8"), "html.parser")


def all_pages():
    return sorted(
        path.relative_to(PAGES).as_posix() for path in built().rglob("*.html") if "_static" not in path.parts
    )


def local(name, target):
    """What a page's link leads to, as (page or file, fragment); None for another site's."""
    url = urlsplit(urljoin(f"https://here/{name}", target))
    return (unquote(url.path[1:]) or "index.html", unquote(url.fragment)) if url.netloc == "here" else None


def test_next_leads_through_all_notebooks_in_order():
    built()
    walked, name = [], "index.html"
    while link := page(name).select_one("a.right-next"):
        name = local(name, link["href"])[0]
        walked.append(name)
    assert walked == [name_of(path) for path in book.notebooks()] + ["code.html"]
    for before, name in zip(["index.html", *walked], walked, strict=False):
        assert local(name, page(name).select_one("a.left-prev")["href"])[0] == before
    contents = [
        local("index.html", link["href"])[0]
        for link in page("index.html").select(".bd-sidebar-primary nav a")
    ]
    assert [name for name in contents if name != "index.html"] == walked


def test_every_link_leads_somewhere():
    ids = {}
    looked_at = 0
    for name in all_pages():
        for link in page(name).select("a[href]"):
            where = local(name, link["href"])
            if where is None or link["href"] == "#":
                continue
            looked_at += 1
            file, fragment = where
            assert (PAGES / file).is_file(), f"{name}: {link['href']}"
            if fragment and file.endswith(".html"):
                if file not in ids:
                    ids[file] = {tag["id"] for tag in page(file).select("[id]")}
                assert fragment in ids[file], f"{name}: {link['href']}"
    assert looked_at > 1000


def test_nothing_is_loaded_from_outside():
    for name in all_pages():
        for tag in page(name).select(
            "script[src], img[src], iframe[src], link[rel=stylesheet], link[rel=preload]"
        ):
            where = local(name, tag.get("src") or tag["href"])
            assert where and (PAGES / where[0]).is_file(), f"{name}: {tag}"
    for path in PAGES.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.name)
def test_outputs_are_the_stored_ones(path):
    built()
    article = page(name_of(path)).select_one("article")
    text = article.get_text()
    pictures = []
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                assert output.text.strip() in text, cell.id
            pictures += [about["alt"] for kind, about in output.get("metadata", {}).items() if "alt" in about]
    assert [image["alt"] for image in article.select(".cell_output img")] == pictures


def test_no_page_tells_where_it_was_made():
    for name in all_pages():
        assert str(ROOT) not in (PAGES / name).read_text(encoding="utf-8"), name


def test_every_picture_has_an_alternative_text():
    for name in all_pages():
        for image in page(name).select("img"):
            assert image.get("alt", "").strip(), f"{name}: {image}"


def test_a_gradient_leads_to_the_step_that_made_it():
    built()
    from makemore_bp.rules import GRADIENTS

    for name in GRADIENTS:
        path, anchor = book.derivations()[name]
        cell = page(name_of(path)).find(id=anchor)
        assert f'cmp("{name}"' in cell.get_text(), f"{name}: {path.name}#{anchor}"
    hidden = page("notebooks/05_batchnorm_in_nine_gradients.html")
    links = [link["href"] for link in hidden.select("a.source") if link.get_text() == '"hpreact"']
    assert links and set(links) == {"../notebooks/04_output_layer_and_tanh.html#dhpreact"}


def test_an_exercise_does_not_lead_to_its_answer():
    built()
    for path in book.notebooks():
        if path.parent.name == "exercises":
            assert not [
                link for link in page(name_of(path)).select("a.source") if "/notebooks/" in link["href"]
            ]


def test_a_function_leads_to_its_source():
    built()
    first = page(name_of(NUMBERED[0]))
    (href,) = {link["href"] for link in first.select("a.source") if link.get_text() == "forward"}
    file, fragment = local(name_of(NUMBERED[0]), href)
    assert "def forward(" in page(file).find(id=fragment).get_text()


@pytest.mark.parametrize(
    "repository, given, expected",
    [
        ("", "[03](notebooks/03_x.ipynb)", "[03](notebooks/03_x.ipynb)"),
        ("", "[the lecture](https://example.org/a)", "[the lecture](https://example.org/a)"),
        ("", "[pins](constraints.txt)", "pins"),
        (
            "https://example.org/o/n",
            "[pins](constraints.txt)",
            "[pins](https://example.org/o/n/blob/HEAD/constraints.txt)",
        ),
        ("", "[`StepCheck`](makemore_bp/loop.py)", "{py:mod}`StepCheck <makemore_bp.loop>`"),
    ],
)
def test_where_the_readmes_links_lead(monkeypatch, repository, given, expected):
    monkeypatch.setattr(book, "REPOSITORY", repository)
    assert re.sub(book.LINK, book.lead, given) == expected


def test_without_mathjax_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(book, "MATHJAX", tmp_path / "none")
    assert book.main() == 2
    assert "npm" in capsys.readouterr().err


# --- as a browser shows them

# Formulas that are left raw, whatever is wider than the window or has no text, and so on: what is wrong with a page.
LOOK = r"""async () => {
    const wrong = [];
    const article = document.querySelector("article");
    const formulas = article.querySelectorAll(".math");
    if (formulas.length) {
        await MathJax.startup.promise;
        await document.fonts.ready;
    }
    for (const formula of formulas)
        if (formula.querySelectorAll("mjx-container").length != 1) wrong.push("not set: " + formula.textContent);
    for (const error of article.querySelectorAll("mjx-merror")) wrong.push("formula: " + error.textContent);
    for (const font of document.fonts) if (font.status == "error") wrong.push("font: " + font.family);
    for (const box of article.querySelectorAll("mjx-container[display=true]"))
        if (box.scrollHeight > box.clientHeight + 1) wrong.push("cut off: " + box.textContent);

    const text = article.cloneNode(true);
    for (const code of text.querySelectorAll("pre, code, script, mjx-container")) code.remove();
    const raw = text.textContent.match(/\$\$|\$[^$\n]+\$|\\[a-zA-Z(\[]+/g);
    if (raw) wrong.push("raw: " + raw.join(" "));

    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) wrong.push(`the page is ${page.scrollWidth} wide`);
    for (const part of article.querySelectorAll("p, li, h1, h2, h3, pre, table, img:not(.wide)"))
        if (part.getBoundingClientRect().right > page.clientWidth + 1 && !part.closest("table, mjx-container, a:has(img)"))
            wrong.push("too wide: " + (part.textContent || part.alt).slice(0, 60));

    for (const image of document.querySelectorAll("img")) {
        if (!image.alt.trim()) wrong.push("no alternative text: " + image.src);
        await image.decode().catch(() => wrong.push("no picture: " + image.src));
    }
    return {wrong, formulas: formulas.length};
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64  # a browser asks for many files at once


@pytest.fixture(scope="module")
def site():
    handler = functools.partial(Quiet, directory=built())
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["index.html", *map(name_of, book.notebooks()), "code.html"])
def test_a_page_reads_well(tab, site, name):
    page = tab("phone")
    page.goto(site + name)
    for size in SIZES:  # one loading does for both
        page.set_viewport_size(SIZES[size])
        seen = page.evaluate(LOOK)
        assert not seen["wrong"], size
        if name.startswith("notebooks/05"):
            page.screenshot(path=SCREENSHOTS / f"book-{size}.png")
    if name.startswith("notebooks/0"):
        assert seen["formulas"] > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(tab, site, scheme):
    page = tab("phone", color_scheme=scheme)
    page.goto(site + "notebooks/02_shape_of_a_gradient.html")
    brightness = """() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"""
    assert (page.evaluate(brightness) > 384) == (scheme == "light")
    page.screenshot(path=SCREENSHOTS / f"book-phone-{scheme}.png")
    page.locator(".theme-switch-button:visible").click()
    other = "light" if scheme == "dark" else "dark"
    page.locator(f".theme-change-button[data-mode={other}]:visible").click()
    assert (page.evaluate(brightness) > 384) == (other == "light")


def test_search_finds(tab, site):
    page = tab("desktop")
    page.goto(site + "search.html?q=embedding")
    page.locator("#search-results li a").first.wait_for()
    assert "notebooks/06" in " ".join(
        link.get_attribute("href") for link in page.locator("#search-results li a").all()
    )


def test_a_phone_gets_from_page_to_page(tab, site):
    page = tab("phone")
    page.goto(site)
    page.locator("button.primary-toggle:visible").click()
    page.locator(".bd-sidebar-primary:visible, dialog:visible").get_by_role("link", name="02 ·").first.click()
    page.wait_for_url("**/notebooks/02*.html")
    page.locator("a.right-next").click()
    page.wait_for_url("**/notebooks/03*.html")
