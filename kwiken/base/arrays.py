"""Type aliases of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
AnyInts = NDArray[np.signedinteger[Any]]  # of any width that their bounds allow
