"""What the paper's two protocols cost, from counted floating-point operations: no data and no training needed.

    python benchmarks/cost.py [TFLOPS]        sustained speed of one GPU, in 10^12 operations a second; 20 unless told

Operations of one forward pass are counted by torch on tensors without storage; a training step is taken as three
times that (forward, and backward to inputs and to weights).
"""

from pathlib import Path

TRAINING = 3
PRESETS = Path(__file__).resolve().parents[1] / "presets"
IMAGES = {"cifar100": 60_000, "caltech256": 29_780}
"""Of all classes; Caltech-256 has 30,607 with clutter and the near-duplicates."""
