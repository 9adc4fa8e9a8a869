"""Extract shards, one after the other: what runs in a slot.

    python -m flows.embed_worker JOB      a JSON file with a list of shards, and with the classes that are dropped

A file named ``stop`` beside the job ends the work after the shard at hand. Prints JSON lines: items done since the last
one (``items``), and an error that the user can mend (``error``), after which the exit code is ``USER_ERROR``: trying
again would not help.
"""

import json
import sys
from pathlib import Path

from outclass.errors import OutclassError
from stages import command, embed, extractors, params, shards
from stages.shards import Shard

USER_ERROR = 3


def say(**words: str | int) -> None:
    print(json.dumps(words), flush=True)


def main() -> int:
    job = Path(sys.argv[1])
    words = json.loads(job.read_text())
    todo = [Shard(**values) for values in words["shards"]]
    try:
        with command.single_threaded():
            chosen = params.load()
            ready = extractors.build(chosen.embed, words["dropped"])
            shards.check_unchanged(todo, chosen.embed, ready)  # the parameters are those of now, not of the plan
            embed.extract(todo, chosen, ready, lambda count: say(items=count), (job.parent / "stop").exists)
    except OutclassError as error:
        say(error=str(error))
        return USER_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
