"""``make ui``: a server that others in the folder use, the pipeline ready to start, and a clean end."""

import os
import signal
import socket

import httpx
import pytest

from flows import server, ui

pytestmark = pytest.mark.slow


def test_it_serves_the_pipeline_and_ends_cleanly(prepared, wait_until):
    address = prepared.root / ".outclass/prefect/address"
    process = prepared.start("python", "-m", "flows.ui")
    wait_until(address.exists, 120)
    url = address.read_text()
    wait_until(lambda: httpx.post(f"{url}/deployments/filter", json={}).json(), 60)
    (deployment,) = httpx.post(f"{url}/deployments/filter", json={}).json()
    assert deployment["name"] == "outclass"

    prepared.set(**{"ensemble.cost": 2.0})
    output = prepared.python("flows.pipeline")
    assert f"Prefect UI at {url.removesuffix('/api')}" in output  # no second server
    (run,) = httpx.post(f"{url}/flow_runs/filter", json={"flows": {"name": {"any_": ["pipeline"]}}}).json()
    assert run["name"] == "glyphs, repetitions [0], folds [0, 1]"
    assert run["state"]["type"] == "COMPLETED"

    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert "ui: stopped" in output
    assert "Traceback" not in output
    assert not address.exists()
    assert prepared.leftovers() == []


def test_an_address_where_nobody_answers_is_not_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.ADDRESS.parent.mkdir(parents=True)
    server.ADDRESS.write_text(f"http://127.0.0.1:{server.free_port()}/api")
    assert server._announced() is None


def test_another_port_is_taken_when_the_usual_one_is_in_use(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(ui, "USUAL_PORT", taken.getsockname()[1])
        assert ui.port() != ui.USUAL_PORT
