"""Import what a rank imports, in its order, in the process that the tests fork ranks from."""

from __future__ import annotations

import os

# Before torch is imported, which counts its threads by it.
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: F401 # isort: skip

from backend.training import lazy_dynamo, rank

lazy_dynamo.postpone()
rank._import_ahead()
