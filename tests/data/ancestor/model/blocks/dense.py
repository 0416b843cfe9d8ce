import torch
from utils import activation


class Dense(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, data):
        return activation(self.linear(data))
