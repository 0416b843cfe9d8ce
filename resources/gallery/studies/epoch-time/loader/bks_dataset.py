"""Noise of the size of the digits: a step sleeps, so its pictures do not matter.

An epoch has 30 batches for each of 3, 7 or 11 workers.
"""

import torch

SAMPLES = 30 * 3 * 7 * 11


class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder: str) -> None:
        generator = torch.Generator().manual_seed(1)
        self.pictures = torch.rand(SAMPLES, 1, 8, 8, generator=generator)
        self.digits = torch.randint(10, (SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pictures[index], self.digits[index]
