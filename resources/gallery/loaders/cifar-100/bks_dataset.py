"""Reads CIFAR-100: 50,000 pictures to train on and 10,000 for validation, in 100 classes.

Source: Krizhevsky, Learning multiple layers of features from tiny images (2009).
"""

from cifar import Cifar

AUGMENT = "none"
LABELS = "fine"


class UserDataset(Cifar):
    """The pictures to train on: see cifar.py."""

    batches = ("train",)
    augment = AUGMENT

    def __init__(self, folder: str) -> None:
        # A binary record has the coarse label, the fine label, then the pixels.
        meta = ("meta", f"{LABELS}_label_names.txt", f"{LABELS}_label_names")
        label_byte = {"coarse": 0, "fine": 1}[LABELS]
        super().__init__(
            folder, [*self.batches], f"{LABELS}_labels", 2, label_byte, meta, self.augment
        )


class UserValDataset(UserDataset):
    """The pictures of the test file."""

    batches = ("test",)
    augment = "none"
