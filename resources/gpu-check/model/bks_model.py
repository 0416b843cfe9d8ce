"""A model that occupies a GPU, says what it sees, and takes what memory it is told to take."""

import os
import time

import torch
from torch import nn

STEPS, WARM = int(os.environ["STEPS"]), int(os.environ.get("WARM", "0"))
WIDTH, DEPTH = int(os.environ.get("WIDTH", "16")), int(os.environ.get("DEPTH", "1"))
EXTRA_BYTES = int(os.environ.get("EXTRA_BYTES", "0"))


class UserModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle_layer, self.last = (
            nn.Linear(64, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 10),
        )
        self.count = 0
        visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        print("SEES", visible_gpus, torch.cuda.device_count(), flush=True)  # noqa: T201

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        extra = torch.empty(EXTRA_BYTES, dtype=torch.uint8, device=data.device)
        data = self.first(data)
        for _ in range(DEPTH):
            data = torch.relu(self.middle_layer(data))
        return self.last(data) + extra.numel()

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        time.sleep(float(os.environ.get("PAUSE_S", "0")))
        self.count += 1
        if "STOPWATCH" in os.environ and self.count in (WARM, STEPS):
            if output.is_cuda:
                torch.cuda.synchronize()
            with open(os.environ["STOPWATCH"], "a") as file:
                file.write(f"{time.perf_counter()}\n")
        return nn.functional.cross_entropy(output, target)
