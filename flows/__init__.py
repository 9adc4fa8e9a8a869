"""When and where work is done: Prefect flows over the stages.

Importing this package switches the tools' call-outs off and keeps their logs out of the terminal (they still reach
the Prefect UI). Variables that are set already are left alone.
"""

import os

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
for name, value in ENVIRONMENT.items():
    os.environ.setdefault(name, value)
