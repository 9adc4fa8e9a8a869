"""Drive the Prefect UI in a headless browser: start a run from its form, and take the pictures of docs/scheduling.md.

    make screenshots        or: python docs/screenshots.py [FOLDER OF THE PICTURES]

Needs Playwright for Python (`pip install playwright`) and Chromium; CHROMIUM names its program, if it is not on the
PATH. No browser is downloaded. The run is that of the tiny preset, in a copy of the project that is thrown away; it
takes some two minutes, and the script fails if the run does not end as Completed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
COPIED = ("outclass", "stages", "flows", "dvc.yaml", "prefect.yaml", ".dvcignore", ".gitignore")
SIZE = {"width": 1280, "height": 800}
OPTIONS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--disable-component-update", "--disable-sync"]
PATIENCE = 300_000  # milliseconds that a run may take


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit("screenshots: no Chromium found: install it, or name its program in CHROMIUM")


def workspace(root: Path) -> None:
    """A copy of the project on the tiny preset."""
    for name in COPIED:
        source = PROJECT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, root / name)
    (root / ".dvc").mkdir()
    shutil.copy(PROJECT / ".dvc/config", root / ".dvc/config")
    shutil.copy(PROJECT / "presets/tiny.yaml", root / "params.yaml")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)


@contextmanager
def served(root: Path) -> Iterator[str]:
    """``make ui`` in a folder; yields the UI's address."""
    ui = subprocess.Popen([sys.executable, "-m", "flows.ui"], cwd=root)
    address = root / ".outclass/prefect/address"
    try:
        while not address.exists():
            if ui.poll() is not None:
                sys.exit("screenshots: the UI did not start; its words are above")
            time.sleep(0.2)
        yield address.read_text().removesuffix("/api")
    finally:
        ui.send_signal(signal.SIGINT)
        ui.wait()


def take(page, folder: Path, name: str) -> None:
    page.wait_for_timeout(2500)  # for what is drawn step by step
    page.screenshot(path=folder / f"ui-{name}.png")
    print(f"screenshots: {folder / f'ui-{name}.png'}", flush=True)


def start_a_run(page, url: str, folder: Path) -> None:
    """Deployments > pipeline > Run > Custom run, a parameter, Submit."""
    page.goto(f"{url}/deployments")
    page.get_by_role("link", name="pipeline").first.wait_for()
    take(page, folder, "deployments")
    page.get_by_role("link", name="pipeline").first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("items_at_a_time").wait_for()
    page.get_by_role("spinbutton").first.fill("2")
    take(page, folder, "form")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/deployments/deployment/*")


def watch_it(page, url: str, folder: Path) -> None:
    """The run on its page, until it is completed."""
    page.goto(f"{url}/runs")
    page.get_by_role("link", name="glyphs, repetitions [0], folds [0, 1]").first.click(timeout=PATIENCE)
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=PATIENCE)
    page.reload()
    take(page, folder, "run")


def look_at_artifacts(page, url: str, folder: Path) -> None:
    for key in ("results", "curves"):
        page.goto(f"{url}/artifacts/key/{key}")
        page.locator("a[href*='/artifacts/artifact/']").first.click()
        take(page, folder, key)
    assert page.locator("img[src^='data:image/png']").first.evaluate("image => image.naturalWidth") > 0


def main(folder: Path) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("screenshots: Playwright is missing: `pip install playwright` into the environment")
    folder.mkdir(parents=True, exist_ok=True)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to sandbox itself for root
    with tempfile.TemporaryDirectory(prefix="outclass-ui-") as root, sync_playwright() as playwright:
        workspace(Path(root))
        with served(Path(root)) as url:
            browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS + sandbox)
            page = browser.new_page(viewport=SIZE)
            for step in (start_a_run, watch_it, look_at_artifacts):
                step(page, url, folder)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PROJECT / "docs/images")
