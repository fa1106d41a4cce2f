# SPDX-License-Identifier: MIT
"""The manual as HTML: it builds, and all its links are valid."""
import functools
import html.parser
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import urllib.parse

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
needed = [name for name in ("mkdocs", "mandoc", "scdoc") if not shutil.which(name)]
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(bool(needed), reason=f"not installed: {needed}")]


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        self.links += [values[name] for name in ("href", "src") if values.get(name)]


@pytest.fixture(scope="module", name="site")
def build_site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("docs")
    subprocess.run([SOURCE / "tools/docs", directory], check=True, timeout=600)
    return directory / "html"


def test_every_link_leads_somewhere(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 50
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                dead.append((path.name, link))
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                dead.append((path.name, link))
    assert dead == []


def test_man_pages_are_part_of_it_and_can_be_searched(site):
    for page in (SOURCE / "man").glob("*.scd"):
        assert (site / "man" / f"{page.stem}.html").exists()
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any("requeue-on" in entry["text"] for entry in entries if entry["location"].startswith("man/"))
    assert any(entry["location"].startswith("first-hour") for entry in entries)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


def test_search_finds_pages_in_a_browser(site):
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,900"):
        options.add_argument(word)
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        driver.get(f"http://127.0.0.1:{server.server_port}/index.html?q=requeue")
        found = WebDriverWait(driver, 120).until(
            lambda _: [link.get_attribute("href") for link in driver.find_elements("css selector", "a.md-search-result__link")])
    finally:
        driver.quit()
        server.shutdown()
    assert any("man/gpuq-add.1.html" in link or "sweeps.html" in link for link in found), found
