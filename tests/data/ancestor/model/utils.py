import torch


def activation(data):
    return torch.relu(data)
