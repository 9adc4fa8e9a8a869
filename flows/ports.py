"""Ports on which something of ours is about to listen."""

import random
import socket
from contextlib import ExitStack, suppress

from outclass.errors import OutclassError

RANGE = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections (from 32768 on Linux, higher elsewhere): between our look
and the moment when a server listens, seconds may pass, in which any connection could take one of those."""


def free(count: int = 1) -> list[int]:
    """Ports that nobody uses, all different."""
    found: list[int] = []
    with ExitStack() as held:
        # Drawn without the common seed: two processes must not choose the same.
        for number in random.SystemRandom().sample(RANGE, len(RANGE)):
            probe = held.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", number))
                found.append(number)
            if len(found) == count:
                return found
    raise OutclassError(f"no {count} free ports from {RANGE[0]} to {RANGE[-1]} on this machine: stop what uses them")


def is_free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True
