"""The bare script that Ringmaster is measured against: what a person would write without it.

``python bare_horovod.py MODEL_FOLDER LOADER_FOLDER EPOCHS BATCH_SIZE``, under mpirun.
"""

import importlib.util
import sys

import horovod.torch as hvd
import torch


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hvd.init()
torch.manual_seed(1)
model = load(sys.argv[1], "bks_model").UserModel()
dataset = load(sys.argv[2], "bks_dataset").UserDataset(".")
sampler = torch.utils.data.distributed.DistributedSampler(dataset, hvd.size(), hvd.rank())
batches = torch.utils.data.DataLoader(dataset, int(sys.argv[4]), sampler=sampler, drop_last=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for epoch in range(int(sys.argv[3])):
    sampler.set_epoch(epoch)
    for data, target in batches:
        optimizer.zero_grad()
        model.loss(model(data), target).backward()
        optimizer.step()
