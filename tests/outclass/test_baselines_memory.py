"""Many wide items: no method may copy them in double precision."""

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 1.3 * 10**9
"""The features take 0.4 GB; one copy in double precision, 0.8 GB, is too much."""
SCRIPT = """
from pathlib import Path
import numpy as np
from outclass.baselines.contract import Items
from outclass.baselines.{module} import {method}

rng = np.random.default_rng(0)
features = rng.standard_normal((200_000, 512), dtype=np.float32)
items = Items(features[:, :20].copy(), features)
method = {method}().fit(items, np.arange(200_000) % 20)
assert np.isfinite(method.score(Items(*(part[:{scored}] for part in items)))).all()
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)  # of this program alone; ru_maxrss would begin with that of who started it
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize(
    ("module", "method", "scored"),
    [
        ("mahalanobis", "RelativeMahalanobis", 100_000),
        ("vim", "Vim", 200_000),
        ("plda", "Plda", 100_000),
        ("deep_knn", "DeepKnn", 300),  # each is compared with all
    ],
)
def test_peak_memory_of_200_000_items(module, method, scored):
    script = SCRIPT.format(module=module, method=method, scored=scored)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT
