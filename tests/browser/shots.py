"""Pictures of the dashboard's pages, to be looked at: `python -m tests.browser.shots [STORY...]`.

They go to build/shots, each page in two widths and two themes.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser import stories
from tests.browser.conftest import FLAGS, WIDTHS, an_app
from tests.browser.running import Running

FOLDER = Path("build/shots")


def main(names: list[str]) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = an_app(f"sqlite:///{folder}/shots.db", Path(folder))
        stories.declare(app, *names)
        running = Running(app, with_worker=True).start()
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            for address in running.do(lambda app: stories.tell(app, *names)):
                for width in WIDTHS:
                    for theme in ("light", "dark"):
                        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
                        page.goto(running.url + address)
                        page.locator("#live-state[data-state=live], #main.door").first.wait_for()
                        name = re.sub(r"[^a-z0-9]+", "-", address.lower()).strip("-") or "overview"
                        page.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png", full_page=True)
                        page.close()
                print(address)
        finally:
            browser.close()
            running.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
