"""Pictures with boxes: brought to one square size, with the boxes in its pixels."""

import os
from typing import NamedTuple

import torch
from pictures import is_readable, open_picture, tensor_of
from PIL import Image
from splits import divide, part_of


class Sample(NamedTuple):
    """A picture and its objects.

    Attributes:
        path: Of the picture, relative to the dataset.
        part: training, validation, test or "".
        boxes: Left, top, right and bottom of each object, in pixels of the picture.
        names: The class of each object.
        size: Width and height of the picture that the boxes are for; None if unknown.
    """

    path: str
    part: str
    boxes: list[tuple[float, float, float, float]]
    names: list[str]
    size: tuple[int, int] | None = None


class Boxes(torch.utils.data.Dataset):
    """Items are the picture, and a dict of boxes (N × 4) and labels (N), as torchvision has them.

    A box is clipped to its picture; one that is empty or outside is left out.
    """

    def __init__(
        self,
        folder: str,
        samples: list[Sample],
        classes: list[str],
        is_validation: bool,
        *,
        side: int,
        channels: int,
        augment: str,
        bad_pictures: str,
        share: float,
        seed: int,
    ) -> None:
        self.folder = folder
        self.classes = classes
        self.side, self.channels = side, channels
        self.flips = augment == "flip" and not is_validation
        if not samples:
            raise ValueError("no picture of the dataset has a description of its boxes")
        held = divide([sample.part for sample in samples], [""] * len(samples), share, seed)
        self.samples = [
            one for one, is_held in zip(samples, held, strict=True) if is_held is is_validation
        ]
        if bad_pictures == "skip":
            self.samples = [one for one in self.samples if is_readable(folder, one.path)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        sample = self.samples[index]
        try:
            image = self.open(os.path.join(self.folder, sample.path), sample.size)
        except ValueError as error:
            raise ValueError(f"{error}, or set bad_pictures to “skip”") from error
        boxes = torch.tensor(sample.boxes, dtype=torch.float32).reshape(-1, 4)
        most = torch.tensor([image.width, image.height] * 2)
        boxes = boxes.clamp(min=0).minimum(most)
        labels = torch.tensor([self.classes.index(name) for name in sample.names])
        keep = ((boxes[:, 2:] - boxes[:, :2]) >= 1).all(1)
        picture, scale = self.fit(image)
        boxes, labels = boxes[keep] * scale, labels.long()[keep]
        if self.flips and torch.rand(1) < 0.5:
            picture = picture.flip(2)
            boxes = torch.stack(
                [self.side - boxes[:, 2], boxes[:, 1], self.side - boxes[:, 0], boxes[:, 3]], 1
            )
        return picture, {"boxes": boxes, "labels": labels}

    def open(self, path: str, size: tuple[int, int] | None) -> Image.Image:
        """Open a picture, turned as its EXIF says unless its boxes are for how it is stored."""
        image = open_picture(path, self.channels)
        if size is not None and image.size != size and image.size == size[::-1]:
            image = open_picture(path, self.channels, turn=False)
        return image

    def fit(self, image: Image.Image) -> tuple[torch.Tensor, float]:
        """Scale the longer side to the side; what is left on the right or below is black."""
        scale = self.side / max(image.size)
        width, height = (max(1, round(length * scale)) for length in image.size)
        canvas = Image.new(image.mode, (self.side, self.side))
        canvas.paste(image.resize((width, height)))
        return tensor_of(canvas), scale

    def read(self, path: str) -> torch.Tensor:
        """The picture in a file: for "Try it"."""
        return self.fit(self.open(path, None))[0]

    @staticmethod
    def collate(items: list[tuple[torch.Tensor, dict[str, torch.Tensor]]]) -> tuple:
        """A batch: pictures in one tensor, and a list of targets, for pictures differ in boxes."""
        return torch.stack([picture for picture, _ in items]), [target for _, target in items]


def find_picture(known: dict[str, list[str]], name: str, part: str) -> str:
    """The path that ends with a name of a picture, in a folder of the part if several do.

    ``known`` has the paths of all pictures by their names without folders.
    """
    wanted = name.replace("\\", "/").lstrip("./")
    found = known.get(os.path.basename(wanted), [])
    ending = [path for path in found if f"/{path}".replace(os.sep, "/").endswith(f"/{wanted}")]
    found = ending or found
    of_part = [path for path in found if part and part_of(path) == part]
    return (of_part or found or [wanted])[0]
