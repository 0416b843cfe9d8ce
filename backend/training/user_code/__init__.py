"""The user's model and loader: load them, build them, call them, report their errors."""

from backend.training.user_code.batches import (
    ItemFailure,
    batch_size,
    shape_of,
    split_batch,
    to_device,
)
from backend.training.user_code.data import (
    LOADER_FILE,
    UserData,
    UserLoader,
    load_loader,
    open_data,
)
from backend.training.user_code.errors import (
    UserCodeError,
    calling,
    clean_traceback,
    describe,
    explain,
    is_out_of_memory,
)
from backend.training.user_code.model import (
    MODEL_FILE,
    compute_loss,
    compute_metrics,
    compute_output,
    load_model,
    materialize,
    needs_first_batch,
    require_restorable,
    require_same_state,
    require_shapes,
    state_shapes,
)

__all__ = [
    "LOADER_FILE",
    "MODEL_FILE",
    "ItemFailure",
    "UserCodeError",
    "UserData",
    "UserLoader",
    "batch_size",
    "calling",
    "clean_traceback",
    "compute_loss",
    "compute_metrics",
    "compute_output",
    "describe",
    "explain",
    "is_out_of_memory",
    "load_loader",
    "load_model",
    "materialize",
    "needs_first_batch",
    "open_data",
    "require_restorable",
    "require_same_state",
    "require_shapes",
    "shape_of",
    "split_batch",
    "state_shapes",
    "to_device",
]
