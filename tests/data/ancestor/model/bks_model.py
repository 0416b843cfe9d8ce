"""A model as BK.Synapse's users wrote it: several files, absolute imports, metrics as floats."""

import torch
from blocks.dense import Dense


class UserModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = Dense(6, 8)
        self.out = torch.nn.Linear(8, 3)
        self.criterion = torch.nn.CrossEntropyLoss()

    def forward(self, data):
        features, mask = data["features"], data["mask"]
        return self.out(self.hidden(features * mask))

    def loss(self, output, target):
        return self.criterion(output, target)

    def metrics(self, output, target):
        hits = torch.argmax(output, dim=1) == target
        return {"accuracy": hits.float().mean().item(), "hits": hits.sum().item()}


if __name__ == "__main__":
    raise SystemExit(UserModel())
