"""Pictures of a report as a desktop, a phone and a dark desktop show it, to be looked at.

    python -m tests.benchmarks.report_screenshots outputs/SWEEP/report.html FOLDER

Needs Chromium and its driver on the PATH (Debian: apt-get install chromium chromium-driver).
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.compare_screenshot import Page, browser


class View(NamedTuple):
    name: str
    width: int
    dark: bool = False


VIEWS = (View("desktop", 1280), View("phone", 390), View("dark", 1280, dark=True))


def main(argv: Sequence[str]) -> int:
    """Write one picture per view and tell what sticks out; 2 where the arguments do not fit."""
    if len(argv) != 2:
        sys.stderr.write(__doc__ or "")
        return 2
    report, folder = Path(argv[0]).resolve(), Path(argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as page:
        for view in VIEWS:
            png, width = picture(page, report, view)
            (folder / f"{view.name}.png").write_bytes(png)
            print(f"{view.name}: the page is {width} wide in a window of {view.width}")
    return 0


def picture(page: Page, report: Path, view: View) -> tuple[bytes, int]:
    """The whole page, and how wide it is: more than the window would mean that something leaks."""
    page.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=view.width,
        height=900,
        deviceScaleFactor=2 if view.width < 500 else 1,
        mobile=view.width < 500,
    )
    scheme = "dark" if view.dark else "light"
    page.devtools(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    page.show(report.as_uri())
    size = page.devtools("Page.getLayoutMetrics")["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": view.width, "height": size["height"], "scale": 1}
    shot = page.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    return base64.b64decode(shot["data"]), int(size["width"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
