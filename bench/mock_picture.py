"""The README's picture of the mocked device: two of its recordings, as the course draws them.

    python -m bench.mock_picture

Writes docs/mocked.png, on a white ground, from onelayer/recordings/mocked. It needs no GPU.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

from onelayer.drawing.still import Still
from onelayer.memory.allocator_history import AllocatorHistory
from onelayer.memory.allocator_picture import AllocatorPicture
from onelayer.memory.stream_lanes import StreamLanes
from onelayer.memory.stream_trace import StreamTrace
from onelayer.recordings import MOCKED, Recording, read_recording

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "mocked.png"
NAMES = ("step_overlap", "step_memory")
WIDTH, MARGIN = 1600, 40


def drawn(recording: Recording) -> Still:
    """The recording as its page draws it, with the device's name in it."""
    device = recording.made.device if recording.made else ""
    if isinstance(recording.content, StreamTrace):
        return StreamLanes(recording.content, device)
    assert isinstance(recording.content, AllocatorHistory)
    return AllocatorPicture(recording.content, device)


def composed(recordings: list[Recording]) -> Image.Image:
    """One below the other, as wide as the page, in 64 colours."""
    parts = [_scaled(Image.open(BytesIO(drawn(one).images[0]))) for one in recordings]
    height = sum(part.height + MARGIN for part in parts) + MARGIN
    page, y = Image.new("RGB", (WIDTH, height), "white"), MARGIN
    for part in parts:
        page.paste(part, (MARGIN, y), part)
        y += part.height + MARGIN
    return page.quantize(64)


def _scaled(part: Image.Image) -> Image.Image:
    width = WIDTH - 2 * MARGIN
    return part.convert("RGBA").resize((width, round(part.height * width / part.width)))


def main() -> int:
    page = composed([read_recording(name, folder=MOCKED) for name in NAMES])
    page.save(PICTURE, optimize=True)
    print(f"{PICTURE.name}: {page.width} x {page.height}, {PICTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
