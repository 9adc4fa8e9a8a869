"""``make ui``: server, work pool, deployments and worker; runs started in the UI; and a clean end."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from flows import ports, server, ui
from outclass.errors import OutclassError

pytestmark = pytest.mark.slow
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Served:
    """``make ui`` in a workspace, as a browser sees it."""

    def __init__(self, workspace: Any, wait_until: Callable[[Callable[[], object], float], None]) -> None:
        self.workspace, self.wait_until = workspace, wait_until
        self.address = workspace.root / ".outclass/prefect/address"
        self.start()

    def start(self) -> None:
        self.address.unlink(missing_ok=True)  # one that was killed has left its own
        self.process = self.workspace.start("python", "-m", "flows.ui")
        self.wait_until(lambda: self.address.exists() or self.process.poll() is not None, 180)
        assert self.process.poll() is None, self.process.communicate()[0]
        self.url = self.address.read_text()

    def post(self, path: str, **body: Any) -> Any:
        response = httpx.post(f"{self.url}/{path}", json=body, timeout=60)
        assert response.is_success, response.text
        return response.json()

    def deployment(self, name: str = "pipeline") -> Any:
        (found,) = [each for each in self.post("deployments/filter") if each["name"] == name]
        return found

    def run(self, **parameters: Any) -> str:
        path = f"deployments/{self.deployment()['id']}/create_flow_run"
        return str(self.post(path, parameters=parameters, state={"type": "SCHEDULED"})["id"])

    def state(self, run: str) -> Any:
        return httpx.get(f"{self.url}/flow_runs/{run}", timeout=60).json()["state"]

    def end_of(self, run: str, seconds: float = 240) -> Any:
        self.wait_until(lambda: self.state(run)["type"] in FINAL, seconds)
        return self.state(run)

    def training(self) -> bool:
        return any("flows.backbone" in command for command in self.workspace.leftovers())

    def stop(self, sign: signal.Signals = signal.SIGINT) -> str:
        os.kill(self.process.pid, sign)
        output, _ = self.process.communicate(timeout=90)
        return output


@pytest.fixture
def serve(wait_until: Callable[[Callable[[], object], float], None]) -> Iterator[Callable[[Any], Served]]:
    started: list[Served] = []

    def start(workspace: Any) -> Served:
        started.append(Served(workspace, wait_until))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.stop()


def test_it_serves_the_pipeline_and_ends_cleanly(prepared, serve):
    served = serve(prepared)
    deployment = served.deployment()
    assert deployment["work_pool_name"] == "outclass"
    assert deployment["global_concurrency_limit"]["limit"] == 1
    assert deployment["concurrency_options"]["collision_strategy"] == "ENQUEUE"
    assert [schedule["active"] for schedule in deployment["schedules"]] == [False]
    assert str(prepared.root) not in (prepared.root / "prefect.yaml").read_text()

    prepared.set(**{"ensemble.cost": 2.0})
    output = prepared.python("flows.pipeline")
    assert f"Prefect UI at {served.url.removesuffix('/api')}" in output  # no second server
    (run,) = served.post("flow_runs/filter", flows={"name": {"any_": ["pipeline"]}})
    assert run["name"] == "glyphs, repetitions [0], folds [0, 1]"
    assert run["state"]["type"] == "COMPLETED"

    again = prepared.python("flows.ui", check=False)
    assert f"the UI of this folder is served already, at {served.url.removesuffix('/api')}" in again

    output = served.stop()
    assert "ui: stopped" in output
    assert "Traceback" not in output
    assert not served.address.exists()
    assert prepared.leftovers() == []


def test_the_pages_ask_their_own_server_on_any_port(api):
    settings = httpx.get(f"{api.removesuffix('/api')}/ui-settings").json()
    assert settings["api_url"] == api  # else a browser would ask at Prefect's usual port


def test_the_parameters_make_a_form(prepared, serve):
    served = serve(prepared)
    asked = served.deployment("sweep")["parameter_openapi_schema"]["properties"]
    assert [asked[name]["type"] for name in ("grid", "seeds", "repetitions", "folds")] == ["object"] + ["array"] * 3
    assert all(field["description"] and "anyOf" not in field for field in asked.values())
    fields = served.deployment()["parameter_openapi_schema"]["properties"]
    assert list(fields) == ["items_at_a_time", "runner", "slots", "slots_per_gpu", "device", "retries"]
    assert fields["runner"]["enum"] == ["as configured", "local", "ray"]
    assert fields["slots"]["type"] == "integer"
    assert all(field["description"] and "default" in field and "anyOf" not in field for field in fields.values())


def test_a_run_started_in_the_ui_gives_the_same_tables_and_shows_them(workspace, reference, serve):
    served = serve(workspace)
    run = served.run(slots=2, items_at_a_time=2)
    served.wait_until(lambda: served.state(run)["type"] == "RUNNING", 120)
    second = served.run()
    assert served.end_of(run)["type"] == "COMPLETED"
    for folder in ("data", "splits", "features", "runs", "report"):
        assert workspace.digests(folder) == reference.digests(folder)

    artifacts = served.post("artifacts/filter", artifacts={"flow_run_id": {"any_": [run]}})
    shown = {each["key"]: each for each in artifacts}
    assert {key: each["type"] for key, each in shown.items()} == {
        "results": "table",
        "paper-s-1": "table",
        "paper-s-5": "table",
        "curves": "markdown",
        "report": "markdown",
    }
    assert '"AUC, s = 3"' in shown["results"]["data"]
    first = json.loads(shown["paper-s-1"]["data"])[0]
    assert first["Method"] == "Our method (ensemble-count)"
    assert first["AUC (%) Cifar-100 (published)"] == "68 ± 3"
    assert first["AUC (%) glyphs (measured here)"] == json.loads(shown["results"]["data"])[0]["AUC, s = 1"]
    assert "data:image/png;base64," in shown["curves"]["data"]
    report = (workspace.root / ".outclass/prefect/report-address").read_text()
    assert f"{report}/index.html" in shown["report"]["data"]
    assert httpx.get(f"{report}/index.html").text == (workspace.root / "report/index.html").read_text()
    assert httpx.get(f"{report}/../params.yaml").status_code == 404

    bars = served.post("artifacts/filter", artifacts={"type": {"any_": ["progress"]}})
    assert len(bars) == 6  # two backbones, two chunks of partitions each
    assert {bar["data"] for bar in bars} == {100}

    tasks = served.post("task_runs/filter", flow_runs={"id": {"any_": [run]}})
    assert {"partitions@0-1", "evaluate", "dvc repro"} <= {task["name"] for task in tasks}
    assert served.end_of(second)["type"] == "COMPLETED"  # it waited for the first, and found nothing to do


def test_a_failure_names_the_item_and_its_cause_with_the_log(prepared, serve):
    prepared.set(**{"backbone.flat.steps": 31})
    served = serve(prepared)
    run = served.run(device="cuda", items_at_a_time=1)  # it reaches the stage's process: there is no such thing here
    state = served.end_of(run)
    assert state["type"] == "FAILED"
    (failed,) = served.post(
        "task_runs/filter", flow_runs={"id": {"any_": [run]}}, task_runs={"state": {"type": {"any_": ["FAILED"]}}}
    )
    for message in (state["message"], failed["state"]["message"]):
        assert f"{failed['name']} failed; its log is .outclass/logs/{failed['name']}.log" in message
        assert "torch sees no GPU" in message

    def told() -> bool:
        log = served.post("logs/filter", logs={"task_run_id": {"any_": [failed["id"]]}})
        return any("the last lines of" in line["message"] and "torch sees no GPU" in line["message"] for line in log)

    served.wait_until(told, 90)  # Prefect sends logs now and then, a run's end at once

    assert served.end_of(served.run())["type"] == "COMPLETED"  # the parameter was of that run only


def test_neither_a_cancelled_run_nor_a_killed_ui_leaves_anything(prepared, serve, wait_until):
    prepared.set(**{"backbone.flat.steps": 200000})
    served = serve(prepared)
    schedules = change_schedules(served)

    run = served.run()
    wait_until(served.training, 120)
    served.post(f"flow_runs/{run}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert served.end_of(run)["type"] == "CANCELLED"
    wait_until(lambda: not any("dvc" in command for command in prepared.leftovers()), 90)

    run = served.run()
    wait_until(served.training, 120)
    served.stop(signal.SIGKILL)
    wait_until(lambda: not any("python" in command for command in prepared.leftovers()), 60)

    served.start()
    assert served.state(run)["type"] == "CRASHED"
    assert "was killed" in served.state(run)["message"]
    assert shown_schedules(served) == schedules  # as they were left in the UI

    plain = prepared.start("python", "-m", "flows.partitions", "--repetition", "0", "--fold", "0")
    wait_until(lambda: "partitions r0 f0" in names_of(served, "RUNNING"), 120)
    os.killpg(plain.pid, signal.SIGKILL)
    plain.communicate()
    served.stop()
    served.start()
    assert names_of(served, "RUNNING") == set()
    assert "partitions r0 f0" in names_of(served, "CRASHED")
    assert shown_schedules(served) == schedules


def test_a_schedule_that_is_switched_on_starts_runs(prepared, serve, wait_until):
    served = serve(prepared)
    deployment = served.deployment()
    (schedule,) = deployment["schedules"]
    soon = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    path = f"{served.url}/deployments/{deployment['id']}/schedules/{schedule['id']}"
    every_week = {"interval": 7 * 24 * 3600, "anchor_date": soon, "timezone": "UTC"}
    assert httpx.patch(path, json={"active": True, "schedule": every_week}).is_success

    def completed() -> list[Any]:
        runs = served.post("flow_runs/filter", flow_runs={"state": {"type": {"any_": ["COMPLETED"]}}})
        return [run for run in runs if run["auto_scheduled"] and run["deployment_id"] == deployment["id"]]

    wait_until(completed, 180)


def change_schedules(served: Served) -> list[Any]:
    """Switch one on for another time, and add one, as can be done in the UI."""
    deployment = served.deployment()
    (schedule,) = deployment["schedules"]
    path = f"{served.url}/deployments/{deployment['id']}/schedules"
    late = {"cron": "30 22 1 1 *", "timezone": "Europe/Berlin"}  # none that comes while tests run
    assert httpx.patch(f"{path}/{schedule['id']}", json={"active": True, "schedule": late}).is_success
    added = [{"schedule": {"cron": "0 12 * * 1"}, "active": False, "parameters": {"slots": 1}}]
    assert httpx.post(path, json=added).is_success
    assert len(shown_schedules(served)) == 2
    return shown_schedules(served)


def shown_schedules(served: Served) -> list[Any]:
    fields = ("slug", "schedule", "active", "parameters")
    return sorted(([each[field] for field in fields] for each in served.deployment()["schedules"]), key=repr)


def names_of(served: Served, state: str) -> set[str]:
    runs = served.post("flow_runs/filter", flow_runs={"state": {"type": {"any_": [state]}}})
    return {run["name"] for run in runs}


def test_a_run_that_the_ui_is_stopped_in_is_cancelled(prepared, serve, wait_until):
    prepared.set(**{"backbone.flat.steps": 200000})
    served = serve(prepared)
    served.run()
    wait_until(served.training, 120)
    assert "ui: stopped" in served.stop(signal.SIGTERM)
    wait_until(lambda: prepared.leftovers() == [], 90)


def test_an_address_where_nobody_answers_is_not_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.FOLDER.mkdir(parents=True)
    with server.announced(f"http://127.0.0.1:{ports.free()[0]}/api", ""):
        assert server.announced_address() is None


def test_an_address_that_a_killed_ui_has_left_is_not_used_whoever_answers_there(tmp_path, monkeypatch, api):
    monkeypatch.chdir(tmp_path)
    server.FOLDER.mkdir(parents=True)
    with server.announced(api, "http://127.0.0.1:4201"):
        assert server.announced_address() == api
    server.ADDRESS.write_text(api)
    assert server.announced_address() is None


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_another_port_is_taken_when_the_usual_one_is_in_use(monkeypatch, taken):
    (usual,) = ports.free()
    monkeypatch.setattr(ui, "USUAL_PORT", usual)
    assert ui.candidates()[0] == usual
    monkeypatch.setattr(ui, "USUAL_PORT", taken)
    assert taken not in ui.candidates()
    assert all(map(ports.is_free, ui.candidates()))


def test_a_port_that_was_asked_for_and_is_in_use_is_refused(monkeypatch, taken):
    monkeypatch.setenv("OUTCLASS_PORT", str(taken))
    with pytest.raises(OutclassError, match=f"OUTCLASS_PORT={taken}: the port is in use; stop what uses it, or"):
        ui.candidates()
