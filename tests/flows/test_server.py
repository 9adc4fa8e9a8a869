"""Prefect servers that were not started for the run."""

import pytest

from flows import ports, server
from outclass.errors import OutclassError

pytestmark = pytest.mark.slow


def test_a_port_where_another_server_was_faster_is_not_taken_for_ours(api, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    port = int(api.removesuffix("/api").rpartition(":")[2])
    with (
        pytest.raises(OutclassError, match=r"the Prefect server ended with code \d+; its log is"),
        server.started(port),
    ):
        pass


def test_a_server_that_asks_for_a_password_is_named_and_used_with_it(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "team:secret")
    with server.started(*ports.free()) as url:
        command = ("flows.partitions", "--repetition", "0", "--fold", "0")
        for wrong in ({}, {"PREFECT_API_AUTH_STRING": "team:guess"}):
            output = prepared.python(*command, check=False, PREFECT_API_URL=url, **wrong)
            assert f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING" in output
            assert "Traceback" not in output
        prepared.python(*command, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING="team:secret")
