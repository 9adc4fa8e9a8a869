"""A flow that is cancelled in the UI, or whose worker is gone, ends all that it has started, and itself."""

import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.runtime import deployment

from flows import guard, processes


@contextmanager
def cancellable() -> Iterator[None]:
    """Around the body of a flow.

    Prefect has its own handler of SIGTERM in place there, which raises in the main thread and must stay: by it, a
    worker tells a flow that it is cancelled. But the threads that wait for processes would hold the flow up.
    """
    if deployment.id and stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=_end_with_worker, daemon=True).start()
    try:
        yield
    except Exception:
        raise
    except BaseException:  # TerminationSignal, KeyboardInterrupt
        processes.stop_all()
        raise


def _end_with_worker() -> None:
    """A worker that is stopped waits for its flows, and one that is killed forgets them: watch the pipe from it."""
    os.read(0, 1)  # nothing is ever written: this returns when the pipe is closed
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(guard.GRACE)
    os._exit(1)  # Prefect still tries to tell a server that is gone as well
