"""The stages whose work is training, by name."""

from stages import backbone, partitions
from stages.chunks import Work

WORK: dict[str, Work] = {"backbone": backbone.WORK, "partitions": partitions.WORK}
