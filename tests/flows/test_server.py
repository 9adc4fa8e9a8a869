"""Prefect servers that were not started for the run."""

import pytest

from flows import server

pytestmark = pytest.mark.slow


def test_a_server_that_asks_for_a_password_is_named_and_used_with_it(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "team:secret")
    with server.started(server.free_port()) as url:
        command = ("flows.partitions", "--repetition", "0", "--fold", "0")
        for wrong in ({}, {"PREFECT_API_AUTH_STRING": "team:guess"}):
            output = prepared.python(*command, check=False, PREFECT_API_URL=url, **wrong)
            assert f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING" in output
            assert "Traceback" not in output
        prepared.python(*command, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING="team:secret")
