"""Full disks and damaged chunks: a message that says what to do, nothing half-written, and then it goes on."""

import shutil
import subprocess

import pytest

from tests.flows import soak

pytestmark = pytest.mark.slow
PARTITIONS = ("python", "-m", "flows.partitions", "--repetition", "0", "--fold", "0")
SMALL_DISK = ("unshare", "--mount", "--map-root-user")
"""Starts a command that may mount a small disk of its own, which nobody else sees."""


@pytest.fixture
def small_disk() -> tuple[str, ...]:
    tried = subprocess.run(
        [*SMALL_DISK, "sh", "-c", "mount -t tmpfs -o size=64k small /mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no file system can be mounted here: {tried.stderr.strip()}")
    return SMALL_DISK


def limited(kilobytes: int, *command: str) -> tuple[str, ...]:
    """A command whose files cannot grow beyond a size: to those who write, much like a full disk."""
    return ("bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "bash", *command)


def names_a_file_and_the_remedy(output: str, where: str) -> bool:
    lines = [line for line in output.splitlines() if where in line and "cannot be written" in line]
    return bool(lines) and all("free space" in line for line in lines) and "Traceback" not in output


def test_a_chunk_that_does_not_fit_is_named_and_made_once_there_is_room(ready_to_train, undisturbed, tmp_path, api):
    workspace = soak.copy(ready_to_train, tmp_path / "project")
    output = workspace.run(*limited(12, *PARTITIONS), check=False, PREFECT_API_URL=api)
    assert names_a_file_and_the_remedy(output, soak.CACHE), output
    assert "trying again" not in output
    assert soak.chunks(workspace) == {}
    assert workspace.leftovers() == []

    workspace.run(*PARTITIONS, PREFECT_API_URL=api)
    assert workspace.digests("runs/partitions/r0-f0") == undisturbed.digests("runs/partitions/r0-f0")


def test_an_output_that_does_not_fit_is_named_and_its_chunks_are_kept(ready_to_train, undisturbed, tmp_path, api):
    workspace = soak.copy(ready_to_train, tmp_path / "project")
    shutil.copytree(undisturbed.root / soak.CACHE, workspace.root / soak.CACHE)
    finished = soak.chunks(workspace)
    output = workspace.run(*limited(32, *PARTITIONS), check=False, PREFECT_API_URL=api)
    assert names_a_file_and_the_remedy(output, "runs/partitions/r0-f0"), output
    assert workspace.leftovers() == []
    assert not (workspace.root / "runs/partitions/r0-f0").exists()

    assert workspace.run(*PARTITIONS, PREFECT_API_URL=api).count("kept from an earlier run") == 3
    assert workspace.digests("runs/partitions/r0-f0") == undisturbed.digests("runs/partitions/r0-f0")
    assert soak.chunks(workspace) == finished


FULL_CACHE = """
mount -t tmpfs -o size=1m small {cache} && head -c {ballast} /dev/zero > {cache}/ballast
{command}
echo "== room again: $?"
ls {cache}
rm {cache}/ballast
{command}
"""


def test_a_full_cache_keeps_what_fits_and_goes_on_with_the_rest(ready_to_train, undisturbed, tmp_path, api, small_disk):
    workspace = soak.copy(ready_to_train, tmp_path / "project")
    (workspace.root / soak.CACHE).mkdir()
    largest = max(
        sum(file.stat().st_size for file in folder.iterdir()) for folder in (undisturbed.root / soak.CACHE).iterdir()
    )
    script = FULL_CACHE.format(cache=soak.CACHE, command=" ".join(PARTITIONS), ballast=2**20 - 2 * largest)
    output = workspace.run(*small_disk, "sh", "-c", script, PREFECT_API_URL=api, OUTCLASS_SLOTS="1")
    full, _, room = output.partition("== room again")
    assert names_a_file_and_the_remedy(full, soak.CACHE), output
    assert "No space left on device" in full
    assert room.startswith(": 1\n")
    assert ".part" not in room
    assert (full.count("trained in"), room.count("kept from"), room.count("trained in")) == (1, 1, 2)
    assert workspace.digests("runs/partitions/r0-f0") == undisturbed.digests("runs/partitions/r0-f0")


FULL_WORKSPACE = """
mkdir small && mount -t tmpfs -o size=64m small small && cp -a $(ls -A | grep -vx small) small/ && cd small
head -c 100m /dev/zero > ballast 2> /dev/null
{command}
echo "== room again: $?"
find . -name '*.part' | sed 's/^/unfinished: /'
rm -f ballast .dvc/tmp/rwlock  # DVC's list of its locks, which it does not write whole either
{command}
echo "== done: $?"
cp -a runs report ..
"""


@pytest.mark.parametrize("command", soak.COMMANDS.values(), ids=soak.COMMANDS)
def test_a_full_workspace_is_told_and_goes_on_with_room(
    command, ready_to_train, undisturbed, tmp_path, api, small_disk
):
    workspace = soak.copy(ready_to_train, tmp_path / "project")
    script = FULL_WORKSPACE.format(command=" ".join(command))
    output = soak.end(workspace, workspace.start(*small_disk, "sh", "-c", script, PREFECT_API_URL=api))
    full, _, room = output.partition("== room again")
    assert "No space left on device" in full, output
    assert "Traceback" not in full, output
    assert "unfinished" not in room, output
    assert "== done: 0" in room, output
    for folder in ("runs", "report"):
        assert workspace.digests(folder) == undisturbed.digests(folder)


@pytest.mark.parametrize(("table", "damage"), [("sets", "cut"), ("networks", "emptied"), ("sets", "changed")])
def test_a_damaged_chunk_is_named_and_made_anew_once_deleted(ready_to_train, undisturbed, tmp_path, api, table, damage):
    workspace = soak.copy(ready_to_train, tmp_path / "project")
    shutil.copytree(undisturbed.root / soak.CACHE, workspace.root / soak.CACHE)
    key = workspace.run("python", "-c", "from stages import partitions; print(partitions.plan(0, 0, 'cpu')[1].key)")
    path = workspace.root / soak.CACHE / key.strip() / f"{table}.parquet"
    whole = path.read_bytes()
    middle = len(whole) // 2
    half, rest = whole[:middle], bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    path.write_bytes({"cut": half, "emptied": b"", "changed": half + rest}[damage])
    others = {name: mark for name, mark in soak.chunks(workspace).items() if name != key.strip()}

    output = workspace.run(*PARTITIONS, check=False, PREFECT_API_URL=api)
    assert f"{path.relative_to(workspace.root)}: not a readable Parquet file" in output
    assert "delete it and run `dvc repro`" in output
    assert "Traceback" not in output
    path.unlink()
    assert workspace.run(*PARTITIONS, PREFECT_API_URL=api).count("trained in") == 1
    assert workspace.digests("runs/partitions/r0-f0") == undisturbed.digests("runs/partitions/r0-f0")
    assert soak.chunks(workspace).items() >= others.items()
