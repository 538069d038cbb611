"""Make the pictures of the guide to `rankwise ask`: a session of the demo, in Chromium.

Usage: python -m docs.guide.asking_pictures, with the extra ask, playwright and Chromium.
"""

import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from rankwise.asking import Session
from rankwise.asking.items import demo_items, demo_settings
from rankwise.asking.log import Log
from rankwise.asking.web.app import make_app
from rankwise.asking.web.guards import Doorkeeper, NoItemsYet
from tests.asking.serve_session import serving

HERE = Path(__file__).parent
DESKTOP, PHONE = {"width": 1000, "height": 720}, {"width": 390, "height": 780}


def answered(n_answers):
    """A session with answers of three raters, who like some patterns better than others."""
    log, rng = Log(), np.random.default_rng(1)
    session = Session(demo_items(log.put_file), log=log, **demo_settings())
    names = [item.id for item in session.items]
    liking = 2 * rng.standard_normal(len(session.items))
    for k in range(n_answers):
        question = session.ask(("Ann", "Bob", "Carol")[k % 3])
        i, j = (names.index(item.id) for item in (question.first, question.second))
        gap = liking[i] - liking[j] + rng.standard_normal()
        session.answer(
            question.token, "tie" if abs(gap) < 0.2 else "first" if gap > 0 else "second"
        )
    return session


def main():
    session = answered(36)
    with serving(make_app(session)) as address, sync_playwright() as driver:
        session.settle()
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(viewport=DESKTOP).new_page()
        page.goto(f"{address}/start?token={Doorkeeper(session).organizer_key}")
        for name, path in (
            ("asking", "/"),
            ("asking-organizer", "/organizer"),
            ("asking-answers", "/organizer/answers"),
            ("asking-share", "/share"),
        ):
            page.goto(address + path)
            page.screenshot(path=HERE / f"{name}.png")
        unknown = NoItemsYet()
        empty = make_app(None, door=Doorkeeper(unknown), begin=lambda *given: session)
        with serving(empty) as first:
            page.goto(f"{first}/start?token={Doorkeeper(unknown).organizer_key}")
            page.fill("#question", "Which logo should we use?")
            page.fill("#items-text", "Blue mountain\nRed circle\nHandwriting\tdrawn by Ann")
            page.screenshot(path=HERE / "asking-begin.png", full_page=True)
        phone = browser.new_context(viewport=PHONE, color_scheme="dark", is_mobile=True).new_page()
        phone.goto(f"{address}/start?token={session.raters[0].key}")
        phone.screenshot(path=HERE / "asking-phone.png")
        browser.close()


if __name__ == "__main__":
    main()
