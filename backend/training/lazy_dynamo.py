"""Lazy import of torch's compiler: loaded when something compiles, not by every optimizer.

``torch.optim`` of torch 2.13 imports ``torch._dynamo``, and with it sympy, in its constructor and
in each step, only to mark graph breaks for a compiler. That takes 1.5 to 2 s of a core and 127 MB
in every rank before its first step. In a rank no optimizer is compiled: the loop makes the steps.
So until other attributes of the module are used, `graph_break` does nothing and `disable` returns
the function of ``torch.optim`` unchanged. torch's counter of operations, by which the tools see the
layers of a model, imports it for the same reason: 4 s of a core. And ``init_process_group`` of
``torch.distributed`` imports it to clear a cache of the compiler: 2 s of a core in a rank of DDP.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_NAME = "torch._dynamo"
_NEVER_COMPILED = ("torch.optim.", "torch.utils.flop_counter")


def postpone() -> None:
    """Install the stand-in, unless the compiler is loaded already or this torch has none."""
    import torch

    if _NAME in sys.modules:
        return
    spec = importlib.util.find_spec(_NAME)
    if spec is None:
        return
    stand_in = _LazyDynamo(_NAME)
    stand_in.__spec__ = spec
    stand_in.__file__ = spec.origin
    sys.modules[_NAME] = stand_in
    torch._dynamo = stand_in


class _LazyDynamo(ModuleType):
    """``torch._dynamo`` as optimizers and the counter need it; all else loads the real module."""

    def graph_break(self, msg: str = "") -> None:
        """Do nothing: no compiler is active."""

    def disable(
        self, fn: Callable[..., Any] | None = None, *args: Any, **settings: Any
    ) -> Callable[..., Any]:
        if fn is not None and fn.__module__.startswith(_NEVER_COMPILED):
            return fn
        function: Callable[..., Any] = _load_dynamo().disable(fn, *args, **settings)
        return function

    @property
    def trace_rules(self) -> _LazyTraceRules:
        return _LazyTraceRules(f"{_NAME}.trace_rules")

    def __getattr__(self, name: str) -> Any:
        # Code that walks all modules (inspect, pickle, warnings) reads such names, and the import
        # of a submodule of the compiler reads __path__.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        return getattr(_load_dynamo(), name)


class _LazyTraceRules(ModuleType):
    """``torch._dynamo.trace_rules`` for ``init_process_group``; all else loads the real module."""

    def clear_lru_cache(self) -> None:
        """Do nothing: a compiler that is not loaded has cached nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {_NAME}.trace_rules has no attribute {name!r}")
        return getattr(_load_dynamo().trace_rules, name)


def _load_dynamo() -> ModuleType:
    """Load the compiler itself and install it for all callers."""
    import torch

    if isinstance(sys.modules.get(_NAME), _LazyDynamo):
        del sys.modules[_NAME]
        torch._dynamo = importlib.import_module(_NAME)
    return sys.modules[_NAME]


def compile_model(model: torch.nn.Module) -> None:
    """Let torch compile the forward pass in its first call; the names of the weights stay.

    What the compiler cannot translate runs as before, with a warning in the log.
    """
    dynamo: Any = _load_dynamo()
    dynamo.config.suppress_errors = True
    model.compile()
