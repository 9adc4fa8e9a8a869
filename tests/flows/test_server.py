"""Prefect servers that were not started for the run."""

import pytest

from flows import ports, server
from outclass.errors import OutclassError

pytestmark = pytest.mark.slow


def test_where_another_server_was_faster_ours_takes_the_next_port(api, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taken, (free,) = int(api.removesuffix("/api").rpartition(":")[2]), ports.free()
    with server.started(taken, free) as url:
        assert url == f"http://127.0.0.1:{free}/api"
    refusal = f"port {taken} was taken while the Prefect server started; its log is"
    with pytest.raises(OutclassError, match=refusal), server.started(taken):
        pass


def test_a_server_that_cannot_start_is_told_with_its_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.FOLDER.mkdir(parents=True)
    (server.FOLDER / "prefect.db").write_text("this is no database")
    words = rf"the Prefect server ended with code \d+; its log is {server.FOLDER}"
    with pytest.raises(OutclassError, match=words), server.started(*ports.free(3)):
        pass
    assert (server.FOLDER / "server.log").read_text().count("dashboard at") == 1  # another port would not help


def test_a_server_that_asks_for_a_password_is_named_and_used_with_it(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "team:secret")
    with server.started(*ports.free(3)) as url:
        command = ("flows.partitions", "--repetition", "0", "--fold", "0")
        for wrong in ({}, {"PREFECT_API_AUTH_STRING": "team:guess"}):
            output = prepared.python(*command, check=False, PREFECT_API_URL=url, **wrong)
            assert f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING" in output
            assert "Traceback" not in output
        prepared.python(*command, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING="team:secret")
