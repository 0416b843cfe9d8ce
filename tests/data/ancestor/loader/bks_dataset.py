"""A loader as BK.Synapse's users wrote it: unequal items, joined by collate."""

import os

import torch
import utils


class UserDataset(torch.utils.data.Dataset):
    def __init__(self, path):
        with open(os.path.join(path, "rows.txt")) as file:
            self.rows = [line.split() for line in file][self.part]

    part = slice(0, 40)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        label, *values = self.rows[index]
        return torch.tensor([float(value) for value in values]), int(label)

    def collate(self, batch):
        features = torch.zeros(len(batch), utils.WIDTH)
        mask = torch.zeros(len(batch), utils.WIDTH)
        for row, (values, _) in enumerate(batch):
            features[row, : len(values)] = values
            mask[row, : len(values)] = 1
        return {"features": features, "mask": mask}, torch.tensor([label for _, label in batch])


class UserValDataset(UserDataset):
    part = slice(40, None)
