"""Fan the extraction of features out to worker slots: the command of the DVC stage ``embed``."""

import json
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from flows import processes
from flows.embed_worker import USER_ERROR
from outclass.errors import OutclassError
from stages import command, embed, settings
from stages.shards import Shard

TINY = 8 * 2**20
"""Bytes of images that are not worth a process's start, if no network is to see them."""
REPORT_EVERY = 10.0
"""Seconds between two lines where there is no terminal to draw a bar on."""
MALLOC = ["env", "MALLOC_MMAP_MAX_=0", f"MALLOC_TRIM_THRESHOLD_={2**32}"]
"""The C library would hand the memory of each layer's output back to the system and ask for it again: on a CPU, that
takes as long as the computing."""


class ItemsDone:
    """How far the extraction is: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done, self.kept = total, done, done
        self.started = self.last = time.monotonic()
        self.lock = threading.Lock()
        columns = (TextColumn("embed"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]} a second"))
        self.bar = Progress(*columns, TaskProgressColumn(), TimeRemainingColumn(), disable=not sys.stdout.isatty())
        self.task = self.bar.add_task("embed", total=total, completed=done, rate="-")

    def __enter__(self) -> "ItemsDone":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def add(self, count: int) -> None:
        with self.lock:
            self.done += count
            now = time.monotonic()
            rate = max(0, self.done - self.kept) / max(1e-9, now - self.started)
            self.bar.update(self.task, completed=self.done, rate=f"{rate:,.0f}")
            if self.bar.disable and now - self.last > REPORT_EVERY:
                self.last = now
                say(report(self.done, self.total, rate))


def report(done: int, total: int, rate: float) -> str:
    left = f", {timedelta(seconds=round((total - done) / rate))} left" if rate else ""
    return f"{done:,} of {total:,} items, {rate:,.0f} a second{left}"


def say(words: str) -> None:
    print(f"embed: {words}", flush=True)


class Assignment:
    """Shards that one worker after the other takes on, until they are finished."""

    def __init__(self, shards: list[Shard], dropped: list[str], job: Path, progress: ItemsDone) -> None:
        self.shards, self.dropped, self.job, self.progress = shards, dropped, job, progress
        self.done, self.slot, self.error = 0, "", ""
        self.last_words: deque[str] = deque(maxlen=20)

    def work(self) -> None:
        """Have the shards extracted; a worker that dies without a word is followed by another."""
        for tries_left in reversed(range(settings.load().retries + 1)):
            code = self._try()
            if code == USER_ERROR:
                raise OutclassError(self.error)
            if code == 0:
                return
            self._count_again()
            died = f"{self._first_unfinished()} ended with code {code} in slot {self.slot}"
            if tries_left:
                say(f"{died}; trying again")
        raise OutclassError("\n".join([died, *self.last_words]))

    def _try(self) -> int:
        from flows import slots  # here, because it loads torch, which tiny work has no need of

        todo = [asdict(shard) for shard in self.shards if not shard.finished]
        self.job.write_text(json.dumps({"shards": todo, "dropped": self.dropped}))
        worker = processes.python("flows.embed_worker", str(self.job))
        return slots.run([*MALLOC, *worker], self._on_line, self._on_start)

    def _on_start(self, slot: object) -> None:
        self.slot = getattr(slot, "name", "")

    def _on_line(self, line: str) -> None:
        try:
            words = json.loads(line)
            self.error = words.get("error", self.error)
            self._add(words.get("items", 0))
        except (ValueError, AttributeError):  # not the worker's own words
            self.last_words.append(line)

    def _add(self, count: int) -> None:
        self.done += count
        self.progress.add(count)

    def _count_again(self) -> None:
        """What was begun and not finished is lost."""
        self._add(sum(shard.items for shard in self.shards if shard.finished) - self.done)

    def _first_unfinished(self) -> str:
        return next((str(shard) for shard in self.shards if not shard.finished), "a worker")


def fan_out(todo: list[Shard], dropped: list[str], progress: ItemsDone) -> None:
    """Share the shards out among as many workers as there are slots."""
    from flows import slots

    count = min(len(slots.available()), len(todo))
    with TemporaryDirectory(prefix="outclass-embed-") as folder, ThreadPoolExecutor(count) as pool:
        jobs = [Assignment(todo[i::count], dropped, Path(folder) / f"{i}.json", progress) for i in range(count)]
        _collect([pool.submit(job.work) for job in jobs], Path(folder) / "stop")


def _collect(futures: "list[Future[None]]", stop: Path) -> None:
    """Wait for all. After an error the others finish the shard they are at, and all errors are told together."""
    errors = []
    for future in as_completed(futures):
        try:
            future.result()
        except OutclassError as error:
            stop.touch()
            errors.append(str(error))
    if errors:
        raise OutclassError("\n".join(dict.fromkeys(errors)))


def is_tiny(todo: list[Shard]) -> bool:
    needs_network = any("pretrained" in shard.keys and not shard.has("pretrained") for shard in todo)
    return not needs_network and sum(shard.size for shard in todo) < TINY


def run() -> str:
    """Write features/, extracting shards side by side."""
    with processes.stopped_on_signal():
        work = embed.plan()
        todo = work.unfinished
        total, left = (sum(shard.items for shard in shards) for shards in (work.shards, todo))
        with ItemsDone(total, total - left) as progress:
            if is_tiny(todo):
                embed.extract(todo, work.params, work.extractors, progress.add)
            else:
                fan_out(todo, list(work.dropped), progress)
        return embed.gather(work, todo)


if __name__ == "__main__":
    command.main("embed", run)
