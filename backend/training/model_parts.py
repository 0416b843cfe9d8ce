"""Parts of a network: a model that is cut into parts, each of which runs without the others.

The model is traced (`torch.fx`), once for training and once for evaluation. Only the forward of a
module that contains a cut is traced; decisions of Python there are made once. After a cut, the
network uses only the output of the module before the cut and the model's own input.
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
_CUT_REMEDY = "Name the modules after which the network is cut in strategy.cut."


class ModelParts:
    """A model as a chain of parts.

    Attributes:
        names: The modules after which the model is cut.
        first_layers: For each part, the graph from its input to the end of its first module with
            parameters.
    """

    def __init__(self, model: torch.nn.Module, cuts: Sequence[str], count: int, data: Any) -> None:
        """Cut ``model`` into ``count`` parts: after the modules ``cuts``, or in balance.

        Args:
            data: A batch, on the model's device.

        Raises:
            BackendError: The model cannot be cut there, or has no place for an automatic cut.
        """
        self.model = model
        was_training = model.training
        model.train()
        training = _ModelTracer(model, cuts)
        model.eval()
        evaluation = _ModelTracer(model, cuts)
        with torch.no_grad():
            output, costs = _measure_costs(model, data)
        self.names = tuple(cuts) or _balanced_cuts(training, costs, count, self._is_trained)
        self.names = tuple(sorted(self.names, key=training.output_index))
        self._graphs = {
            mode: trace.part_graphs(self.names)
            for mode, trace in ((True, training), (False, evaluation))
        }
        self.first_layers = [
            training.graph_module(nodes) for nodes in training.first_layers(self.names)
        ]
        self._owners: dict[str, int] = {}
        for trace in (training, evaluation):
            self._add_owners(trace)
        self._require_own_parameters()
        with torch.no_grad():
            _require_same_output(output, self.run_all(data))
        model.train(was_training)

    def __len__(self) -> int:
        return len(self.names) + 1

    def run(self, part: int, data: Any, cut_input: torch.Tensor | None) -> Any:
        """Return the output of a part.

        Args:
            data: The input of the whole model.
            cut_input: The output of the previous part; None for the first part.
        """
        with user_code.calling(FORWARD):
            return self._graphs[self.model.training][part](data, cut_input)

    def run_all(self, data: Any) -> Any:
        """Return the output of the whole model, computed part by part."""
        output = self.run(0, data, None)
        for part, name in enumerate(self.names, 1):
            if not (
                isinstance(output, torch.Tensor) and output.ndim and output.is_floating_point()
            ):
                raise BackendError(
                    f"The model cannot be cut after “{name}”: its output is not one tensor of "
                    "floating-point numbers.",
                    "Cut after another module.",
                )
            output = self.run(part, data, output)
        return output

    def owner_part(self, name: str) -> int:
        """Return the part that has a parameter, a buffer or an entry of the model's state.

        Parameters that no part's forward uses belong to the last part, which computes the loss.
        """
        path = name.split(".")
        for end in range(len(path), 0, -1):
            part = self._owners.get(".".join(path[:end]))
            if part is not None:
                return part
        return len(self) - 1

    def parameters(self, part: int) -> list[torch.nn.Parameter]:
        """Return the parameters that a part trains."""
        return [
            parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad and self.owner_part(name) == part
        ]

    def _is_trained(self, node: fx.Node) -> bool:
        target = _target_name(node)
        return node.op in ("call_module", "get_attr") and any(
            parameter.requires_grad and f"{name}.".startswith(f"{target}.")
            for name, parameter in self.model.named_parameters()
        )

    def _add_owners(self, trace: _ModelTracer) -> None:
        for node in trace.nodes:
            if node.op in ("call_module", "get_attr"):
                part = trace.part_of(node, self.names)
                if self._owners.setdefault(_target_name(node), part) != part:
                    raise _shared_error(_target_name(node))

    def _require_own_parameters(self) -> None:
        """Refuse parameters of two parts, and parts without parameters to train."""
        part_by_id: dict[int, int] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            if part_by_id.setdefault(id(parameter), self.owner_part(name)) != self.owner_part(name):
                raise _shared_error(name)
        for part in range(len(self)):
            if not self.parameters(part):
                range_label = (
                    f"after “{self.names[part - 1]}”" if part else f"up to “{self.names[0]}”"
                )
                raise BackendError(
                    f"The part of the model {range_label} has no parameters to train.",
                    "Cut the model after other modules in strategy.cut.",
                )


class _SingleArgument(torch.nn.Module):
    """Module that calls the model with one value, so that its other arguments have defaults."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Any) -> Any:
        return self.model(data)


class _ModelTracer(fx.Tracer):
    """Tracer of the graph of a model, in the order of the forward pass."""

    def __init__(self, model: torch.nn.Module, cuts: Sequence[str]) -> None:
        super().__init__()
        module_names = [name for name, _ in model.named_modules() if name]
        for name in cuts:
            if name not in module_names:
                raise BackendError(
                    f"strategy.cut names “{name}”, but the model has no such module.",
                    f"It has {name_list(module_names)}.",
                )
        self._cut_paths = [f"{_ROOT}.{name}" for name in cuts]
        self._outputs: dict[str, fx.Node] = {}
        self._module = _SingleArgument(model)
        try:
            self.nodes = list(self.trace(self._module).nodes)
        except Exception as error:
            raise BackendError(
                "The model cannot be cut, because its forward cannot be traced: "
                f"{user_code.describe(error)}.",
                "Write the forward as a chain of modules, or cut only after modules of a chain. "
                + _CUT_REMEDY,
            ) from error
        self._index_by_node = {node: index for index, node in enumerate(self.nodes)}

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        is_chain = type(m).forward is torch.nn.Sequential.forward
        holds_cut = any(name.startswith(f"{module_qualified_name}.") for name in self._cut_paths)
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

    def output_index(self, name: str) -> int:
        """Return the index of a module's output in the order of the forward pass."""
        node = self._outputs.get(f"{_ROOT}.{name}")
        if node is None:
            raise BackendError(
                f"strategy.cut names “{name}”, but the model's forward does not call it, or it "
                "returns more than one tensor.",
                "Cut after another module.",
            )
        return self._index_by_node[node]

    def passing_nodes(self, index: int) -> list[fx.Node]:
        """Return the nodes that are computed up to an index and used after it."""
        return [
            node
            for node in self.nodes[: index + 1]
            if node.op != "placeholder"
            and any(self._index_by_node[user] > index for user in node.users)
        ]

    def cut_candidates(self) -> dict[int, str]:
        """Return the indices where only one module's output passes, with the module's name."""
        candidates: dict[int, str] = {}
        for path, node in self._outputs.items():
            index = self._index_by_node[node]
            name = path.removeprefix(f"{_ROOT}.")
            if self.nodes[index + 1].op != "output" and self.passing_nodes(index) == [node]:
                candidates[index] = min(name, candidates.get(index, name), key=len)
        return dict(sorted(candidates.items()))

    def part_of(self, node: fx.Node, names: Sequence[str]) -> int:
        return sum(self._index_by_node[node] > self.output_index(name) for name in names)

    def part_graphs(self, names: Sequence[str]) -> list[fx.GraphModule]:
        """Return the graph of each part.

        Raises:
            BackendError: Other values than the output of its module pass at a cut.
        """
        for name in names:
            index = self.output_index(name)
            other_nodes = [
                node for node in self.passing_nodes(index) if node is not self.nodes[index]
            ]
            if other_nodes or len(self.passing_nodes(index)) != 1:
                raise BackendError(
                    f"The model cannot be cut after “{name}”: "
                    + (
                        f"its forward uses {name_list([*map(_target_name, other_nodes)])} after "
                        "it, too."
                        if other_nodes
                        else "its forward does not use that module's output."
                    ),
                    "Cut after a module through whose output everything passes.",
                )
        bounds = [0, *(self.output_index(name) + 1 for name in names), len(self.nodes)]
        return [self.graph_module(self.nodes[start:end]) for start, end in pairwise(bounds)]

    def first_layers(self, names: Sequence[str]) -> list[list[fx.Node]]:
        """Return the nodes of each part up to its first module with parameters."""
        layers = []
        for part in range(len(names) + 1):
            nodes = [node for node in self.nodes if self.part_of(node, names) == part]
            first_indexes = (n for n, node in enumerate(nodes) if self._has_parameters(node))
            layers.append(nodes[: next(first_indexes, len(nodes) - 1) + 1])
        return layers

    def _has_parameters(self, node: fx.Node) -> bool:
        return node.op == "call_module" and any(
            True for _ in self._module.get_submodule(str(node.target)).parameters()
        )

    def graph_module(self, nodes: Sequence[fx.Node]) -> fx.GraphModule:
        """Return consecutive nodes as a module of the model's input and their cut input."""
        graph = fx.Graph()
        data, cut_input = graph.placeholder("data"), graph.placeholder("given")
        copies: dict[fx.Node, fx.Node] = {}

        def copy_of(node: fx.Node) -> fx.Node:
            return copies.get(node, data if node.op == "placeholder" else cut_input)

        for node in nodes:
            if node.op == "placeholder":
                continue
            copies[node] = graph.node_copy(node, copy_of)
        if nodes[-1].op != "output":
            graph.output(copies[nodes[-1]])
        return fx.GraphModule(self._module, graph)


def _target_name(node: fx.Node) -> str:
    """Return the name of the module or tensor that a node uses, or its operation."""
    return getattr(node.target, "__name__", str(node.target)).removeprefix(f"{_ROOT}.")


def _measure_costs(model: torch.nn.Module, data: Any) -> tuple[Any, dict[str, int]]:
    """Return the output of a batch, and the estimated multiply-adds of each module."""
    costs: dict[str, int] = {}

    def counter(name: str) -> Callable[..., None]:
        def count(module: torch.nn.Module, _: Any, output: Any) -> None:
            values = sum(
                tensor.numel() for tensor in tree_leaves(output) if hasattr(tensor, "numel")
            )
            weights = [tensor for tensor in module.parameters(recurse=False) if tensor.ndim > 1]
            value_cost = 1 + sum(tensor.numel() // max(1, tensor.shape[0]) for tensor in weights)
            costs[name] = costs.get(name, 0) + values * value_cost

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


def _balanced_cuts(
    trace: _ModelTracer, costs: Mapping[str, int], count: int, is_trained: Callable[[fx.Node], bool]
) -> tuple[str, ...]:
    """Choose cuts so that each of ``count`` parts trains, and the largest cost is minimal."""
    candidates = trace.cut_candidates()
    bounds = [0, *(index + 1 for index in candidates), len(trace.nodes)]
    segments = [trace.nodes[start:end] for start, end in pairwise(bounds)]
    segment_costs = [
        sum(
            cost
            for node in segment
            if node.op == "call_module"
            for name, cost in costs.items()
            if f"{name}.".startswith(f"{_target_name(node)}.")
        )
        for segment in segments
    ]
    has_parameters = [any(map(is_trained, segment)) for segment in segments]

    @cache
    def best_cuts(start: int, parts: int) -> tuple[float, tuple[int, ...]]:
        if parts == 1:
            return (sum(segment_costs[start:]) if any(has_parameters[start:]) else math.inf), ()
        options = []
        for end in range(start + 1, len(segments) - parts + 2):
            if any(has_parameters[start:end]):
                rest_cost, cuts = best_cuts(end, parts - 1)
                options.append((max(sum(segment_costs[start:end]), rest_cost), (end, *cuts)))
        return min(options, default=(math.inf, ()))

    max_cost, cuts = best_cuts(0, count)
    if max_cost == math.inf:
        raise BackendError(
            f"The model cannot be cut into {count} parts by itself: its forward is not a chain of "
            f"{count} or more modules with parameters.",
            _CUT_REMEDY,
        )
    names = list(candidates.values())
    return tuple(names[cut_index - 1] for cut_index in cuts)


def _require_same_output(model_output: Any, parts_output: Any) -> None:
    """Refuse a model whose parts have another output, because Python decides in its forward."""
    for model_tensor, parts_tensor in zip(
        tree_leaves(model_output), tree_leaves(parts_output), strict=True
    ):
        if not (
            isinstance(model_tensor, torch.Tensor)
            and model_tensor.is_floating_point()
            and model_tensor.numel()
        ):
            continue
        # Kernels of a GPU may add in another order.
        rounding = 1e-3 * float(model_tensor.abs().nan_to_num().max())
        if not torch.allclose(model_tensor, parts_tensor, rtol=0.0, atol=rounding, equal_nan=True):
            raise BackendError(
                "The model cannot be cut: its parts compute another output than the whole model.",
                "Leave random numbers and decisions about single batches to the modules that the "
                "forward calls.",
            )


def _shared_error(name: str) -> BackendError:
    return BackendError(
        f"The model cannot be cut at these modules: two parts use “{name}”.",
        "Cut so that each module and parameter is used in one part.",
    )
