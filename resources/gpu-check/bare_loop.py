"""The reference for the overhead of a step: PyTorch alone, with the same model and settings."""

import os

import torch
from bks_dataset import UserDataset
from bks_model import UserModel


def main() -> None:
    on_gpu = bool(os.environ["CUDA_VISIBLE_DEVICES"])
    device = torch.device("cuda" if on_gpu else "cpu")
    model = UserModel().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    batches = torch.utils.data.DataLoader(
        UserDataset(""),
        int(os.environ["BATCH"]),
        shuffle=True,
        num_workers=2,
        pin_memory=on_gpu,
    )
    for data, target in batches:
        data, target = (tensor.to(device, non_blocking=True) for tensor in (data, target))
        optimizer.zero_grad()
        model.loss(model(data), target).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
