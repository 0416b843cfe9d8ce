"""Optimizers, schedules and strategies and the settings of each; PyTorch's by its names.

The checks of job files, the form and the training loop share this table.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.records.jobs.setting import Setting


class Options(dict[str, Setting]):
    """The settings of one optimizer, schedule or strategy, and its name in words."""

    def __init__(self, label: str, settings: Mapping[str, Setting] = {}) -> None:
        super().__init__(settings)
        self.label = label


class Strategy(Options):
    """The settings of a strategy, and its texts in the form.

    Attributes:
        description, advantage, costs: A sentence each: how the strategy works, when it pays, and
            its costs or needs.
        library: The package with which its processes exchange, besides PyTorch; "" for none.
    """

    def __init__(
        self,
        label: str,
        description: str,
        advantage: str,
        costs: str,
        settings: Mapping[str, Setting] = {},
        library: str = "",
    ) -> None:
        super().__init__(label, settings)
        self.description, self.advantage, self.costs = description, advantage, costs
        self.library = library


_MOMENTUM = Setting("number", "Momentum", 0.0, exclusive_high=1.0, term="momentum")
_BETAS = Setting("pair", "Betas", (0.9, 0.999), exclusive_high=1.0, term="betas")
_AMSGRAD = Setting("flag", "AMSGrad", False, term="AMSGrad")
_COMMON = {"maximize": Setting("flag", default=False)}


def _eps(default: float) -> Setting:
    return Setting("number", "Epsilon", default, term="epsilon")


def _decay(default: float) -> Setting:
    return Setting("number", "Weight decay", default, term="weight decay")


_ETA_MIN = Setting("number", "Lowest rate", 0.0, term="schedule")


def _gamma(default: float) -> Setting:
    return Setting("number", "Factor", default, exclusive_low=0, high=1, term="factor")


OPTIMIZERS: Mapping[str, Options] = {
    "sgd": Options(
        "SGD",
        {
            "momentum": _MOMENTUM,
            "dampening": Setting("number", "Dampening", 0.0, term="dampening"),
            "nesterov": Setting("flag", "Nesterov", False, term="Nesterov"),
            "weight_decay": _decay(0.0),
            **_COMMON,
        },
    ),
    "adam": Options(
        "Adam",
        {
            "betas": _BETAS,
            "eps": _eps(1e-8),
            "weight_decay": _decay(0.0),
            "amsgrad": _AMSGRAD,
            **_COMMON,
        },
    ),
    "adamw": Options(
        "AdamW",
        {
            "betas": _BETAS,
            "eps": _eps(1e-8),
            "weight_decay": _decay(0.01),
            "amsgrad": _AMSGRAD,
            **_COMMON,
        },
    ),
    "adagrad": Options(
        "Adagrad",
        {
            "lr_decay": Setting("number", "Rate decay", 0.0, term="rate decay"),
            "initial_accumulator_value": Setting(
                "number", "Initial accumulator", 0.0, term="accumulator"
            ),
            "eps": _eps(1e-10),
            "weight_decay": _decay(0.0),
            **_COMMON,
        },
    ),
    "adadelta": Options(
        "Adadelta",
        {
            "rho": Setting("number", "Rho", 0.9, exclusive_high=1.0, term="rho"),
            "eps": _eps(1e-6),
            "weight_decay": _decay(0.0),
            **_COMMON,
        },
    ),
    "rmsprop": Options(
        "RMSprop",
        {
            "momentum": _MOMENTUM,
            "alpha": Setting("number", "Alpha", 0.99, exclusive_high=1.0, term="alpha"),
            "eps": _eps(1e-8),
            "centered": Setting("flag", "Centered", False, term="centered"),
            "weight_decay": _decay(0.0),
            **_COMMON,
        },
    ),
    "lbfgs": Options("L-BFGS"),
}

SCHEDULES: Mapping[str, Options] = {
    "constant": Options("Constant"),
    "step": Options(
        "Step",
        {
            "step_size": Setting("whole", "Lower every, epochs", 10, 1, term="schedule"),
            "gamma": _gamma(0.1),
        },
    ),
    "exponential": Options("Exponential", {"gamma": _gamma(0.95)}),
    "cosine": Options("Cosine", {"eta_min": _ETA_MIN}),
    "cosine-restarts": Options(
        "Cosine with restarts",
        {
            "t_0": Setting("whole", "First cycle, epochs", 10, 1, term="restart"),
            "t_mult": Setting("whole", "Next cycle, times", 2, 1, term="restart"),
            "eta_min": _ETA_MIN,
        },
    ),
    "milestones": Options(
        "Milestones",
        {
            "milestones": Setting("wholes", "Lower after, epochs", (20, 40), 1, term="schedule"),
            "gamma": _gamma(0.1),
        },
    ),
    "polynomial": Options(
        "Polynomial",
        {
            "power": Setting("number", "Power", 1.0, exclusive_low=0, term="schedule"),
            "eta_min": _ETA_MIN,
        },
    ),
    "one-cycle": Options(
        "One cycle",
        {
            "pct_start": Setting(
                "number", "Share that rises", 0.3, exclusive_high=1.0, term="one cycle"
            ),
            "div_factor": Setting("number", "First rate, peak by", 25.0, 1, term="one cycle"),
            "final_div_factor": Setting("number", "Last rate, first by", 1e4, 1, term="one cycle"),
        },
    ),
    "plateau": Options(
        "Plateau",
        {
            "gamma": _gamma(0.1),
            "patience": Setting("whole", "Epochs without gain", 10, 1, term="plateau"),
            "min_delta": Setting("number", "Least gain", 0.0, term="plateau"),
        },
    ),
}
"""The theses lower the rate to a tenth after 20 and 40 epochs, as the milestones do by default."""


def _choice(label: str, term: str, **choices: str) -> Setting:
    return Setting("choice", label, next(iter(choices)), choices=choices, term=term)


_SERVED = {
    "servers": Setting("whole", "Servers", 1, 1, term="server"),
    "n_fetch": Setting("whole", "Fetch every, steps", 1, 1, term="fetch"),
    "n_push": Setting("whole", "Push every, steps", 1, 1, term="push"),
    "policy": _choice(
        "Slow workers",
        "quorum",
        none="wait for all",
        quorum="end at 75 %",
        portion="small portions",
    ),
}

_AVERAGED = {
    "average_every": Setting("whole", "Average every, steps", 1, 1, 1_000_000, term="local steps"),
    "outer_lr": Setting("number", "Outer rate", 1.0, exclusive_low=0, term="outer step"),
    "outer_momentum": Setting(
        "number", "Outer momentum", 0.0, exclusive_high=1.0, term="outer step"
    ),
}

_SYNC_BATCH_NORM = Setting("flag", "Batch norm over all", False, term="batch norm over all")

_VARIANTS = {
    "dual-layer": "Dual layer",
    "dual-layer-normalised": "Dual layer, normalised",
    "dual-layer-quotient": "Dual layer, quotient",
}
PUBLISHED_VARIANTS = tuple(_VARIANTS)
"""Of “consensus”; they do not learn reliably, and are there to show why. The last two are readings
of the source's equation 9.3: the denominator is a constant of the step, or its gradient counts."""

STRATEGIES: Mapping[str, Strategy] = {
    "allreduce": Strategy(
        "Allreduce",
        "Each process trains on its own batch; then all of them average their "
        "gradients and make the same update.",
        "It pays where the processes are equally fast and the network is good: use it "
        "unless you have a reason not to.",
        "Each step waits for the slowest process, and each node needs Horovod.",
        {
            "compression": _choice("Compression", "compression", none="None", fp16="float16"),
            "reduction": _choice(
                "Reduction",
                "reduction",
                average="Mean",
                adasum="Adasum",
                hierarchical="By node first",
            ),
            "sync_batch_norm": _SYNC_BATCH_NORM,
            **_AVERAGED,
        },
        library="horovod",
    ),
    "ddp": Strategy(
        "DDP",
        "The same updates as allreduce, exchanged by PyTorch in place of Horovod.",
        "It pays on nodes where Horovod cannot be built.",
        "Each step waits for the slowest process; it has no other reductions.",
        {
            "compression": _choice(
                "Compression",
                "compression",
                none="None",
                fp16="float16",
                bfloat16="bfloat16",
                powersgd="PowerSGD",
            ),
            "sync_batch_norm": _SYNC_BATCH_NORM,
            "shard": _choice("Share", "sharing", none="nothing", optimizer="optimizer state"),
            **_AVERAGED,
        },
        library="mpi4py",
    ),
    "fsdp": Strategy(
        "FSDP",
        "As DDP, but each process holds a share of weights, gradients and optimizer state, and "
        "gathers the weights of a block when it computes with them.",
        "It pays when weights and optimizer do not fit into one GPU, as with Adam on large models.",
        "Each step sends about one and a half times as much as DDP, and all layers train from the "
        "first step on.",
        library="mpi4py",
    ),
    "downpour": Strategy(
        "Downpour SGD",
        "Workers push gradients to a server and fetch parameters from it; they do not "
        "wait for each other.",
        "It pays where nodes differ in speed or may be lost: the job continues with "
        "the other workers.",
        "The first processes serve and do not train, and late gradients may need a lower rate.",
        _SERVED,
    ),
    "dc-asgd": Strategy(
        "DC-ASGD",
        "As Downpour, and the server corrects each late gradient for the updates "
        "since the worker fetched.",
        "It pays with many workers, where Downpour loses accuracy to late gradients.",
        "The server keeps a copy of the parameters for each worker; the correction is "
        "meant for SGD.",
        {
            "variant": _choice("Variant", "lambda", adaptive="Adaptive", constant="Constant"),
            "lambda": Setting("number", "Lambda", 2.0, term="lambda"),
            **_SERVED,
        },
    ),
    "sandblaster": Strategy(
        "Sandblaster L-BFGS",
        "A coordinator searches along one direction for the whole dataset; workers "
        "compute the gradient of small portions.",
        "It pays for small models whose loss is smooth: few, large steps with exact gradients.",
        "Every step reads the whole dataset several times, and the first process does not train.",
        {
            "portion": Setting("whole", "Portion, samples", 64, 1, term="portion"),
            "history": Setting("whole", "History, steps", 10, 1, term="L-BFGS history"),
        },
    ),
    "consensus": Strategy(
        "Consensus (split network)",
        "The network is cut into parts, one in each process; neighbours agree on the "
        "activations at the cut (ADMM). With one round of each batch the updates are "
        "exactly those of one process, and beta has no effect.",
        "It pays when the activations of the whole network do not fit into one GPU.",
        "The parts train one after the other on the same batch, so it is slower than "
        "one process where the network fits.",
        {
            "cut": Setting("texts", "Cut after", (), term="cut"),
            "beta": Setting(
                "number",
                "Beta (from 2 rounds)",
                1.0,
                low=0.001,
                exclusive_high=1e6,
                term="consensus",
            ),
            "inner_rounds": Setting("whole", "Rounds of each batch", 1, 1, term="consensus"),
            "variant": Setting(
                "choice", "Variant", "admm", choices={"admm": "ADMM", **_VARIANTS}, term="lambda"
            ),
        },
    ),
    "alone": Strategy(
        "One process",
        "One process trains on one batch after the other.",
        "It pays for small models, and as the reference for other strategies.",
        "It needs exactly one process.",
    ),
}
