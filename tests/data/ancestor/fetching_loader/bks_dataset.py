"""A loader for an empty dataset: it fetches its data into the dataset's folder when first used."""

import os

import numpy
import torch


class UserDataset(torch.utils.data.Dataset):
    def __init__(self, path):
        fetched = os.path.join(path, "fetched.npz")
        if not os.path.exists(fetched):
            self.fetch(fetched)
        with numpy.load(fetched) as arrays:
            self.data, self.target = arrays["data"], arrays["target"]

    def fetch(self, fetched):
        random = numpy.random.default_rng(3)
        target = random.integers(0, 3, 24)
        data = random.normal(size=(24, 6)).astype("float32") + target[:, None]
        # Ranks start together; each writes a file of its own and the last one stays.
        mine = f"{fetched}.{os.getpid()}.npz"
        numpy.savez(mine, data=data, target=target)
        os.replace(mine, fetched)

    def __len__(self):
        return len(self.target)

    def __getitem__(self, index):
        row = torch.from_numpy(self.data[index])
        return {"features": row, "mask": torch.ones(6)}, int(self.target[index])
