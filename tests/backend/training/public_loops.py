"""Small training programs of public libraries; each writes its numbers as the library does."""

_DATA = """
import sys
import torch
out = sys.argv[1]
x = torch.randn(96, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
"""
_LIGHTNING = """
import lightning
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = (self.layer(batch[0]) - batch[1]).square().mean()
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, index):
        self.log("val_loss", (self.layer(batch[0]) - batch[1]).square().mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
loader = torch.utils.data.DataLoader(data, 2)
trainer = lightning.Trainer(max_epochs=5, accelerator="cpu", devices=1, log_every_n_steps=1,
                            logger=CSVLogger(out), callbacks=[LearningRateMonitor("epoch")],
                            check_val_every_n_epoch=3, enable_progress_bar=False)
trainer.fit(Net(), loader, loader)
"""
_ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=out)
accelerator.init_trackers("run")
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), 0.01)
loader = torch.utils.data.DataLoader(data, 8)
layer, optimizer, loader = accelerator.prepare(layer, optimizer, loader)
step = 0
for epoch in range(4):
    for batch, target in loader:
        optimizer.zero_grad()
        loss = (layer(batch) - target).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        step += 1
        accelerator.log({"loss": loss.item()}, step=step)
    accelerator.log({"val_loss": loss.item() / 2}, step=step)
    accelerator.save_state(f"{out}/epoch_{epoch}")
accelerator.end_training()
"""
_TRANSFORMERS = """
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        words = torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words[0] % 2}
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16)
arguments = TrainingArguments(out, num_train_epochs=2, per_device_train_batch_size=4,
                              logging_steps=3, eval_strategy="epoch", save_steps=5, use_cpu=True,
                              report_to=[])
model = BertForSequenceClassification(config)
Trainer(model, arguments, train_dataset=Data(), eval_dataset=Data()).train()
"""
_MMENGINE = """
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
class Net(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, y, mode):
        result = self.layer(x)
        return {"loss": (result - y).square().mean()} if mode == "loss" else (result, y)
class Error(BaseMetric):
    def process(self, batch, samples):
        self.results.append((samples[0] - samples[1]).abs().mean().item())
    def compute_metrics(self, results):
        return {"error": sum(results) / len(results)}
loader = {"batch_size": 4, "dataset": data, "sampler": {"type": "DefaultSampler", "shuffle": True},
          "collate_fn": {"type": "default_collate"}}
Runner(Net(), out, train_dataloader=loader, val_dataloader=loader, val_evaluator={"type": Error},
       train_cfg={"by_epoch": True, "max_epochs": 3, "val_interval": 1}, val_cfg={},
       optim_wrapper={"optimizer": {"type": torch.optim.SGD, "lr": 0.01}},
       default_hooks={"logger": {"type": "LoggerHook", "interval": 5}}).train()
"""
_TIMM = """
import os
from collections import OrderedDict
from timm.utils import update_summary
model = torch.nn.Linear(4, 1)
for epoch in range(4):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean().item()
    update_summary(epoch, OrderedDict([("loss", loss + epoch)]),
                   OrderedDict([("loss", loss), ("top1", 10.0 * epoch)]),
                   os.path.join(out, "summary.csv"), lr=0.1 / (1 + epoch), write_header=epoch == 0)
"""
_ULTRALYTICS = """
from pathlib import Path
from PIL import Image
from ultralytics import YOLO
top = Path("boxes").absolute()
for split in ("train", "val"):
    for name in ("images", "labels"):
        (top / name / split).mkdir(parents=True, exist_ok=True)
    for n in range(4):
        Image.new("RGB", (64, 64), (n * 40, 90, 120)).save(top / f"images/{split}/{n}.png")
        (top / f"labels/{split}/{n}.txt").write_text("0 0.5 0.5 0.4 0.4\\n")
(top / "data.yaml").write_text(f"path: {top}\\ntrain: images/train\\nval: images/val\\n"
                               "names: [box]\\n")
YOLO("yolov8n.yaml").train(data=str(top / "data.yaml"), epochs=2, imgsz=64, batch=4, workers=0,
                           device="cpu", project=out, name="run", plots=False, amp=False)
"""
_YOLOV5 = """
from pathlib import Path
keys = ("train/box_loss", "metrics/mAP_0.5", "val/box_loss", "x/lr0")
file = Path(out, "results.csv")
for epoch in range(4):
    values = dict(zip(keys, torch.rand(4).tolist()))
    n = len(values) + 1
    head = "" if file.exists() else (("%20s," * n % ("epoch", *keys)).rstrip(",") + "\\n")
    with open(file, "a") as stream:
        stream.write(head + ("%20.5g," * n % (epoch, *values.values())).rstrip(",") + "\\n")
"""
_TWO_WRITERS = """
from torch.utils.tensorboard import SummaryWriter
writers = {name: SummaryWriter(f"{out}/{name}") for name in ("train", "val")}
for step in range(1, 41):
    writers["train"].add_scalar("loss", 1 / step, step)
    if step % 10 == 0:
        writers["val"].add_scalar("loss", 2 / step, step)
for writer in writers.values():
    writer.close()
"""
LOOPS = {
    name: _DATA + code
    for name, code in {
        "lightning": _LIGHTNING,
        "accelerate": _ACCELERATE,
        "transformers": _TRANSFORMERS,
        "mmengine": _MMENGINE,
        "timm": _TIMM,
        "ultralytics": _ULTRALYTICS,
        "yolov5": _YOLOV5,
        "two_writers": _TWO_WRITERS,
    }.items()
}
PACKAGES = (
    *("accelerate", "lightning", "mmengine", "opencv-python-headless", "tensorboard", "timm"),
    *("torchvision==0.28.*", "transformers", "ultralytics"),
)
OF_THE_ENVIRONMENT = ("numpy", "opencv-python", "torch")
