"""Principal components, for methods that distances in many dimensions mislead."""

import numpy as np
from sklearn.decomposition import PCA

from outclass.arrays import Floats
from outclass.errors import OutclassError


def principal_components(features: Floats, train: Floats, count: int) -> Floats:
    """The first ``count`` components of features (n, d), fitted on train items only."""
    if count > min(train.shape):
        raise OutclassError(
            f"{count} principal components asked for, but {len(train)} train items with {train.shape[1]} features "
            f"have at most {min(train.shape)}"
        )
    fitted = PCA(count, svd_solver="full").fit(train.astype(np.float64))
    return np.asarray(fitted.transform(features.astype(np.float64)))
