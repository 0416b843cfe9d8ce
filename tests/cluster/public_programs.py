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
_MNIST = """
import argparse, time
import torch
given = argparse.ArgumentParser()
given.add_argument("--epochs", type=int, default=14)
given.add_argument("--log-interval", type=int, default=10)
given.add_argument("--no-accel", action="store_true")
given.add_argument("--save-model", action="store_true")
given = given.parse_args()
data = torch.utils.data.TensorDataset(torch.rand(960, 1, 28, 28), torch.randint(0, 10, (960,)))
loader = torch.utils.data.DataLoader(data, 8)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(676, 10), torch.nn.LogSoftmax(1))
optimizer = torch.optim.Adadelta(model.parameters())
for epoch in range(1, given.epochs + 1):
    for batch, (image, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(model(image), target)
        loss.backward()
        optimizer.step()
        if batch % given.log_interval == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\\tLoss: {:.6f}".format(
                epoch, batch * len(image), len(data), 100. * batch / len(loader), loss.item()))
        time.sleep(0.02)
if given.save_model:
    torch.save(model.state_dict(), "mnist_cnn.pt")
"""
_HOROVOD_MNIST = """
import argparse, time
import horovod.torch as hvd
import torch
given = argparse.ArgumentParser()
given.add_argument("--no-cuda", action="store_true")
given.add_argument("--epochs", type=int, default=10)
given = given.parse_args()
hvd.init()
torch.manual_seed(42)
data = torch.utils.data.TensorDataset(torch.rand(960, 784), torch.randint(0, 10, (960,)))
sampler = torch.utils.data.distributed.DistributedSampler(data, hvd.size(), hvd.rank())
loader = torch.utils.data.DataLoader(data, 8, sampler=sampler)
model = torch.nn.Sequential(torch.nn.Linear(784, 10), torch.nn.LogSoftmax(1))
optimizer = torch.optim.SGD(model.parameters(), 0.01 * hvd.size(), momentum=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for epoch in range(1, given.epochs + 1):
    sampler.set_epoch(epoch)
    for batch, (image, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(model(image), target)
        loss.backward()
        optimizer.step()
        if batch % 10 == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\\tLoss: {:.6f}".format(
                epoch, batch * len(image), len(sampler), 100. * batch / len(loader), loss.item()))
        time.sleep(0.05)
    average = hvd.allreduce(loss.detach(), name="avg_loss").item()
    if hvd.rank() == 0:
        print("\\nTest set: Average loss: {:.4f}, Accuracy: {:.2f}%\\n".format(average, 10.0))
"""
_IMAGENET = """
import argparse, os, shutil, time
import torch, torch.distributed as dist
given = argparse.ArgumentParser()
given.add_argument("--dummy", action="store_true")
given.add_argument("--dist-url", default="tcp://224.66.41.62:23456")
given.add_argument("--dist-backend", default="nccl")
given.add_argument("--resume", default="")
given = given.parse_args()
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group(given.dist_backend, init_method=given.dist_url, world_size=size, rank=rank)
model = torch.nn.Linear(12, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
first = 0
if given.resume:
    checkpoint = torch.load(given.resume)
    first = checkpoint["epoch"]
    model.load_state_dict(checkpoint["state_dict"])
    print("=> loaded checkpoint '{}' (epoch {})".format(given.resume, first))
model = torch.nn.parallel.DistributedDataParallel(model)
for epoch in range(first, 90):
    for batch in range(0, 40):
        loss = torch.nn.functional.cross_entropy(model(torch.rand(4, 12)), torch.randint(2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if batch % 10 == 0:
            print("Epoch: [{}][{:2d}/40]\\tTime  0.05 ( 0.05)\\tLoss {:.4e} (1e+00)\\tAcc@1 {:6.2f}"
                  .format(epoch, batch + 1, loss.item(), 100 * loss.item()))
        time.sleep(0.02)
    if rank == 0:
        torch.save({"epoch": epoch + 1, "state_dict": model.module.state_dict()},
                   "checkpoint.pth.tar")
        shutil.copyfile("checkpoint.pth.tar", "model_best.pth.tar")
"""
_DDP_TUTORIAL = """
import argparse, os, time
import torch
from torch.distributed import destroy_process_group, init_process_group
given = argparse.ArgumentParser()
given.add_argument("total_epochs", type=int)
given.add_argument("save_every", type=int)
given = given.parse_args()
device = torch.accelerator.current_accelerator() or torch.device("cpu")
init_process_group(backend=torch.distributed.get_default_backend_for_device(device))
model = torch.nn.Linear(20, 1)
first = 0
if os.path.exists("snapshot.pt"):
    snapshot = torch.load("snapshot.pt")
    model.load_state_dict(snapshot["MODEL_STATE"])
    first = snapshot["EPOCHS_RUN"]
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(first, given.total_epochs):
    print(f"[CPU{os.environ['RANK']}] Epoch {epoch} | Batchsize: 32 | Steps: 8")
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.rand(32, 20)), torch.rand(32, 1))
        loss.backward()
        optimizer.step()
        time.sleep(0.05)
    if os.environ["RANK"] == "0" and epoch % given.save_every == 0:
        torch.save({"MODEL_STATE": model.module.state_dict(), "EPOCHS_RUN": epoch}, "snapshot.pt")
        print(f"Epoch {epoch} | Training snapshot saved at snapshot.pt")
destroy_process_group()
"""
FOR_GPUS = """
import os
import torch
from torch.distributed import init_process_group
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
init_process_group(backend="nccl")
"""
ULTRALYTICS = """
import argparse
from ultralytics import YOLO
given = argparse.ArgumentParser()
given.add_argument("--data")
given.add_argument("--out")
given.add_argument("--resume", default="")
given = given.parse_args()
if given.resume:
    YOLO(given.resume).train(resume=True)
else:
    YOLO("yolov8n.yaml").train(data=given.data, epochs=1000, imgsz=64, batch=4, workers=0,
                               device="cpu", project=given.out, name="run", plots=False, amp=False)
"""
OPERATORS = """
import torch
for name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{name}",
                         "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
@torch.library.impl("torchvision::nms", "cpu")
def nms(boxes, scores, threshold):
    left, kept = scores.argsort(descending=True), []
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    while len(left):
        first, left = left[0], left[1:]
        kept.append(first)
        low = torch.maximum(boxes[first, :2], boxes[left, :2])
        high = torch.minimum(boxes[first, 2:], boxes[left, 2:])
        both = (high - low).clamp(min=0).prod(1)
        left = left[both / (areas[first] + areas[left] - both) <= threshold]
    return torch.stack(kept) if kept else left
import torchvision.extension
torchvision.extension._has_ops = lambda: True
"""
_OUT = ("--out", "{output}")
_RESUME = ("--resume", "{checkpoint}")
_MNIST_NUMBERS = ("Train Epoch: {epoch} [", "Loss: {Loss}")


@dataclass(frozen=True)
class Program:
    """``files`` by name, the first is the entry; ``process`` is the file that each rank runs."""

    files: dict[str, str]
    arguments: tuple[str, ...] = _OUT
    resume_arguments: tuple[str, ...] = _RESUME
    metrics: tuple[str, ...] = ("loss",)
    log_numbers: tuple[str, ...] = ()
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
    "mnist": Program(
        {"main.py": _MNIST},
        ("--epochs", "1000", "--no-accel"),
        (),
        ("Loss",),
        _MNIST_NUMBERS,
        "main.py",
    ),
    "horovod_mnist": Program(
        {"pytorch_mnist.py": _HOROVOD_MNIST},
        ("--no-cuda", "--epochs", "1000"),
        (),
        ("Loss", "avg_loss"),
        (*_MNIST_NUMBERS, "Average loss: {avg_loss}"),
        "pytorch_mnist.py",
    ),
    "imagenet": Program(
        {"main.py": _IMAGENET},
        ("--dummy", "--dist-url", "env://", "--dist-backend", "gloo"),
        _RESUME,
        ("Loss", "acc1"),
        ("Epoch: [{epoch}][…Loss {Loss} (", "Acc@1 {acc1}"),
        "main.py",
    ),
    "ddp_tutorial": Program(
        {"multinode.py": _DDP_TUTORIAL},
        ("100000", "2"),
        (),
        ("batch",),
        ("Epoch {epoch} | Batchsize: {batch}",),
        "multinode.py",
    ),
}
