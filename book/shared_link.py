"""What a chat or a forum shows of a link to a page of the site: its title, a sentence, a picture.

    python -m book.shared_link

writes the picture, docs/shared_link.png: the 600 scores of a sentence's next word. A page names it
by its address in the repository: a picture needs a whole address, and the site has no fixed place.
"""

from __future__ import annotations

import re
from html import escape
from itertools import starmap

import onelayer
from autograder.authoring.address import BRANCH, REPOSITORY
from book.animation import opened
from book.unit import ROOT

PICTURE = "docs/shared_link.png"
ADDRESS = f"{REPOSITORY}/raw/{BRANCH}/{PICTURE}"
WIDE, TALL = 1200, 630
SENTENCE = "<en> she has eaten <es> ella"
ACROSS, SIDE = 50, 21
PAGE = """<style>
body {{ margin: 0; padding: 64px 74px; height: 502px; background: #17324d; color: #fff;
  font-family: system-ui, "DejaVu Sans", sans-serif; display: flex; flex-direction: column;
  justify-content: space-between }}
h1 {{ margin: 0; font-size: 84px; letter-spacing: -1px }}
code {{ font: 40px "DejaVu Sans Mono", monospace; color: #ffb000 }}
p {{ margin: 0; font-size: 27px; color: #c9d6e2 }}
</style>
<div><h1>One Layer Deep</h1><code>nn.Linear(64, 600)</code></div>
<svg width="1052" height="252">{cells}</svg>
<p>Python · dispatcher · autograd · kernel · memory · compiler · ranks</p>"""


def tags(title: str, description: str, locale: str, alt: str) -> str:
    """The lines for the head of a page. title: as it stands on the page, with code in it."""
    properties = {
        "og:type": "website",
        "og:site_name": "One Layer Deep",
        "og:title": re.sub("<[^>]+>", "", title),
        "og:description": escape(description),
        "og:locale": locale,
        "og:image": ADDRESS,
        "og:image:width": str(WIDE),
        "og:image:height": str(TALL),
        "og:image:alt": escape(alt),
    }
    lines = starmap('<meta property="{}" content="{}" />'.format, properties.items())
    return "\n".join([*lines, '<meta name="twitter:card" content="summary_large_image" />\n'])


def page() -> str:
    """The picture as a page: a cell for each score, the lighter the higher."""
    z = onelayer.head()(onelayer.hidden(SENTENCE))[-1].detach()
    shares = ((z - z.min()) / (z.max() - z.min())).tolist()
    best = shares.index(max(shares))
    cells = "".join(
        f'<rect x="{SIDE * (j % ACROSS)}" y="{SIDE * (j // ACROSS)}" width="{SIDE - 3}" '
        f'height="{SIDE - 3}" rx="2" fill="{"#ffb000" if j == best else "#fff"}" '
        f'fill-opacity="{1 if j == best else 0.08 + 0.8 * share**1.5:.3f}"/>'
        for j, share in enumerate(shares)
    )
    return PAGE.format(cells=cells)


def main() -> None:
    """Write the picture."""
    with opened(WIDE, TALL) as empty:
        empty.set_content(page())
        empty.screenshot(path=ROOT / PICTURE)
    print(f"{PICTURE}: {(ROOT / PICTURE).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
