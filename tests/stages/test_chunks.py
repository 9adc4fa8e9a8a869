import shutil
from pathlib import Path

import pytest
import yaml

from outclass.errors import OutclassError
from stages import backbone, chunks, partitions, paths, settings, split

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("sets", "classes", "networks", "confidences")


def plan(repetition: int, fold: int) -> list[chunks.Chunk]:
    return partitions.plan(repetition, fold, settings.device())


def keys(repetition: int = 0, fold: int = 0) -> list[str]:
    return [chunk.key for chunk in plan(repetition, fold)]


def output(fold: int = 0) -> dict[str, bytes]:
    return {name: (paths.run("partitions", 0, fold) / f"{name}.parquet").read_bytes() for name in NAMES}


def output_values(fold: int = 0) -> dict[str, list[dict]]:
    """The output's rows, in an order of their own: another chunk size stores them in another order."""
    return {
        name: sorted(partitions.tables.read(path, schema).to_pylist(), key=repr)
        for name, schema in partitions.SCHEMAS.items()
        for path in [paths.run("partitions", 0, fold) / f"{name}.parquet"]
    }


class TestPlan:
    def test_covers_every_partition_once(self, project):
        planned = plan(0, 1)
        assert [chunk.partitions for chunk in planned] == [(0, 1), (2, 3)]
        assert all((chunk.repetition, chunk.fold) == (0, 1) for chunk in planned)

    @pytest.mark.parametrize(("size", "expected"), [(1, [1, 1, 1, 1]), (3, [3, 1]), (4, [4]), (9, [4])])
    def test_follows_the_chunk_size(self, project, configure, size, expected):
        configure("partitions.chunk", size)
        assert [len(chunk.partitions) for chunk in plan(0, 0)] == expected

    def test_does_not_follow_how_the_work_is_run(self, project, monkeypatch):
        before = plan(0, 0)
        monkeypatch.setenv("OUTCLASS_SLOTS", "7")
        monkeypatch.setenv("OUTCLASS_ITEMS", "5")
        monkeypatch.setenv("OUTCLASS_CACHE", "elsewhere")
        assert plan(0, 0) == before

    def test_survives_the_way_to_a_worker(self, project):
        for chunk in plan(0, 0):
            assert chunks.Chunk.from_json(chunk.to_json()) == chunk

    def test_without_features_says_what_to_do(self, project):
        paths.features("hog").unlink()
        with pytest.raises(OutclassError, match=r"hog\.parquet: not found; run `dvc repro`"):
            plan(0, 0)


class TestKey:
    def test_is_another_for_every_chunk_and_fold(self, project):
        assert len({*keys(0, 0), *keys(0, 1)}) == 4

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("seed", 1),
            ("backbone.flat.hidden", 17),
            ("backbone.flat.steps", 31),
            ("backbone.flat.batch", 33),
            ("backbone.flat.learning_rate", 0.02),
            ("backbone.flat.weight_decay", 0.0),
            ("backbone.flat.dropout", 0.1),
        ],
    )
    def test_changes_with_what_training_reads_of_the_parameters(self, project, configure, key, value):
        before = keys()
        configure(key, value)
        assert not set(before) & set(keys())

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("ensemble.theta", "ratio"),
            ("ensemble.confidence", "softmax"),
            ("ensemble.theta_i_from", "calibration"),
            ("ensemble.cost", 9.0),
            ("baselines.pca", 3),
            ("folds", [0, 1, 2]),
            ("repetitions", [0, 1]),
        ],
    )
    def test_stays_with_what_training_does_not_read(self, project, configure, key, value):
        before = keys()
        configure(key, value)
        assert keys() == before

    def test_changes_where_other_confidences_are_kept(self, project, configure):
        before = keys()
        configure("partitions.keep_confidences", 3)
        assert [new == old for new, old in zip(keys(), before, strict=True)] == [True, False]

    def test_changes_with_the_features(self, project, corrupt):
        before = keys()
        corrupt([0])
        assert not set(before) & set(keys())

    @pytest.mark.parametrize("key", ["split.set_sizes", "split.items.test", "split.presumed_novel_classes"])
    def test_changes_with_the_split(self, project, configure, key):
        before = keys()
        configure(key, {"split.set_sizes": [1, 2]}.get(key, 3))
        split.run(0)
        assert not set(before) & set(keys())

    def test_of_earlier_chunks_stays_when_partitions_are_added(self, project, configure):
        before = keys()
        configure("split.partitions", 6)
        split.run(0)
        assert keys()[:2] == before
        assert len(keys()) == 3

    def test_of_a_fold_stays_when_folds_are_added(self, project, configure):
        before = keys()
        configure("split.folds_drawn", 5)
        split.run(0)
        assert keys() == before

    def test_changes_with_the_device(self, project, monkeypatch):
        before = keys()
        monkeypatch.setattr(settings, "device", lambda: "cuda")
        assert not set(before) & set(keys())

    @pytest.mark.parametrize("module", partitions.CODE)
    def test_changes_with_the_training_code(self, project, monkeypatch, module):
        before = keys()
        for path in partitions.CODE:
            Path("code", path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, Path("code", path))
        monkeypatch.setattr(chunks, "ROOT", Path("code"))
        assert keys() == before
        with Path("code", module).open("a") as file:
            file.write("# changed\n")
        assert not set(before) & set(keys())

    @pytest.mark.parametrize("stage", [backbone, partitions])
    def test_covers_all_code_on_which_dvc_reruns_the_stage(self, stage):
        name = stage.__name__.removeprefix("stages.")
        deps = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][name]["deps"]
        paths_of = [ROOT / dep for dep in deps if dep.startswith(("outclass/", "stages/"))]
        files = {file for path in paths_of for file in (path.rglob("*.py") if path.is_dir() else [path])}
        assert files == {ROOT / path for path in stage.CODE}


class TestTraining:
    def test_leaves_a_finished_chunk_as_it_is(self, project):
        chunk = plan(0, 0)[0]
        (chunk.folder / "poison").write_text("still here")
        times = {path: path.stat().st_mtime_ns for path in chunk.folder.iterdir()}
        chunks.train(partitions.WORK, chunk)
        assert {path: path.stat().st_mtime_ns for path in chunk.folder.iterdir()} == times

    def test_goes_on_where_it_stopped(self, project):
        before = output()
        first, second = plan(0, 0)
        shutil.rmtree(second.folder)
        kept = (first.folder / "sets.parquet").stat().st_mtime_ns
        partitions.run(0, 0)
        assert (first.folder / "sets.parquet").stat().st_mtime_ns == kept
        assert second.finished
        assert output() == before

    def test_does_not_take_a_half_written_chunk_for_finished(self, project):
        chunk = plan(0, 0)[0]
        chunk.folder.rename(chunk.folder.with_name(f"{chunk.key}.1.part"))
        assert not chunk.finished
        chunks.train(partitions.WORK, chunk)
        assert sorted(path.name for path in chunk.folder.iterdir()) == sorted(f"{name}.parquet" for name in NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_makes_a_chunk_anew_whose_damaged_table_was_deleted(self, project, name):
        chunk = plan(0, 0)[0]
        before = {path.name: path.read_bytes() for path in chunk.folder.iterdir()}
        chunk.table(name).unlink()
        assert not chunk.finished
        chunks.train(partitions.WORK, chunk)
        assert {path.name: path.read_bytes() for path in chunk.folder.iterdir()} == before

    def test_that_fails_leaves_no_chunk(self, project):
        chunk = plan(0, 0)[0]
        shutil.rmtree(chunk.folder)
        others = sorted(chunk.folder.parent.iterdir())

        def stop(done: int, total: int) -> None:
            if done == 10:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            chunks.train(partitions.WORK, chunk, stop)
        assert sorted(chunk.folder.parent.iterdir()) == others

    def test_refuses_a_chunk_of_other_parameters(self, project, configure):
        """A worker that starts late reads params.yaml as it is then: that must not be kept under the old key."""
        chunk = plan(0, 0)[0]
        shutil.rmtree(chunk.folder)
        configure("backbone.flat.steps", 31)
        with pytest.raises(OutclassError, match=r"f0 partitions .*: params\.yaml, its data or the code changed"):
            chunks.train(partitions.WORK, chunk)
        assert not chunk.folder.exists()

    def test_reports_its_steps(self, project, monkeypatch):
        monkeypatch.setenv("OUTCLASS_CACHE", "fresh")
        steps: list[tuple[int, int]] = []
        chunks.train(partitions.WORK, plan(0, 0)[0], lambda done, total: steps.append((done, total)))
        assert steps == [(step, 30) for step in range(1, 31)]

    def test_in_another_cache_gives_the_same_bits(self, project, monkeypatch):
        before = output()
        monkeypatch.setenv("OUTCLASS_CACHE", "another/cache")
        assert not any(chunk.finished for chunk in plan(0, 0))
        partitions.run(0, 0)
        assert output() == before
        assert len(list(Path("another/cache").iterdir())) == 2

    def test_workspaces_that_share_a_cache_share_their_chunks(self, project, whole_run, monkeypatch):
        shared = project / "shared"
        monkeypatch.setenv("OUTCLASS_CACHE", str(shared))
        partitions.run(0, 0)
        times = {path: path.stat().st_mtime_ns for path in shared.iterdir()}
        shutil.copytree(whole_run, "other")
        monkeypatch.chdir(project / "other")
        partitions.run(0, 0)
        assert {path: path.stat().st_mtime_ns for path in shared.iterdir()} == times

    @pytest.mark.parametrize("dropout", [0.0, 0.25])
    @pytest.mark.parametrize(
        "counts",
        [
            pytest.param({"train": 12, "calibration": 4, "test": 4}, id="192 items"),
            pytest.param({"train": 12, "calibration": 6, "test": 6}, id="234 items"),
        ],
    )
    def test_gives_the_same_bits_for_every_chunk_size(self, project, configure, counts, dropout):
        configure("split.items", counts)
        configure("backbone.flat.dropout", dropout)
        split.run(0)
        found = []
        for size in (1, 2, 3, 4):
            configure("partitions.chunk", size)
            partitions.run(0, 0)
            found.append(output_values())
        assert found[0] == found[1] == found[2] == found[3]
