"""The moving picture of the README: the first page of the site, as a sentence grows in it.

    make book && python -m book.animation

Writes docs/living.gif from build/book/html, with the browser that the tests use.
"""

from __future__ import annotations

import io
import shutil

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from book.unit import ROOT

SITE = ROOT / "build" / "book" / "html" / "index.html"
PICTURE = ROOT / "docs" / "living.gif"
GIVEN, ADDED = "<en> she has eaten <es>", ("ella", "ha", "comido")
PAUSE = 1_300  # milliseconds for each picture
WIDE, TALL = 760, 560


def frames(page: Page) -> list[Image.Image]:
    """A picture for each word of the sentence, and one further down."""
    page.goto(SITE.as_uri(), wait_until="load")
    page.add_style_tag(content=".bd-header-article { display: none !important }")
    box = page.get_by_label("The sentence so far")
    taken = []
    for count in range(len(ADDED) + 1):
        box.fill(" ".join([GIVEN, *ADDED[:count]]))
        page.locator("#living").evaluate("it => it.scrollIntoView()")
        taken.append(picture(page))
    box.fill(" ".join([GIVEN, ADDED[0]]))  # its scores have more to show than those of the last
    for floor in ("python", "kernel", "compiler"):
        page.locator(f'[data-floor="{floor}"]').evaluate("it => it.scrollIntoView()")
        taken.append(picture(page))
    return taken


def picture(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE)


def main() -> None:
    """Write the picture."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDE, "height": TALL}, color_scheme="light")
        first, *others = frames(page)
        browser.close()
    first.save(PICTURE, save_all=True, append_images=others, duration=PAUSE, loop=0, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes, {1 + len(others)} pictures")


if __name__ == "__main__":
    main()
