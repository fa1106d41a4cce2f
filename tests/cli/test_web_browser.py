# SPDX-License-Identifier: MIT
"""The page in a real Chromium: live content, keys, and no text of a job is interpreted as HTML."""
import pathlib
import re
import time

import pytest

import sealing
from lab import GPUQ
from launch_lab import PROGRAM
from web_lab import LIMIT, Page

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not (pathlib.Path(GPUQ).parent / "gpuq-web").exists(), reason="built without libmicrohttpd")]

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.common.exceptions import TimeoutException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

ATTACK = "echo '<img src=x onerror=\"document.title=`broken`\"><script>document.title=`broken`</script>'"


class Browser:
    """One Chromium, and operations on it."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,900"):
            options.add_argument(word)
        self.port = None
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    def open(self, page, more=""):
        # Another address in between: an address that differs only in its fragment would not be reloaded.
        self.port = page.port
        self.driver.get("about:blank")
        self.driver.get(page.address + more)
        return self

    def until(self, condition):
        try:
            return WebDriverWait(self.driver, LIMIT, poll_frequency=0.05, ignored_exceptions=(Exception,)).until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"timed out; the page:\n{self.describe()}") from None

    def describe(self):
        """Details for debugging a failure."""
        return self.driver.execute_script(
            "return [location.href, document.activeElement.outerHTML.slice(0, 200), ...[...document.querySelectorAll('dialog[open]')].map((d) => `open: ${d.id}`),"
            " document.body.innerText].join('\\n')") + "\n" + "\n".join(self.errors())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        # Not by screen position: rows appear, disappear and move.
        self.until(lambda: self.driver.execute_script("const e = document.querySelector(arguments[0]); e?.click(); return e !== null", selector))

    def text(self, selector):
        return self.driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def rows(self):
        """Ids in the table."""
        return self.driver.execute_script("return [...document.querySelectorAll('#rows th button')].map((b) => Number(b.textContent))")

    def row_state(self, number):
        return self.driver.execute_script(
            "return [...document.querySelectorAll('#rows tr')].find((r) => r.querySelector('th').textContent === String(arguments[0]))"
            "?.querySelector('.col-state').textContent", number)

    def press(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def focused(self):
        return self.driver.execute_script("const e = document.activeElement; return e.id || e.textContent")

    def media(self, **features):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]})

    def size(self, width, height, mobile=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def errors(self):
        """Errors of this page only: the page of the previous test may still send requests to its stopped server."""
        messages = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [message for message in messages if re.findall(r"127\.0\.0\.1:(\d+)", message)[:1] in ([], [str(self.port)])]


@pytest.fixture(name="browser", scope="module")
def start_browser():
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture(name="fresh")
def fresh_browser(browser):
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.media(prefers_color_scheme="light")
    browser.driver.get("about:blank")
    browser.errors()
    return browser


def test_the_page_shows_jobs_and_gpus_and_updates_them(lab, fresh):
    lab.add("--name", "first", "echo one")
    page = Page(lab)
    fresh.open(page)
    fresh.until(lambda: fresh.rows() == [1])
    fresh.until(lambda: len(fresh.all(".gpu")) == 2)
    assert fresh.text("#headline") == "1 pending, 0 of 1 job completed"
    assert "first" in fresh.text("#rows .col-command")
    # A new job appears by itself, and so does its end.
    lab.add("echo two")
    fresh.until(lambda: fresh.rows() == [1, 2])
    lab.gpuq("run")
    fresh.until(lambda: fresh.row_state(1) == fresh.row_state(2) == "completed")
    fresh.until(lambda: fresh.text("#headline") == "2 of 2 jobs completed")
    assert fresh.errors() == []


def test_file_opens_the_page_with_its_token(lab, fresh):
    page = Page(lab)
    url = page.process.stderr.readline().split()[-1]
    assert url.startswith("file://") and page.token not in url
    fresh.port = page.port
    fresh.driver.get(url)
    fresh.until(lambda: fresh.rows() == [1])
    assert fresh.driver.current_url.startswith(page.address.partition("#")[0]) and page.token not in fresh.driver.current_url
    assert fresh.errors() == []


def test_a_gpu_that_only_a_launch_uses_says_so(lab, launch, fresh):
    launch.environment["XDG_STATE_HOME"] = lab.environment["XDG_STATE_HOME"]
    launch.put("wait.wav")
    process = launch.start("--gpus", "sim:1", *PROGRAM)
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.text("#gpus .gpu:nth-child(1) .gpu-task") == "gpuq launch: wait.wav")
    assert fresh.text("#gpus .gpu:nth-child(2) .gpu-task") == "No job is running"
    (launch.directory / "go").touch()
    assert process.wait(LIMIT) == 0
    fresh.until(lambda: fresh.text("#gpus .gpu:nth-child(1) .gpu-task") == "No job is running")
    assert fresh.errors() == []


def test_all_queues_have_a_column_and_numbers_of_their_own(lab, fresh):
    for name in ("one", "two"):
        (lab.directory / name).mkdir()
        lab.gpuq("add", "--no-start", "--jobs-file", lab.directory / name / "jobs.jsonl", f"echo of {name}")
    fresh.open(Page(lab, "--all", queue=False))
    fresh.until(lambda: fresh.rows() == [1, 1] and fresh.text("#journal") == "2 queues")
    assert [cell.text for cell in fresh.all("#rows .col-queue")] == ["…/one", "…/two"]
    fresh.click("#rows tr:nth-child(2) th button")
    fresh.until(lambda: fresh.text("#job-command") == "echo of two")
    assert fresh.text("#job-title").startswith("Job 1") and str(lab.directory / "two") in fresh.text("#pane-details")
    fresh.click("#job-actions [data-action=cancel]")
    fresh.until(lambda: fresh.text("#ask-title") == f"Cancel job 1 of {lab.directory}/two?")
    fresh.click("#ask-yes")
    fresh.until(lambda: fresh.text("#rows tr:nth-child(2) .col-state") == "cancelled" and fresh.text("#rows tr:nth-child(1) .col-state") == "pending")
    assert fresh.errors() == []
    # The cards show the queue of a job.
    runner = lab.start("run", "--jobs-file", lab.directory / "one" / "jobs.jsonl")
    lab.gpuq("add", "--no-start", "--jobs-file", lab.directory / "one" / "jobs.jsonl", "--", "until [ -e go ]; do sleep 0.02; done")
    fresh.until(lambda: fresh.text("#gpus").count("#2 of …/one: until [") == 1)
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    # One queue needs no column.
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.rows() == [1])
    assert not fresh.one("#heads .col-queue").is_displayed()


def test_search_pages_and_states_select_rows(lab, fresh):
    lab.gpuq("add", "--no-start", "-", input="".join(f"train seed_{n}_\n" for n in range(150)))
    lab.gpuq("hold", "3")
    fresh.open(Page(lab))
    fresh.until(lambda: len(fresh.rows()) == 100)
    assert fresh.text("#page-words") == "1–100 of 150"
    fresh.click("#page-on")
    fresh.until(lambda: len(fresh.rows()) == 50)
    fresh.one("#search").send_keys("seed_14")
    fresh.until(lambda: len(fresh.rows()) == 11)
    fresh.until(lambda: fresh.text("#matching") == "11 jobs match")
    fresh.one("#search").clear()
    fresh.one("#search").send_keys("nothing has this")
    fresh.until(lambda: fresh.text("#empty") == "No job matches." and fresh.one("#empty").is_displayed())
    fresh.one("#search").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    fresh.click("[data-filter=held]")
    fresh.until(lambda: fresh.rows() == [3])
    assert fresh.one("[data-filter=held]").get_attribute("aria-pressed") == "true"
    fresh.click("[data-filter=held]")
    fresh.click("#heads .col-id button")
    fresh.click("#heads .col-id button")
    fresh.until(lambda: fresh.rows()[:2] == [150, 149])
    assert fresh.one("#heads .col-id").get_attribute("aria-sort") == "descending"


def test_a_log_is_followed_and_details_are_shown(lab, fresh):
    number = lab.add("printf 'one\\nprogress 1\\rprogress 2'; until [ -e go ]; do sleep 0.02; done; printf '\\n\\033[31mred\\033[0m end\\n'",
                     env={"VARIABLE_OF_THE_JOB": "is shown"})
    page = Page(lab)
    lab.start("run")
    fresh.open(page)
    fresh.until(lambda: fresh.row_state(number) == "running")
    fresh.click("#rows th button")
    # As a terminal shows it: a carriage return restarts the line.
    fresh.until(lambda: fresh.text("#log") == "one\nprogress 2")
    (lab.directory / "go").touch()
    fresh.until(lambda: fresh.text("#log") == "one\nprogress 2\nred end\n")
    assert fresh.text("#log .ansi1") == "red"
    fresh.until(lambda: "completed" in fresh.text("#job-title"))
    fresh.click("#tab-details")
    fresh.until(lambda: str(lab.directory) in fresh.text("#pane-details"))
    fresh.click("#tab-environment")
    fresh.until(lambda: "VARIABLE_OF_THE_JOB=is shown" in fresh.text("#pane-environment"))
    assert fresh.errors() == []


def test_a_log_can_be_downloaded_as_it_is(lab, fresh):
    lab.add("printf 'one\\rtwo\\033[31m\\n'")
    lab.gpuq("run")
    downloads = lab.directory / "downloads"
    downloads.mkdir()
    fresh.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    fresh.open(Page(lab), "&job=1")
    fresh.until(lambda: fresh.text("#log") == "two\n")
    fresh.click("#log-download")
    # The file gets its name only when it is complete.
    lab.until(lambda: (downloads / "job-1.log").exists(), "the file")
    assert (downloads / "job-1.log").read_bytes() == b"one\rtwo\033[31m\n"
    assert fresh.errors() == []


def test_a_long_log_is_downloaded_completely(lab, fresh):
    """The server limits the size of an answer."""
    lab.add("seq 400000")
    lab.gpuq("run")
    written = pathlib.Path(lab.job(1)["log_file"]).read_bytes()
    assert len(written) > 2 << 20
    downloads = lab.directory / "downloads"
    downloads.mkdir()
    fresh.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    fresh.open(Page(lab), "&job=1")
    fresh.until(lambda: fresh.text("#log").endswith("400000\n"))
    fresh.click("#log-download")
    lab.until(lambda: (downloads / "job-1.log").exists(), "the file")
    assert (downloads / "job-1.log").read_bytes() == written
    assert fresh.errors() == []


def test_an_empty_log_is_downloaded(lab, fresh):
    lab.add("true")
    lab.gpuq("run")
    downloads = lab.directory / "downloads"
    downloads.mkdir()
    fresh.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    fresh.open(Page(lab), "&job=1")
    fresh.until(lambda: fresh.text("#log-words") == "no output yet")
    fresh.click("#log-download")
    lab.until(lambda: (downloads / "job-1.log").exists(), "the file")
    assert (downloads / "job-1.log").read_bytes() == b""


def ran(number, minutes_ago, command="true"):
    """Events of a job that took a minute."""
    def moment(minutes):
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - minutes * 60))
    return [{"event": "add", "id": number, "time": moment(minutes_ago), "command": command, "cwd": "/"},
            {"event": "start", "id": number, "attempt": 1, "time": moment(minutes_ago), "gpus": [0], "pid": 1, "keeper": "k"},
            {"event": "end", "id": number, "attempt": 1, "time": moment(minutes_ago - 1), "status": "completed", "duration": 60, "exit_code": 0}]


@pytest.mark.parametrize("minutes, window", [(2, "5 min"), (9, "15 min"), (40, "1 h"), (200, "6 h"), (3000, "7 d")])
def test_the_first_window_fits_what_ran(lab, fresh, minutes, window):
    lab.journal.write_bytes(sealing.journal(*ran(1, minutes)))
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.text("#windows [aria-checked=true]") == window)
    fresh.until(lambda: "1 completed" in fresh.text("#throughput-title"))
    # A choice of the user is kept.
    fresh.click("#windows [data-minutes='1440']")
    fresh.until(lambda: fresh.text("#throughput-title").startswith("Jobs that ended, per 24 min"))
    assert fresh.text("#windows [aria-checked=true]") == "24 h"


def test_times_are_local_and_utc_on_request(lab, fresh):
    start = 1763200800  # 10:00:00 UTC
    event = {"time": "2025-11-15T10:00:00.000Z", "id": 1}
    lab.journal.write_bytes(sealing.journal(
        {"event": "add", "command": "true", "cwd": "/", **event}, {"event": "start", "attempt": 1, "gpus": [0], "pid": 1, "keeper": "k", **event},
        {"event": "end", "attempt": 1, "status": "completed", "duration": 60, "exit_code": 0, **event, "time": "2025-11-15T10:01:00.000Z"}))
    assert time.gmtime(start)[3:6] == (10, 0, 0)
    fresh.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    try:
        fresh.open(Page(lab))
        fresh.until(lambda: fresh.text("#rows .col-start") == "15 Nov 19:00")
        fresh.click("#rows th button")
        fresh.click("#tab-details")
        fresh.until(lambda: "15 Nov 2025, 19:00:00" in fresh.text("#pane-details"))
        fresh.click("#job-close")
        fresh.click("#utc")
        fresh.until(lambda: fresh.text("#rows .col-start") == "15 Nov 10:00")
        assert fresh.one("#utc").get_attribute("aria-pressed") == "true"
        fresh.click("#rows th button")
        fresh.click("#tab-details")
        fresh.until(lambda: "15 Nov 2025, 10:00:00 UTC" in fresh.text("#pane-details"))
        fresh.click("#job-close")
        fresh.click("#utc")
        fresh.until(lambda: fresh.text("#rows .col-start") == "15 Nov 19:00")
    finally:
        fresh.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    assert fresh.errors() == []


def test_selected_jobs_are_held_together(lab, fresh):
    numbers = [lab.add("--name", f"job{number}", "--", "true") for number in range(3)]
    page = Page(lab)
    fresh.open(page)
    fresh.until(lambda: len(fresh.rows()) == 3)
    fresh.click("#choose-all")
    fresh.until(lambda: fresh.text("#chosen-words") == "3 jobs selected")
    fresh.click("#chosen [data-act=hold]")
    fresh.until(lambda: all(fresh.row_state(number) == "held" for number in numbers))
    fresh.until(lambda: fresh.one("#chosen").get_attribute("hidden") is not None)
    assert fresh.errors() == []


def test_hole_in_a_log_is_described(lab, fresh):
    number = lab.add("echo begin; truncate -s 20K /dev/stdout; printf 'a\\0b\\n'; truncate -s 40K /dev/stdout; until [ -e go ]; do sleep 0.02; done; echo end")
    page = Page(lab)
    lab.start("run")
    fresh.open(page)
    fresh.until(lambda: fresh.row_state(number) == "running")
    fresh.click("#rows th button")
    told = fresh.until(lambda: fresh.text("#log").count(" missing: removed by max_log_size") == 2 and fresh.text("#log"))
    assert told.startswith("begin\n\n[gpuq: ") and "]\na\0b\n\n[gpuq: " in told, told
    (lab.directory / "go").touch()
    fresh.until(lambda: fresh.text("#log").endswith("]\nend\n"))
    assert fresh.text("#log").count("\0") == 1
    assert fresh.errors() == []


def test_name_and_output_of_a_job_are_never_html(lab, fresh):
    number = lab.add("--name", "<b onmouseover=alert(1)>name</b>", ATTACK, env={"EVIL": "<img src=x onerror=\"document.title='broken'\">"})
    lab.gpuq("run")
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.row_state(number) == "completed")
    assert ATTACK in fresh.text("#rows .col-command")
    fresh.click("#rows th button")
    fresh.until(lambda: "<img src=x onerror=" in fresh.text("#log"))
    fresh.click("#tab-details")
    fresh.until(lambda: ATTACK in fresh.text("#pane-details"))
    fresh.click("#tab-environment")
    fresh.until(lambda: "EVIL=<img" in fresh.text("#pane-environment"))
    assert fresh.all("img:not([src='/icon.svg'])") == [] and fresh.all("#rows b, #job b[onmouseover]") == []
    assert fresh.driver.title == "gpuq"
    assert fresh.errors() == []


def test_cancel_asks_first(lab, fresh):
    number = lab.add("until [ -e go ]; do sleep 0.02; done")
    page = Page(lab)
    lab.start("run")
    fresh.open(page)
    fresh.until(lambda: fresh.row_state(number) == "running")
    fresh.click("#rows th button")
    fresh.until(lambda: fresh.all("[data-action=cancel]"))
    fresh.click("[data-action=cancel]")
    fresh.until(lambda: fresh.one("#ask").get_attribute("open"))
    fresh.click("#ask-no")
    fresh.until(lambda: not fresh.one("#ask").get_attribute("open"))
    assert lab.job(number)["status"] == "running"
    fresh.click("[data-action=cancel]")
    fresh.until(lambda: fresh.one("#ask-yes").is_displayed())
    fresh.click("#ask-yes")
    fresh.until(lambda: fresh.all("#job-title [data-state=cancelled]"))
    assert lab.job(number)["status"] == "cancelled"


def test_page_can_be_used_with_the_keyboard_alone(lab, fresh):
    for n in range(3):
        lab.add("--hold", f"echo {n}")
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.rows() == [1, 2, 3])
    fresh.press("/")
    assert fresh.focused() == "search"
    fresh.press(Keys.ESCAPE, "j", "j")
    assert fresh.focused() == "2"
    # Focus can be seen.
    assert fresh.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    fresh.press(Keys.ENTER)
    fresh.until(lambda: fresh.one("#job").get_attribute("open") and fresh.all("[data-action=release]"))
    assert fresh.focused() == "job-title"
    fresh.press(Keys.TAB)
    fresh.press(Keys.ESCAPE)
    fresh.until(lambda: not fresh.one("#job").get_attribute("open"))
    assert fresh.focused() == "2"
    fresh.press("u")
    fresh.until(lambda: lab.job(2)["priority"] == 1000000000)
    fresh.press("c")
    fresh.until(lambda: fresh.one("#ask").get_attribute("open"))
    fresh.press(Keys.TAB, Keys.ENTER)
    fresh.until(lambda: fresh.row_state(2) == "cancelled")
    fresh.press("?")
    fresh.until(lambda: fresh.one("#help").get_attribute("open"))
    assert lab.job(1)["status"] == lab.job(3)["status"] == "held"


def test_page_has_landmarks_and_names_for_screen_readers(lab, fresh):
    lab.add("true")
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.rows() == [1])
    assert len(fresh.all("main:not([hidden])")) == 1 and fresh.all("header") and fresh.all("table caption") and fresh.all("th[scope=row]")
    fresh.until(lambda: fresh.text("#counts-words") == "1 pending")
    assert fresh.one("#counts-words").get_attribute("aria-live") == "polite"
    nameless = fresh.driver.execute_script(
        "return [...document.querySelectorAll('button, input, select, canvas, [role=tab], section')].filter((e) => !e.closest('[hidden]') && !("
        "e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length)).map((e) => e.outerHTML)")
    assert nameless == []


def contrast(one, other):
    def light(color):
        parts = [int(n) / 255 for n in re.findall(r"\d+", color)[:3]]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(lab, fresh, scheme):
    lab.add("--hold", "true")
    lab.add("exit 1")
    lab.gpuq("run", code=1)
    lab.add("true")
    fresh.media(prefers_color_scheme=scheme)
    fresh.open(Page(lab))
    fresh.until(lambda: len(fresh.rows()) == 3)
    ground = fresh.driver.execute_script("return getComputedStyle(document.querySelector('.table-panel')).backgroundColor")
    assert (contrast(ground, "rgb(255,255,255)") < 1.2) == (scheme == "light")
    for selector in ("#headline", "#rows .state[data-state=failed]", "#rows .state[data-state=held]", "#rows .state[data-state=pending]",
                     "#rows th button", ".gpu-name", "#pace"):
        color = fresh.driver.execute_script("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert contrast(color, ground) >= 4.5, (selector, color, ground)


def test_a_phone_never_scrolls_sideways(lab, fresh):
    number = lab.add("--name", "a-rather-long-name-of-a-job", "echo " + "x" * 400 + " " + "words " * 40)
    lab.gpuq("run")
    lab.add("exit 3")
    fresh.size(360, 740, mobile=True)
    fresh.open(Page(lab))
    fresh.until(lambda: len(fresh.rows()) == 2 and len(fresh.all(".gpu")) == 2)
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    assert fresh.driver.execute_script(wide) == [360, 360]
    fresh.click("#rows tr:last-child th button")
    fresh.until(lambda: fresh.text("#log"))
    for tab in ("log", "details", "environment"):
        fresh.click(f"#tab-{tab}")
        assert fresh.driver.execute_script(wide) == [360, 360], tab
        assert fresh.driver.execute_script("const d = document.getElementById('job'); return d.scrollWidth <= d.clientWidth"), tab
    assert number == 1


def test_a_phone_shows_jobs_before_cards_and_why_they_failed(lab, fresh):
    lab.add("exit 3")
    lab.gpuq("run", code=1)
    place = "return document.querySelector(arguments[0]).getBoundingClientRect().top"

    def above(first, second):
        return fresh.driver.execute_script(place, first) < fresh.driver.execute_script(place, second)

    fresh.size(1300, 900)
    fresh.open(Page(lab))
    fresh.until(lambda: fresh.rows() == [1] and len(fresh.all(".gpu")) == 2)
    assert above("#gpus", "#jobs") and fresh.text("#rows .col-note") == "exit 3"
    fresh.size(360, 740, mobile=True)
    fresh.until(lambda: above("#jobs", "#gpus"))
    assert above("#gpus", "#timeline")
    note = fresh.one("#rows .col-note")
    assert note.is_displayed() and note.text == "exit 3"
    red = fresh.driver.execute_script(
        "const e = document.createElement('i'); e.style.color = 'var(--failed)'; document.body.append(e); return getComputedStyle(e).color")
    assert fresh.driver.execute_script("return getComputedStyle(arguments[0]).color", note) == red


def test_without_the_token_it_asks_for_it(lab, fresh):
    page = Page(lab)
    page.address = page.address.split("#")[0]
    fresh.open(page)
    fresh.until(lambda: fresh.one("#gate").is_displayed())
    fresh.one("#gate-token").send_keys("wrong", Keys.ENTER)
    fresh.until(lambda: fresh.text("#gate-wrong") == "Wrong token.")
    fresh.one("#gate-token").clear()
    fresh.one("#gate-token").send_keys(page.token, Keys.ENTER)
    fresh.until(lambda: fresh.rows() == [1])
    assert fresh.driver.current_url == page.address


def test_token_leaves_the_address_and_the_tab_keeps_it(lab, fresh):
    page = Page(lab)
    fresh.open(page)
    fresh.until(lambda: fresh.rows() == [1])
    assert page.token not in fresh.driver.current_url
    fresh.driver.refresh()
    fresh.until(lambda: fresh.rows() == [1])
    fresh.click("#rows th button")
    fresh.until(lambda: fresh.driver.current_url.endswith("#job=1"))
    assert page.token not in fresh.driver.execute_script("return document.documentElement.outerHTML")
    # Another address in the same tab brings another token.
    fresh.driver.get(page.address[:-32] + "0" * 32)
    fresh.until(lambda: fresh.one("#gate").is_displayed())
    fresh.driver.get(page.address)
    fresh.until(lambda: fresh.rows() == [1])


def test_open_read_offers_nothing_to_do(lab, fresh):
    lab.add("--hold", "true")
    page = Page(lab, "--open-read")
    page.address = page.address.split("#")[0]
    fresh.open(page)
    fresh.until(lambda: fresh.rows() == [1])
    fresh.click("#rows th button")
    fresh.until(lambda: "held" in fresh.text("#job-title"))
    assert fresh.all("#job-actions button") == []
    fresh.click("#tab-environment")
    fresh.until(lambda: "only with the token" in fresh.text("#pane-environment"))


def test_the_page_comes_back_when_the_server_does(lab, fresh):
    page = Page(lab, "--open-read")
    fresh.open(page)
    fresh.until(lambda: fresh.rows() == [1])
    page.process.terminate()
    page.process.wait()
    fresh.until(lambda: fresh.text("#link-words") == "not connected")
    lab.add("echo meanwhile")
    again = lab.start("web", "--open-read", "--listen", f"127.0.0.1:{page.port}", text=True)
    assert again.stdout.readline()
    fresh.until(lambda: fresh.rows() == [1, 2] and fresh.text("#link-words") == "live")


def test_token_of_a_server_that_has_ended_opens_nothing_of_the_next(lab, fresh):
    page = Page(lab)
    fresh.open(page)
    fresh.until(lambda: fresh.rows() == [1])
    page.process.terminate()
    page.process.wait()
    again = lab.start("web", "--listen", f"127.0.0.1:{page.port}", text=True)
    address = again.stdout.readline().strip()
    fresh.until(lambda: fresh.one("#gate").is_displayed())
    assert page.status("/metrics") == 401
    fresh.driver.get(address)
    fresh.until(lambda: fresh.rows() == [1])
