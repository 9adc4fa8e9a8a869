"""One module a DVC stage: read files, call ``outclass``, write files."""

import atexit
import gc
import os

PARENT = os.getppid()
"""Who started this process; noted first of all, because it may be killed while the rest is loaded."""

# A run starts some thirty processes that mostly load modules. To look for garbage among these at every 700 new objects
# takes a tenth of the time to load them, and once more at the end, where all is given back at once, a fifth.
gc.set_threshold(50_000)
atexit.register(gc.freeze)
