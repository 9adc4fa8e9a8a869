"""When and where work is done: Prefect flows over the stages.

Importing this package switches the tools' call-outs off and keeps their logs out of the terminal (they still reach
the Prefect UI). Variables that are set already are left alone.
"""

import os

import stages  # noqa: F401  (first of all: it notes who started this process)

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
"""For all that is started from here, on other machines too."""
IMPATIENCE = {"RAY_NUM_REDIS_GET_RETRIES": "1"}
"""Ray reads it when it is loaded: with it, a wrong token is refused in a second instead of twenty."""

for name, value in (ENVIRONMENT | IMPATIENCE).items():
    os.environ.setdefault(name, value)
