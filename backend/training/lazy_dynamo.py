"""torch's compiler is loaded when something compiles, and not by every optimizer.

``torch.optim`` of torch 2.13 imports ``torch._dynamo``, and with it sympy, in its constructor and
in each step, only to tell a compiler that may be at work where to stop. That is 1.5 to 2 s of a
core and 127 MB in every rank before its first step. In a rank nothing compiles its optimizer: the
loop makes the steps. So until somebody asks the module for anything else, `graph_break` does
nothing and `disable` gives back the function of ``torch.optim`` as it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
_OPTIMIZERS = "torch.optim."


def postpone() -> None:
    """Put the stand-in there, unless the compiler is loaded already or this torch has none."""
    import torch

    if _NAME in sys.modules:
        return
    spec = importlib.util.find_spec(_NAME)
    if spec is None:
        return
    late = _Late(_NAME)
    late.__spec__ = spec
    late.__file__ = spec.origin
    sys.modules[_NAME] = late
    torch._dynamo = late


class _Late(ModuleType):
    """``torch._dynamo`` as an optimizer needs it; whatever else is asked for loads the real one."""

    def graph_break(self, msg: str = "") -> None:
        """Where a compiler would stop; none is at work."""

    def disable(
        self, fn: Callable[..., Any] | None = None, *more: Any, **settings: Any
    ) -> Callable[..., Any]:
        if fn is not None and fn.__module__.startswith(_OPTIMIZERS):
            return fn
        found: Callable[..., Any] = _real().disable(fn, *more, **settings)
        return found

    def __getattr__(self, name: str) -> Any:
        # Whoever looks through all modules (inspect, pickle, warnings) asks for such names, and
        # __path__ is what the import of a part of the compiler asks for.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        return getattr(_real(), name)


def _real() -> ModuleType:
    """The compiler itself, from now on for everybody."""
    import torch

    if isinstance(sys.modules.get(_NAME), _Late):
        del sys.modules[_NAME]
        torch._dynamo = importlib.import_module(_NAME)
    return sys.modules[_NAME]
