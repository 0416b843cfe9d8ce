"""So many steps of random numbers."""

import os

import torch


class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder: str) -> None:
        self.count = int(os.environ["STEPS"]) * int(os.environ.get("BATCH", "32"))
        self.data = torch.randn(4096, 64, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.data[index % 4096], index % 10
