"""Small programs in the manner of public ones; each counts, saves, and can resume."""

from __future__ import annotations

from dataclasses import dataclass

_TRANSFORMERS = """
import argparse
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
given = argparse.ArgumentParser()
given.add_argument("--output_dir")
given.add_argument("--resume_from_checkpoint", default=None)
given = given.parse_args()
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 960
    def __getitem__(self, index):
        words = torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words[0] % 2}
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16)
arguments = TrainingArguments(given.output_dir, max_steps=100000, per_device_train_batch_size=4,
                              logging_steps=1, save_steps=5, use_cpu=True, report_to=[])
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Data())
trainer.train(resume_from_checkpoint=given.resume_from_checkpoint)
"""
_LIGHTNING = """
import argparse
import lightning, torch
from lightning.pytorch.loggers import CSVLogger
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--nodes", type=int)
given.add_argument("--ckpt", default=None)
given = given.parse_args()
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = (self.layer(batch[0]) - batch[1]).square().mean()
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, index):
        loss = (self.layer(batch[0]) - batch[1]).square().mean()
        self.log("val_loss", loss, sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
x = torch.randn(192, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, 8)
trainer = lightning.Trainer(num_nodes=given.nodes, devices=2, accelerator="cpu", max_epochs=100000,
                            logger=CSVLogger(given.out, flush_logs_every_n_steps=1),
                            log_every_n_steps=1, enable_progress_bar=False)
trainer.fit(Net(), loader, loader, ckpt_path=given.ckpt)
"""
_ACCELERATE = """
import argparse, json, time
import torch
from accelerate import Accelerator
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--resume", default="")
given = given.parse_args()
accelerator = Accelerator(cpu=True)
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), 0.01)
x = torch.randn(96, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
layer, optimizer, loader = accelerator.prepare(layer, optimizer,
                                               torch.utils.data.DataLoader(data, 8))
epoch = 0
if given.resume:
    accelerator.load_state(given.resume)
    epoch = int(given.resume.rpartition("-")[2])
while True:
    epoch += 1
    for batch, target in loader:
        optimizer.zero_grad()
        loss = (layer(batch) - target).square().mean()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.save_state(f"{given.out}/checkpoint-{epoch}")
    accelerator.print(json.dumps({"epoch": epoch, "loss": loss.item()}), flush=True)
    time.sleep(0.5)
"""
_HOROVOD = """
import argparse, json, os, time
import horovod.torch as hvd
import torch
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--resume", default="")
given = given.parse_args()
hvd.init()
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), 0.01 * hvd.size())
step = 0
if given.resume:
    saved = torch.load(given.resume)
    step = saved["step"]
    layer.load_state_dict(saved["layer"])
hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=layer.named_parameters())
while True:
    step += 1
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = (layer(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    loss = hvd.allreduce(loss, name="loss")
    if hvd.rank() == 0:
        print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
        if step % 5 == 0:
            path = f"{given.out}/checkpoint-{step}.pt"
            torch.save({"step": step, "layer": layer.state_dict()}, path + ".part")
            os.replace(path + ".part", path)
    time.sleep(0.1)
"""
_HYDRA = """
import time
import hydra, torch, torch.distributed as dist
from omegaconf import OmegaConf
from torch.utils.tensorboard import SummaryWriter
@hydra.main(version_base=None, config_name="config", config_path="conf")
def main(config):
    dist.init_process_group("gloo")
    first = torch.load(config.resume)["step"] if config.resume else 0
    writer = SummaryWriter(f"{config.out}/events", flush_secs=1) if dist.get_rank() == 0 else None
    for step in range(first + 1, 100000):
        loss = torch.tensor([config.lr / step])
        dist.all_reduce(loss)
        if writer:
            writer.add_scalar("train/loss", loss.item(), step)
            if step % 5 == 0:
                writer.add_scalar("val/loss", loss.item(), step // 5)
                torch.save({"step": step, "config": OmegaConf.to_container(config)},
                           f"{config.out}/model-{step}.ckpt")
        time.sleep(0.1)
main()
"""
_CLICK = """
import json, os, time
import click
@click.command()
@click.option("--out", type=click.Path(file_okay=False))
@click.option("--lr", default=0.1)
@click.option("--resume", type=click.Path(exists=True))
def main(out, lr, resume):
    step = int(open(resume).read()) if resume else 0
    while True:
        step += 1
        if os.environ["RANK"] == "0":
            click.echo(json.dumps({"step": step, "loss": lr / step}))
            if step % 5 == 0:
                with open(os.path.join(out, f"model-{step}.pt"), "w") as file:
                    file.write(str(step))
        time.sleep(0.1)
main()
"""
_SHELL = """#!/bin/bash
set -euo pipefail
where=$(dirname "$0")
args=("$@")
exec python3 -u "$where/count.py" "${args[@]}"
"""
_COUNT = (
    _CLICK.replace("import click\n", "")
    .replace(
        _CLICK[_CLICK.index("@click") : _CLICK.index("    step =")],
        "import sys\ndef main():\n    out, resume = sys.argv[1], (sys.argv[2:] or [None])[0]\n"
        "    lr = 0.1\n",
    )
    .replace("click.echo", "print")
)
_OUT = ("--out", "{output}")
_RESUME = ("--resume", "{checkpoint}")


@dataclass(frozen=True)
class Program:
    """``files`` by name, the first is the entry; ``process`` is the file that each rank runs."""

    files: dict[str, str]
    arguments: tuple[str, ...] = _OUT
    resume_arguments: tuple[str, ...] = _RESUME
    metrics: tuple[str, ...] = ("loss",)
    process: str = "train.py"


PROGRAMS = {
    "transformers": Program(
        {"train.py": _TRANSFORMERS},
        ("--output_dir", "{output}"),
        ("--resume_from_checkpoint", "{checkpoint}"),
    ),
    "lightning": Program(
        {"train.py": _LIGHTNING},
        (*_OUT, "--nodes", "{nodes}"),
        ("--ckpt", "{checkpoint}"),
        ("train_loss", "val_loss"),
    ),
    "accelerate": Program({"train.py": _ACCELERATE}),
    "horovod": Program({"train.py": _HOROVOD}),
    "hydra": Program(
        {"train.py": _HYDRA, "conf/config.yaml": "lr: 0.1\nout: ''\nresume: ''\n"},
        ("out={output}", "lr=0.2"),
        ("resume={checkpoint}",),
        ("train/loss", "val/loss"),
    ),
    "click": Program({"train.py": _CLICK}),
    "shell": Program(
        {"train.sh": _SHELL, "count.py": _COUNT},
        ("{output}",),
        ("{checkpoint}",),
        process="count.py",
    ),
}
