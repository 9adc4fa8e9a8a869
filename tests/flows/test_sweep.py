"""Sweeps: each point a DVC experiment, made in a copy of the workspace."""

import csv
import fcntl
import io
import json
import os
import re
import signal

import numpy as np
import pandas as pd
import pytest
import yaml

from flows.sweep import alone, nearest
from stages.points import Point

pytestmark = pytest.mark.slow

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@localhost")
FOLDER = ".outclass/sweeps/test"


def commit(workspace):
    workspace.run("git", "add", "--all")
    workspace.run("git", *IDENTITY, "commit", "--quiet", "--message", "test")


@pytest.fixture
def committed(prepared):
    (prepared.root / "tmp").mkdir(exist_ok=True)
    (prepared.root / ".gitignore").open("a").write("/tmp/\n/test.yaml\n")
    prepared.run("git", "check-ignore", "test.yaml")
    commit(prepared)
    return prepared


def ask(workspace, **asked):
    (workspace.root / "test.yaml").write_text(yaml.safe_dump(asked))


def experiments(workspace):
    return sorted(workspace.run("dvc", "exp", "list", "--name-only").split())


def metrics(workspace, name=None):
    if name is None:
        return json.loads((workspace.root / "report/metrics.json").read_text())
    head = workspace.run("git", "rev-parse", "HEAD").strip()
    return json.loads(workspace.run("git", "show", f"refs/exps/{head[:2]}/{head[2:]}/{name}:report/metrics.json"))


def test_points_that_differ_after_training_train_nothing_and_give_what_a_plain_run_gives(committed, api, reference):
    ask(committed, grid={"ensemble.theta": ["difference", "ratio"], "ensemble.confidence": ["activation", "softmax"]})
    output = committed.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert "4 points, 0 of them finished" in output
    assert "trained in" not in output
    assert not re.search(r"(backbone|partitions|baselines|pooled|embed)(@\S+)?:", output)
    names = [f"ensemble.confidence={c},theta={t}" for c in ("activation", "softmax") for t in ("difference", "ratio")]
    assert experiments(committed) == names
    assert metrics(committed, names[0]) == metrics(reference)
    assert committed.run("git", "status", "--porcelain") == ""
    assert committed.leftovers() == []
    assert not any((committed.root / FOLDER / "copies").iterdir())
    assert (committed.root / FOLDER / "logs" / names[3] / "ensemble@0-0.log").exists()

    table = pd.read_parquet(committed.root / FOLDER / "table.parquet")
    assert list(table["point"].unique()) == names  # in the order of the grid
    row = table[(table["point"] == names[3]) & (table["method"] == "ensemble-count") & (table["s"] == 3)]
    assert row["auc"].item() == metrics(committed, names[3])["ensemble-count"]["3"]["auc"]

    shown = {
        row["Experiment"]: row for row in csv.DictReader(io.StringIO(committed.run("dvc", "exp", "show", "--csv")))
    }
    assert (shown[names[3]]["ensemble.confidence"], shown[names[3]]["ensemble.theta"]) == ("softmax", "ratio")
    assert float(shown[names[3]]["ensemble-count.3.auc"]) == row["auc"].item()

    # The last point once more, as one would run it by hand.
    committed.run("dvc", "exp", "run", "-S", "ensemble.theta=ratio", "-S", "ensemble.confidence=softmax")
    assert metrics(committed) == metrics(committed, names[3])
    committed.run("dvc", "exp", "apply", names[1])
    assert metrics(committed) == metrics(committed, names[1])
    assert "up to date" in committed.run("dvc", "status")


def test_finished_points_are_kept_unless_what_they_start_from_has_changed(committed, api):
    grid = {"ensemble.theta": ["difference", "ratio"]}
    ask(committed, grid=grid)
    committed.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    output = committed.python("flows.sweep", "test.yaml")
    assert "Prefect" not in output
    assert "items to run" not in output
    assert "`theta=ratio`" in output

    ask(committed, grid={"ensemble.theta": ["log_ratio", "ratio", "difference"]})
    (committed.root / "Makefile").open("a").write("# neither code nor data\n")
    output = committed.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert "3 points, 2 of them finished by an earlier run" in output
    assert experiments(committed) == ["theta=difference", "theta=log_ratio", "theta=ratio"]

    committed.set(**{"ensemble.cost": 0.1})  # not committed: a point starts from the files as they are
    ask(committed, grid={"ensemble.theta": ["ratio"]})
    before = metrics(committed, "theta=ratio")
    output = committed.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert "1 points, 0 of them finished" in output
    assert metrics(committed, "theta=ratio") != before


def test_a_point_that_fails_is_named_with_its_log_and_does_not_stop_the_others(committed, api):
    ask(committed, grid={"pooled.shrinkage": [0.0, 0.3]}, points_at_a_time=1)
    output = committed.python("flows.sweep", "test.yaml", check=False, PREFECT_API_URL=api)
    assert "sweep: error: 1 of 2 points failed" in output
    assert f"shrinkage=0.0: pipeline ended with code 1; its log is {FOLDER}/logs/shrinkage=0.0/point.log" in output
    item = re.search(rf"pooled@0-[01] failed; its log is ({FOLDER}/logs/shrinkage=0.0/pooled@0-[01].log)", output)
    assert "covariance within classes is singular" in (committed.root / item[1]).read_text()
    assert "Traceback" not in output
    assert experiments(committed) == ["shrinkage=0.3"]
    assert "1 of 2 points are finished; not shrinkage=0.0" in (committed.root / FOLDER / "table.md").read_text()
    assert committed.leftovers() == []


def test_killed_in_the_middle_it_leaves_nothing_running_and_goes_on(committed, api, wait_until):
    ask(committed, grid={"backbone.flat.hidden": [16, 24]}, points_at_a_time=1)
    process = committed.start("python", "-m", "flows.sweep", "test.yaml", PREFECT_API_URL=api)
    logs = committed.root / FOLDER / "logs/hidden=24"
    wait_until(lambda: any(logs.glob("partitions@*.log")), 240)  # so one of the backbones is finished
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not any("python" in command for command in committed.leftovers()), 60)
    assert experiments(committed) == ["hidden=16"]

    output = committed.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert "2 points, 1 of them finished by an earlier run" in output
    assert len(re.findall(r"hidden=24: backbone@0-\d: accuracy", output)) <= 1
    assert experiments(committed) == ["hidden=16", "hidden=24"]
    assert not any((committed.root / FOLDER / "copies").iterdir())


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_ends_all_work(committed, api, wait_until, sign):
    ask(committed, grid={"backbone.flat.steps": [20000, 20001]})
    process = committed.start("python", "-m", "flows.sweep", "test.yaml", PREFECT_API_URL=api)
    wait_until(lambda: any((committed.root / FOLDER / "logs").glob("*/backbone@*.log")), 120)
    os.kill(process.pid, sign)
    output, _ = process.communicate(timeout=90)
    assert process.returncode not in (0, None)
    assert "Traceback" not in output
    assert committed.leftovers() == []


def test_own_data_beside_the_project_are_found_and_watched(workspace, api):
    data = workspace.root.parent / "own/items.csv"
    data.parent.mkdir()
    write_items(data, seed=0)
    own_table(workspace, "../own/items.csv")
    commit(workspace)
    ask(workspace, grid={"ensemble.theta": ["difference", "ratio"]}, folds=[0])
    output = workspace.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert output.count("download: ") == 1  # the second point has it from the first
    names = ["theta=difference,folds=0", "theta=ratio,folds=0"]
    assert experiments(workspace) == names
    workspace.run("dvc", "exp", "apply", names[1])
    assert "up to date" in workspace.run("dvc", "status")
    workspace.run("git", "checkout", "--quiet", "--", "params.yaml")

    assert "items to run" not in workspace.python("flows.sweep", "test.yaml")
    before = metrics(workspace, names[1])
    write_items(data, seed=1)
    assert "0 of them finished" in workspace.python("flows.sweep", "test.yaml", PREFECT_API_URL=api)
    assert metrics(workspace, names[1]) != before


def write_items(path, seed):
    """Twelve classes that overlap."""
    random = np.random.default_rng(seed)
    classes = np.repeat(np.arange(12), 24)
    features = random.normal(size=(12, 20))[classes] + random.normal(size=(len(classes), 20))
    frame = pd.DataFrame(features, columns=[f"x{index}" for index in range(20)])
    frame.insert(0, "kind", [f"class {label}" for label in classes])
    frame.to_csv(path, index=False)


def own_table(workspace, path):
    inputs = {f"{group}.input": "features/given.parquet" for group in ("backbone", "pooled", "baselines")}
    workspace.set(
        **{
            "download.source": "table",
            "download.input": path,
            "download.table": {"class_column": "kind", "features_column": None, "name_column": None},
            "embed.representations": ["given"],
            "baselines.pca": 4,
            **inputs,
        }
    )


def test_what_a_sweep_cannot_start_from_is_named(workspace):
    ask(workspace, grid={"ensemble.theta": ["ratio", "raito"]})
    output = workspace.python("flows.sweep", "test.yaml", check=False)
    assert "1 of 2 points cannot be run, so none was started" in output
    ask(workspace, grid={"ensemble.theta": ["ratio"]})
    assert "there is no git commit yet" in workspace.python("flows.sweep", "test.yaml", check=False)
    commit(workspace)
    (workspace.root / "stages/new.py").touch()
    output = workspace.python("flows.sweep", "test.yaml", check=False)
    assert "git does not know of stages/new.py" in output
    (workspace.root / "stages/new.py").unlink()
    (workspace.root / ".git").rename(workspace.root / "no.git")
    output = workspace.python("flows.sweep", "test.yaml", check=False, GIT_CEILING_DIRECTORIES="/")
    assert "this folder is no git repository" in output
    assert not (workspace.root / FOLDER).exists()


def test_a_second_sweep_of_the_same_name_is_refused(committed, api):
    ask(committed, grid={"ensemble.theta": ["ratio"]})
    lock = committed.root / FOLDER / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as file:
        file.write(f"{os.getpid()} today\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        output = committed.python("flows.sweep", "test.yaml", check=False, PREFECT_API_URL=api)
    assert f"another sweep named test is at work (process {os.getpid()}, since today" in output
    assert experiments(committed) == []


def test_the_commands_of_dvc_for_experiments_show_what_a_parameter_changes(committed):
    committed.run("dvc", "exp", "run", "--name", "by-hand", "-S", "ensemble.theta=ratio")
    changed = next(line for line in committed.run("dvc", "params", "diff").splitlines() if "theta" in line)
    assert changed.split()[1:] == ["ensemble.theta", "difference", "ratio"]
    found = committed.run("dvc", "metrics", "diff", "HEAD", "by-hand", "--json")
    auc = json.loads(found)["report/metrics.json"]["ensemble-count.3.auc"]
    assert auc["new"] == metrics(committed)["ensemble-count"]["3"]["auc"] != auc["old"]
    shown = json.loads(committed.run("dvc", "exp", "show", "--json"))
    assert "by-hand" in json.dumps(shown)
    plots = json.loads(committed.run("dvc", "plots", "diff", "HEAD", "by-hand", "--json"))
    rows = plots["data"]["AUC by set size"][0]["content"]["data"]["values"]
    assert {row["rev"]: float(row["ensemble-count"]) for row in rows if row["s"] == "3"} == {
        "HEAD": auc["old"],
        "by-hand": auc["new"],
    }
    assert "index.html" in committed.run("dvc", "plots", "diff", "HEAD", "by-hand")


class Some(Point):
    """A point as the schedule sees it: what it trains, and on which features."""

    trainings = data = ""

    def __init__(self, trainings, data):
        object.__setattr__(self, "name", f"{trainings} on {data}")
        object.__setattr__(self, "trainings", trainings)
        object.__setattr__(self, "data", data)


def test_points_wait_for_those_that_compute_what_they_need():
    first, same, other, elsewhere = Some("A", "x"), Some("A", "x"), Some("B", "x"), Some("C", "y")
    assert alone(first, [], [], "")
    assert not alone(same, [first], [], "")
    assert not alone(other, [first], [], "")  # it would make the same features
    assert alone(other, [first], [], "x")  # which are there
    assert alone(elsewhere, [first], [], "")
    assert alone(same, [Some("A", "x")], [first], "")
    assert not alone(Some("B", "x"), [other], [first], "")
    assert nearest(same, [elsewhere, other, first]) is first
    assert nearest(same, [elsewhere, other]) is other
    assert nearest(same, [elsewhere]) is None
