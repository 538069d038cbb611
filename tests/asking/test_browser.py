"""The page in a real browser: Chromium, driven by Playwright; skipped where there is none."""

import subprocess
import sys
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rankwise.asking import Session

pytest.importorskip("uvicorn", reason="needs the extra ask")

from rankwise.asking.log import Log
from rankwise.asking.web.app import make_app
from rankwise.asking.web.guards import Doorkeeper, NoItemsYet
from tests.asking.serve_session import make_session, serving

PAGES = [pytest.mark.slow, pytest.mark.ci]
DOT = b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"><circle r="9"/></svg>').decode()
PATIENCE = 300_000  # milliseconds: a test waits for what must happen, however slow the machine


class Thread:
    """A page served by a thread of the tests, which can be stopped and started again."""

    def __init__(self, path):
        self.path, self.port = path, 0
        self.start()

    def start(self):
        self.running = ExitStack()
        session = self.running.enter_context(make_session(self.path))
        self.address = self.running.enter_context(serving(make_app(session), port=self.port))
        self.port = urlsplit(self.address).port
        self.link = f"{self.address}/start?token={Doorkeeper(session).organizer_key}"

    def stop(self):
        self.running.close()


class Process(Thread):
    """A page in a process of its own, which is killed."""

    def start(self):
        script = Path(__file__).with_name("serve_session.py")
        command = [sys.executable, str(script), str(self.path), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().strip()
        self.port = urlsplit(self.link).port
        self.address = f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.kill()  # as kill -9 does
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(
    params=[pytest.param(Thread, marks=PAGES), pytest.param(Process, marks=pytest.mark.slow)]
)
def server(request, tmp_path):
    made = request.param(tmp_path / "letters.ask")
    yield made
    made.stop()


def open_page(browser, **options):
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    context.set_default_navigation_timeout(PATIENCE)
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    return page, problems


def token(page):
    return page.locator("input[name=token]").get_attribute("value")


def wait_for_next(page, before):
    """Wait until another question is there, and its buttons work."""
    page.wait_for_function(
        "before => document.body.dataset.busy === 'no' &&"
        " (document.querySelector('input[name=token]') || {}).value !== before",
        arg=before,
        polling=50,  # milliseconds; every frame would keep the machine busy
    )


def press(page, key):
    """Press a key, and wait for the next question."""
    before = token(page)
    page.keyboard.press(key)
    wait_for_next(page, before)


def test_a_session_from_first_to_last(browser, server):
    page, problems = open_page(browser, viewport={"width": 1100, "height": 800})
    page.goto(server.link)
    assert page.url == f"{server.address}/organizer"  # the key is gone from the address
    page.click("nav >> text=Compare")
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown", "s"):
        press(page, key)
    assert "4 of them" not in page.inner_text("footer")
    assert "3 answers, 3 of them yours" in page.inner_text("footer")
    left = page.inner_text("#first-heading")
    press(page, "ArrowLeft")
    press(page, "u")
    assert page.inner_text("#first-heading") == left
    assert "3 answers" in page.inner_text("footer")
    assert "Taken back" in page.inner_text("#status")
    page.uncheck("#keys")  # keys can be turned off
    before = token(page)
    page.keyboard.press("ArrowLeft")
    page.check("#keys")
    assert token(page) == before
    page.focus("button[value=first]")  # with the keyboard alone, without shortcuts
    press(page, "Enter")
    assert page.evaluate("document.activeElement.value") == "first"
    before = token(page)
    page.dblclick("button[value=second]")  # the second click is not for the next pair
    wait_for_next(page, before)
    before = token(page)
    page.click("#first-heading + .content img")
    wait_for_next(page, before)
    assert "6 answers" in page.inner_text("footer")
    assert problems == []

    server.stop()
    before = token(page)
    page.click("button[value=second]")
    page.wait_for_selector("#connection:not([hidden])")
    server.start()
    page.click("button[value=second]")  # the page was open all the time
    wait_for_next(page, before)
    assert "7 answers" in page.inner_text("footer")

    page.click("nav >> text=Organize")
    page.wait_for_selector("table.ranking")  # when the first ranking is computed
    assert page.locator("table.ranking tbody tr").count() == 8
    page.fill("#name", "Ann")
    page.click("text=Make a link")
    link = page.input_value("input[aria-label='Link of Ann']")
    phone, troubles = open_page(
        browser, viewport={"width": 360, "height": 740}, color_scheme="dark", is_mobile=True
    )
    phone.goto(link)
    assert phone.locator("nav").count() == 0  # a rater, not the organizer
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for button in phone.locator("form.pair button").all():
        box = button.bounding_box()
        assert box["height"] >= 24
        assert box["width"] >= 24
    before = token(phone)
    phone.click("button[value=tie]")
    wait_for_next(phone, before)
    assert troubles == []
    page.click("text=All answers")
    assert "Ann" in page.inner_text("tbody tr >> nth=0")
    page.click("button[aria-label^='Withdraw'] >> nth=0")
    page.wait_for_selector("tr.dropped")
    server.stop()
    with Session(path=server.path) as session:
        assert session.n_answers() == 7
        assert len([a for a in session.answers if a.withdrawn]) == 2


def fits(page):
    """Whether a page is at most as wide as the screen."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [pytest.param(width, marks=PAGES) for width in (420, 1200)])
def test_pages_fit_the_screen(browser, tmp_path, width):
    """From items that are typed and dropped to the page for sharing."""
    unknown = NoItemsYet()
    door = Doorkeeper(unknown)

    def begin(items, pictures, question, goal):
        log = Log()
        log.append("session", {"secret": unknown.secret})
        log.take_files(pictures, {item.image for item in items})
        session = Session(items, question=question, goal=goal, log=log)
        session.add_rater("Bartholomew Featherstonehaugh")
        return session

    with serving(make_app(None, door=door, begin=begin)) as address:
        page, problems = open_page(browser, viewport={"width": width, "height": 800})
        page.goto(f"{address}/start?token={door.organizer_key}")
        assert page.url == f"{address}/begin"
        assert fits(page)
        page.fill("#items-text", "\n".join(["internationalization", "Handwriting", "Red", "C"]))
        for place, event, content in (
            (".drop", "DragEvent('drop', {dataTransfer", "['id\\nfrom a table\\n'], 'more.csv'"),
            ("body", "DragEvent('drop', {dataTransfer", "['dropped beside it'], 'beside.txt'"),
            ("body", "ClipboardEvent('paste', {clipboardData", f"[atob('{DOT}')], 'image.svg'"),
        ):
            page.evaluate(
                "() => { const sent = new DataTransfer();"
                f" sent.items.add(new File({content}, {{type: 'image/svg+xml'}}));"
                f" document.querySelector('{place}').dispatchEvent("
                f"new {event}: sent, bubbles: true, cancelable: true}})); }}"
            )
        assert page.inner_text("output") == "more.csv, beside.txt, picture 3.svg"
        page.fill("#question", "Which logo?")
        chosen = page.evaluate("document.querySelector('#file').files.length")
        page.evaluate(
            "() => { const sent = new DataTransfer();"
            " sent.items.add(new File([new Uint8Array(26 * 2 ** 20)], 'huge.png'));"
            " const input = document.querySelector('#file'), kept = input.files;"
            " const changed = () => input.dispatchEvent(new Event('change', {bubbles: true}));"
            " input.files = sent.files; changed();"
            " window.again = () => { input.files = kept; changed(); }; }"
        )
        page.click("text=Begin")  # is not sent, and nothing is lost
        assert page.url == f"{address}/begin"
        words = "These files have 26.0 MiB, and at most 25 can be sent at once."
        assert words in page.inner_text("output")
        page.evaluate("again()")
        assert page.evaluate("document.querySelector('#file').files.length") == chosen
        page.click("text=Begin")
        page.wait_for_url(f"{address}/organizer")
        assert fits(page)
        assert "The ranking is shown here after the first answers" in page.inner_text("#live")
        page.click("#live >> text=Compare")
        page.click("button.choose >> nth=0")
        page.wait_for_selector("text=1 answer, 1 of them yours")
        page.click("text=Organize")
        table = page.inner_text("table.ranking")
        for name in ("from a table", "beside.txt", "picture 3.svg"):
            assert name in table
        assert "P(best)" in table
        for name in ("internationalization", "Handwriting"):
            # The height of a line: the name is in one.
            box = page.locator("table.ranking th", has_text=name).bounding_box()
            assert box["height"] < 50
        page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        page.click("button.copy >> nth=0")
        page.wait_for_selector("button.copy:has-text('Copied')")
        link = page.input_value("input.link >> nth=0")
        assert page.evaluate("navigator.clipboard.readText()") == link
        for path in ("/organizer/answers", "/", "/share"):
            page.goto(f"{address}{path}")
            assert fits(page), path
        right = page.locator(".table table").bounding_box()
        assert right["x"] + right["width"] <= width  # the last column of the shared page
        assert problems == []
