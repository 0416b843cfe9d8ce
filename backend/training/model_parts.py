"""Parts of a network: a model that is cut into pieces, each of which runs without the others.

The model is traced (`torch.fx`), once for training and once for evaluation. Only the forward of a
module that contains a cut is traced; what Python decides there is decided once. After a cut, the
network uses the output of the module before it and the model's own input, and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from backend.base.errors import BackendError
from backend.records.base.number_format import name_list
from backend.training import user_code
from backend.training.user_code.errors import FORWARD

_ROOT = "model"
_BY_HAND = "Name the modules after which the network is cut in strategy.cut."


class ModelParts:
    """A model as a chain of parts.

    Attributes:
        names: The modules after which it is cut.
        first_layers: Of each part: from its input to the end of its first module with parameters.
    """

    def __init__(self, model: torch.nn.Module, cut: Sequence[str], count: int, data: Any) -> None:
        """Cut ``model`` into ``count`` parts: after the modules in ``cut``, or else in balance.

        Args:
            data: A batch, on the model's device.

        Raises:
            BackendError: It cannot be cut there, or nowhere by itself.
        """
        self.model = model
        was_training = model.training
        model.train()
        training = _Trace(model, cut)
        model.eval()
        evaluation = _Trace(model, cut)
        with torch.no_grad():
            output, costs = _measured(model, data)
        self.names = tuple(cut) or _balanced(training, costs, count, self._trains)
        self.names = tuple(sorted(self.names, key=training.place))
        self._graphs = {
            mode: trace.parts(self.names) for mode, trace in ((True, training), (False, evaluation))
        }
        self.first_layers = [
            training.graph_module(one) for one in training.first_layers(self.names)
        ]
        self._owners: dict[str, int] = {}
        for trace in (training, evaluation):
            self._take_owners(trace)
        self._require_own_parameters()
        with torch.no_grad():
            _require_same(output, self.chained(data))
        model.train(was_training)

    def __len__(self) -> int:
        return len(self.names) + 1

    def run(self, part: int, data: Any, given: torch.Tensor | None) -> Any:
        """Return the output of a part.

        Args:
            data: The input of the whole model.
            given: The output of the part before; None for the first part.
        """
        with user_code.calling(FORWARD):
            return self._graphs[self.model.training][part](data, given)

    def chained(self, data: Any) -> Any:
        """Return the output of the whole model, computed part by part."""
        given = self.run(0, data, None)
        for part, name in enumerate(self.names, 1):
            if not (isinstance(given, torch.Tensor) and given.ndim and given.is_floating_point()):
                raise BackendError(
                    f"The model cannot be cut after “{name}”: its output is not one tensor of "
                    "floating-point numbers.",
                    "Cut after another module.",
                )
            given = self.run(part, data, given)
        return given

    def owner(self, name: str) -> int:
        """Return the part that has a parameter, a buffer or an entry of the model's state.

        What no part's forward uses belongs to the last one, which computes the loss.
        """
        pieces = name.split(".")
        for end in range(len(pieces), 0, -1):
            known = self._owners.get(".".join(pieces[:end]))
            if known is not None:
                return known
        return len(self) - 1

    def parameters(self, part: int) -> list[torch.nn.Parameter]:
        """Return the parameters that a part trains."""
        return [
            one
            for name, one in self.model.named_parameters()
            if one.requires_grad and self.owner(name) == part
        ]

    def _trains(self, node: fx.Node) -> bool:
        target = _bare(node)
        return node.op in ("call_module", "get_attr") and any(
            one.requires_grad and f"{name}.".startswith(f"{target}.")
            for name, one in self.model.named_parameters()
        )

    def _take_owners(self, trace: _Trace) -> None:
        for node in trace.nodes:
            if node.op in ("call_module", "get_attr"):
                part = trace.part_of(node, self.names)
                if self._owners.setdefault(_bare(node), part) != part:
                    raise _shared(_bare(node))

    def _require_own_parameters(self) -> None:
        """Refuse parameters of two parts, and parts without parameters to train."""
        seen: dict[int, int] = {}
        for name, one in self.model.named_parameters(remove_duplicate=False):
            if seen.setdefault(id(one), self.owner(name)) != self.owner(name):
                raise _shared(name)
        for part in range(len(self)):
            if not self.parameters(part):
                where = f"after “{self.names[part - 1]}”" if part else f"up to “{self.names[0]}”"
                raise BackendError(
                    f"The part of the model {where} has no parameters to train.",
                    "Cut the model after other modules in strategy.cut.",
                )


class _Whole(torch.nn.Module):
    """Calls the model with one value, so that its other arguments have their defaults."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Any) -> Any:
        return self.model(data)


class _Trace(fx.Tracer):
    """The graph of a model; its order is that of the forward pass."""

    def __init__(self, model: torch.nn.Module, cut: Sequence[str]) -> None:
        super().__init__()
        known = [name for name, _ in model.named_modules() if name]
        for name in cut:
            if name not in known:
                raise BackendError(
                    f"strategy.cut names “{name}”, but the model has no such module.",
                    f"It has {name_list(known)}.",
                )
        self._cut = [f"{_ROOT}.{name}" for name in cut]
        self._outputs: dict[str, fx.Node] = {}
        self._whole = _Whole(model)
        try:
            self.nodes = list(self.trace(self._whole).nodes)
        except Exception as error:
            raise BackendError(
                "The model cannot be cut, because its forward cannot be traced: "
                f"{user_code.describe(error)}.",
                "Write the forward as a chain of modules, or cut only after modules of a chain. "
                + _BY_HAND,
            ) from error
        self._places = {node: place for place, node in enumerate(self.nodes)}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        is_chain = type(m).forward is torch.nn.Sequential.forward
        holds_cut = any(name.startswith(f"{module_qualified_name}.") for name in self._cut)
        return not (is_chain or holds_cut or module_qualified_name == _ROOT)

    def call_module(
        self,
        m: torch.nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        output = super().call_module(m, forward, args, kwargs)
        if isinstance(output, fx.Proxy):
            self._outputs[self.path_of_module(m)] = output.node
        return output

    def place(self, name: str) -> int:
        """Return where a module's output is in the order of the forward pass."""
        node = self._outputs.get(f"{_ROOT}.{name}")
        if node is None:
            raise BackendError(
                f"strategy.cut names “{name}”, but the model's forward does not call it, or it "
                "returns more than one tensor.",
                "Cut after another module.",
            )
        return self._places[node]

    def passing(self, place: int) -> list[fx.Node]:
        """Return the values that are computed up to a place and used after it."""
        return [
            node
            for node in self.nodes[: place + 1]
            if node.op != "placeholder" and any(self._places[one] > place for one in node.users)
        ]

    def candidates(self) -> dict[int, str]:
        """Return the places where only one module's output passes, with the module's name."""
        found: dict[int, str] = {}
        for path, node in self._outputs.items():
            place = self._places[node]
            name = path.removeprefix(f"{_ROOT}.")
            if self.nodes[place + 1].op != "output" and self.passing(place) == [node]:
                found[place] = min(name, found.get(place, name), key=len)
        return dict(sorted(found.items()))

    def part_of(self, node: fx.Node, names: Sequence[str]) -> int:
        return sum(self._places[node] > self.place(name) for name in names)

    def parts(self, names: Sequence[str]) -> list[fx.GraphModule]:
        """Return the graph of each part.

        Raises:
            BackendError: More passes at a cut than the output of its module.
        """
        for name in names:
            place = self.place(name)
            others = [node for node in self.passing(place) if node is not self.nodes[place]]
            if others or len(self.passing(place)) != 1:
                raise BackendError(
                    f"The model cannot be cut after “{name}”: "
                    + (
                        f"its forward uses {name_list([_bare(one) for one in others])} after it, too."
                        if others
                        else "its forward does not use that module's output."
                    ),
                    "Cut after a module through whose output everything passes.",
                )
        bounds = [0, *(self.place(name) + 1 for name in names), len(self.nodes)]
        return [self.graph_module(self.nodes[first:end]) for first, end in pairwise(bounds)]

    def first_layers(self, names: Sequence[str]) -> list[list[fx.Node]]:
        """Return the nodes of each part up to its first module with parameters."""
        found = []
        for part in range(len(names) + 1):
            own = [node for node in self.nodes if self.part_of(node, names) == part]
            first = (n for n, node in enumerate(own) if self._has_parameters(node))
            found.append(own[: next(first, len(own) - 1) + 1])
        return found

    def _has_parameters(self, node: fx.Node) -> bool:
        return node.op == "call_module" and any(
            True for _ in self._whole.get_submodule(str(node.target)).parameters()
        )

    def graph_module(self, nodes: Sequence[fx.Node]) -> fx.GraphModule:
        """Return nodes that follow each other as a module of the model's input and their own."""
        graph = fx.Graph()
        data, given = graph.placeholder("data"), graph.placeholder("given")
        copies: dict[fx.Node, fx.Node] = {}

        def copied(node: fx.Node) -> fx.Node:
            return copies.get(node, data if node.op == "placeholder" else given)

        for node in nodes:
            if node.op == "placeholder":
                continue
            copies[node] = graph.node_copy(node, copied)
        if nodes[-1].op != "output":
            graph.output(copies[nodes[-1]])
        return fx.GraphModule(self._whole, graph)


def _bare(node: fx.Node) -> str:
    """Return the name in the model of the module or tensor that a node uses, or its operation."""
    return getattr(node.target, "__name__", str(node.target)).removeprefix(f"{_ROOT}.")


def _measured(model: torch.nn.Module, data: Any) -> tuple[Any, dict[str, int]]:
    """Return the output of a batch, and about how many multiply-adds each module makes for it."""
    costs: dict[str, int] = {}

    def counter(name: str) -> Callable[..., None]:
        def count(module: torch.nn.Module, _: Any, output: Any) -> None:
            values = sum(one.numel() for one in tree_leaves(output) if hasattr(one, "numel"))
            weights = [one for one in module.parameters(recurse=False) if one.ndim > 1]
            each = 1 + sum(one.numel() // max(1, one.shape[0]) for one in weights)
            costs[name] = costs.get(name, 0) + values * each

        return count

    hooks = [
        module.register_forward_hook(counter(name))
        for name, module in model.named_modules()
        if name and not isinstance(module, torch.nn.Sequential)
    ]
    try:
        return user_code.compute_output(model, data), costs
    finally:
        for hook in hooks:
            hook.remove()


def _balanced(
    trace: _Trace, costs: Mapping[str, int], count: int, trains: Callable[[fx.Node], bool]
) -> tuple[str, ...]:
    """Choose cuts so that the dearest of ``count`` parts costs least, and each trains."""
    known = trace.candidates()
    bounds = [0, *(place + 1 for place in known), len(trace.nodes)]
    pieces = [trace.nodes[first:end] for first, end in pairwise(bounds)]
    prices = [
        sum(
            cost
            for node in piece
            if node.op == "call_module"
            for name, cost in costs.items()
            if f"{name}.".startswith(f"{_bare(node)}.")
        )
        for piece in pieces
    ]
    trained = [any(map(trains, piece)) for piece in pieces]

    @cache
    def best(first: int, parts: int) -> tuple[float, tuple[int, ...]]:
        if parts == 1:
            return (sum(prices[first:]) if any(trained[first:]) else math.inf), ()
        options = []
        for end in range(first + 1, len(pieces) - parts + 2):
            if any(trained[first:end]):
                rest, cuts = best(end, parts - 1)
                options.append((max(sum(prices[first:end]), rest), (end, *cuts)))
        return min(options, default=(math.inf, ()))

    price, cuts = best(0, count)
    if price == math.inf:
        raise BackendError(
            f"The model cannot be cut into {count} parts by itself: its forward is not a chain of "
            f"{count} or more modules with parameters.",
            _BY_HAND,
        )
    names = list(known.values())
    return tuple(names[cut - 1] for cut in cuts)


def _require_same(whole: Any, parts: Any) -> None:
    """Refuse a model whose parts do not compute what it computes: Python decides in its forward."""
    for one, other in zip(tree_leaves(whole), tree_leaves(parts), strict=True):
        if not (isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel()):
            continue
        # Kernels of a GPU may add in another order.
        rounding = 1e-3 * float(one.abs().nan_to_num().max())
        if not torch.allclose(one, other, rtol=0.0, atol=rounding, equal_nan=True):
            raise BackendError(
                "The model cannot be cut: its parts compute another output than the whole model.",
                "Leave random numbers and decisions about single batches to the modules that the "
                "forward calls.",
            )


def _shared(name: str) -> BackendError:
    return BackendError(
        f"The model cannot be cut at these modules: two parts use “{name}”.",
        "Cut so that each module and parameter is used in one part.",
    )
