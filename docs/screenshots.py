"""Drive the Prefect UI in a headless browser as a person would, and take the pictures of the docs.

    make screenshots        or: python -m docs.screenshots [FOLDER OF THE PICTURES]

In a copy of the project that is thrown away, it starts `make ui`, switches a schedule on, fills the form of the
pipeline in and submits it, watches the run and its trainings, and looks at the results; then the same with a sweep. It
fails if one of the two runs does not end as Completed. It takes some three minutes.

Needs Playwright for Python (`pip install playwright`) and Chromium; CHROMIUM names its program, if it is not on the
PATH. No browser is downloaded.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from tests.flows.conftest import PROJECT, Workspace, make_workspace

SLOW = {
    "backbone.flat.steps": 60_000,
    "backbone.flat.learning_rate": 1e-5,
}  # trainings of the tiny preset that last long enough to be seen
IDENTITY = ("-c", "user.name=screenshots", "-c", "user.email=screenshots@localhost")
SIZE = {"width": 1280, "height": 800}
TALL = {"width": 1280, "height": 1080}
COLOURS = 256  # enough for a page, and half the bytes
OPTIONS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--disable-component-update", "--disable-sync"]
PATIENCE = 300  # seconds that a run may take
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
PIPELINE_RUN = "glyphs, repetitions [0], folds [0, 1]"


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit("screenshots: no Chromium found: install it, or name its program in CHROMIUM")


def workspace(root: Path) -> Workspace:
    """A copy of the project on the tiny preset, with a commit for experiments to start from."""
    made = make_workspace(root)
    made.set(**SLOW)
    made.run("git", "add", "--all")
    made.run("git", *IDENTITY, "commit", "--quiet", "--message", "screenshots")
    return made


@contextmanager
def served(project: Workspace) -> Iterator[str]:
    """``make ui`` in a workspace; yields the UI's address."""
    ui = subprocess.Popen([sys.executable, "-m", "flows.ui"], cwd=project.root, env=project.environment)
    address = project.root / ".outclass/prefect/address"
    try:
        while not address.exists():
            if ui.poll() is not None:
                sys.exit("screenshots: the UI did not start; its words are above")
            time.sleep(0.2)
        yield address.read_text().removesuffix("/api")
    finally:
        ui.send_signal(signal.SIGINT)
        ui.wait()


@dataclass
class Visit:
    """A browser that looks at the UI, and where its pictures go."""

    page: Any
    url: str
    folder: Path

    def __post_init__(self) -> None:
        self.page.goto(self.url)
        self.page.wait_for_url("**/dashboard*")
        self.home = self.page.url.partition("/dashboard")[0]  # Prefect has two UIs: take the one that it shows itself

    def open(self, path: str) -> None:
        self.page.goto(f"{self.home}/{path}")

    def click(self, role: str, name: str) -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click(timeout=PATIENCE * 1000)

    def take(self, name: str) -> None:
        self.page.wait_for_timeout(2500)  # for what is drawn step by step
        path = self.folder / f"ui-{name}.png"
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"screenshots: {path}", flush=True)

    def ask(self, path: str, **body: Any) -> Any:
        """Of the server: where a thing is that has no name in the UI."""
        reply = self.page.request.post(f"{self.url}/api/{path}", data=body)
        assert reply.ok, reply.text()
        return reply.json()

    def open_deployment(self, name: str) -> None:
        self.open("deployments")
        self.click("link", name)

    def open_form(self, deployment: str) -> None:
        self.open_deployment(deployment)
        self.click("button", "Run")
        self.page.get_by_text("Custom run").click()
        self.page.get_by_role("button", name="Submit").wait_for()

    def submit(self) -> None:
        self.page.get_by_role("button", name="Submit").click()
        self.page.wait_for_url(lambda url: "/run?" not in url)  # to go on at once would take the request back

    def open_run(self, name: str) -> None:
        self.open("runs")
        self.click("link", name)
        self.page.wait_for_url("**/runs/flow-run/*")  # the list of runs has states, too

    def open_artifact(self, key: str) -> None:
        newest = self.ask("artifacts/latest/filter", artifacts={"key": {"any_": [key]}})[0]
        self.open(f"artifacts/artifact/{newest['latest_id']}")

    def wait_for_end(self) -> None:
        """Of the run that is open; the server knows it, while a page shows the states of other runs, too."""
        run = urlsplit(self.page.url).path.rpartition("/")[2]

        def end() -> str:
            state = self.page.request.get(f"{self.url}/api/flow_runs/{run}").json()["state"]
            return str(state["name"]) if state["type"] in FINAL else ""

        assert until(end) == "Completed", self.page.url
        self.page.get_by_text("Completed", exact=True).first.wait_for(timeout=PATIENCE * 1000)


def until(look: Callable[[], Any]) -> Any:
    """What is seen, as soon as there is something."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)
    return seen


def switch_a_schedule_on(visit: Visit) -> None:
    visit.open_deployment("pipeline")
    switch = visit.page.get_by_role("switch").first
    switch.click()
    until(lambda: switch.get_attribute("aria-checked") == "true")
    visit.take("schedule")


def start_the_pipeline(visit: Visit) -> None:
    visit.open_form("pipeline")
    visit.page.get_by_role("spinbutton").first.fill("2")
    visit.take("form")
    visit.submit()


def watch_it(visit: Visit) -> None:
    """One of its trainings and the run itself under way, and then its end."""
    training = until(lambda: half_done(visit))[0]
    visit.open(f"runs/flow-run/{training['flow_run_id']}")
    visit.take("training")
    visit.open_run(PIPELINE_RUN)
    visit.take("running")
    visit.wait_for_end()


def half_done(visit: Visit) -> list[Any]:
    """Progress of trainings of partitions that will last a little longer."""
    found = visit.ask("artifacts/filter", artifacts={"type": {"any_": ["progress"]}})
    return [each for each in found if "partitions" in each["description"] and 20 < each["data"] < 80]


def look_at_its_results(visit: Visit) -> None:
    for key in ("results", "curves"):
        visit.open_artifact(key)
        visit.take(key)
    assert_drawn(visit)


def assert_drawn(visit: Visit) -> None:
    picture = visit.page.locator("img[src^='data:image/png']").first
    assert picture.evaluate("image => image.naturalWidth") > 0


def run_a_sweep(visit: Visit) -> None:
    visit.open_form("sweep")
    visit.page.set_viewport_size(TALL)
    visit.take("sweep-form")
    visit.submit()
    visit.open_run("sweep theta")
    visit.wait_for_end()
    visit.page.set_viewport_size(SIZE)
    visit.open_artifact("sweep-theta-table")
    visit.take("sweep-table")
    visit.open_artifact("sweep-theta")
    visit.take("sweep")
    assert_drawn(visit)


def main(folder: Path) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("screenshots: Playwright is missing: `pip install playwright` into the environment")
    folder.mkdir(parents=True, exist_ok=True)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to sandbox itself for root
    with (
        tempfile.TemporaryDirectory(prefix="outclass-ui-") as root,
        sync_playwright() as playwright,
        served(workspace(Path(root) / "project")) as url,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS + sandbox)
        visit = Visit(browser.new_page(viewport=SIZE), url, folder)
        for step in (switch_a_schedule_on, start_the_pipeline, watch_it, look_at_its_results, run_a_sweep):
            step(visit)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PROJECT / "docs/images")
