"""No chunk is trained twice at the same time: runs that need the same one wait for whoever came first."""

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from flows import leases
from flows.outcomes import say
from stages.chunks import Chunk


def claimed(chunk: Chunk) -> AbstractContextManager[Any]:
    """Hold the right to train a chunk. Once it is held, look whether the chunk is finished."""
    waiting = partial(say, chunk, "is being trained by another run: waiting")
    return leases.held([f"chunk-{chunk.key}"], on_wait=waiting)
