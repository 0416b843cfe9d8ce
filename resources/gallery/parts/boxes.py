"""Pictures with boxes: brought to one square size, with the boxes in its pixels."""

import contextlib
import os
from typing import NamedTuple

import torch
from notes import Notes
from pictures import is_readable, open_picture, picture_size, tensor_of, white_of
from PIL import Image
from splits import PICTURES, divide, files

MOST_EXAMINED = 500


class Sample(NamedTuple):
    """A picture and its objects.

    Attributes:
        path: Of the picture, relative to the dataset.
        part: training, validation, test or "".
        boxes: Left, top, right and bottom of each object, in pixels of the picture.
        names: The class of each object.
        size: Width and height of the picture that the boxes are for, (1, 1) for shares of its
            sides; None if unknown.
        difficult: Of each object, whether it need not be found; None if the dataset has no marks.
    """

    path: str
    part: str
    boxes: list[tuple[float, float, float, float]]
    names: list[str]
    size: tuple[int, int] | None = None
    difficult: tuple[bool, ...] | None = None


class Boxes(torch.utils.data.Dataset):
    """Items are the picture, and a dict of boxes (N × 4) and labels (N), as torchvision has them.

    A box is clipped to its picture; one that is empty or outside is left out. A picture of another
    size than its description, but of the same shape, has its boxes scaled.
    """

    def __init__(
        self,
        folder: str,
        samples: list[Sample],
        classes: list[str],
        is_validation: bool,
        settings: dict[str, object],
        notes: Notes,
    ) -> None:
        """Divide the samples. ``settings`` has the constants of the loader's module."""
        self.folder = folder
        self.classes = classes
        self.reading_notes = notes
        self.side, self.channels = settings["SIDE"], settings["CHANNELS"]
        self.flips = settings["AUGMENT"] == "flip" and not is_validation
        if not samples:
            raise ValueError("no picture of the dataset has a description of its boxes")
        parts, share = [sample.part for sample in samples], settings["VALIDATION_SHARE"]
        membership = divide(parts, [""] * len(samples), share, settings["SEED"])
        described_paths = {sample.path for sample in samples}
        other_paths = [path for path in files(folder, *PICTURES) if path not in described_paths]
        notes.add("Left out, because no description of boxes is for them", other_paths, "picture")
        notes.add_unused([sample.path for sample in samples], membership, "picture")
        paths = [sample.path for sample in samples]
        self.white = settings["WHITE"] or white_of(folder, paths, notes)
        self.are_shares = are_shares(samples)
        self.are_upright = any(map(self.reaches_beyond, samples))
        self.samples = [
            sample
            for sample, is_held in zip(samples, membership, strict=True)
            if is_held is is_validation
        ]
        if settings["BAD_PICTURES"] == "skip":
            bad = {
                usable_sample.path
                for usable_sample in self.samples
                if not self.is_usable(usable_sample)
            }
            notes.add("Left out, because they cannot be read", sorted(bad), "picture")
            self.samples = [
                usable_sample for usable_sample in self.samples if usable_sample.path not in bad
            ]
        self.check_boxes(is_validation)

    def check_boxes(self, is_validation: bool) -> None:
        """Compare boxes with their pictures, of many only some; note what is odd."""
        notes = self.reading_notes
        described_samples = [sample for sample in self.samples if sample.boxes]
        boxless_paths = [sample.path for sample in self.samples if not sample.boxes]
        notes.add("Without a box", boxless_paths, "picture")
        if self.are_shares:
            shares = [sample.path for sample in described_samples if sample.size != (1, 1)]
            notes.add("Boxes are read as shares of the sides, from 0 to 1", shares, "picture")
        scaled_paths, outside_paths, turned_paths, examined_count = [], [], [], 0
        for sample in described_samples[:: len(described_samples) // MOST_EXAMINED + 1]:
            size = picture_size(os.path.join(self.folder, sample.path))
            if size is None:
                continue
            with contextlib.suppress(ValueError):  # The sample itself says so.
                _, is_kept, is_scaled = self.fit_boxes(sample, size)
                turned_paths += [sample.path] * (sample.size == size[::-1] != size)
                examined_count += len(is_kept)
                outside_paths += [sample.path] * int((~is_kept).sum())
                scaled_paths += [sample.path] * is_scaled
        notes.add(
            "Boxes are scaled to pictures of another size than described", scaled_paths, "picture"
        )
        meaning = "the picture turned by its EXIF" if self.are_upright else "the unturned picture"
        notes.add(f"Boxes are read as those of {meaning}", turned_paths, "picture")
        notes.add(
            f"Outside their picture or empty, of {examined_count} examined", outside_paths, "box"
        )
        if not is_validation and not described_samples:
            raise ValueError(f"none of the {len(boxless_paths)} pictures for training has a box")
        if not is_validation and examined_count == len(outside_paths) > 0:
            raise ValueError(
                f"no box is inside its picture, first of {outside_paths[0]}: check that the "
                "pictures "
                "have the size that the boxes are for, and that the boxes have this loader's form"
            )

    def fit_boxes(
        self, sample: Sample, size: tuple[int, int]
    ) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """The boxes in pixels of a picture of this size, which are kept, whether it was scaled."""
        boxes = torch.tensor(sample.boxes, dtype=torch.float32).reshape(-1, 4)
        described_size = sample.size
        if described_size == size[::-1]:
            size = described_size = size if self.are_upright else described_size
        sides = torch.tensor(size * 2)
        is_other = described_size not in (None, size) and min(described_size) > 0
        if self.are_shares:
            boxes, is_other = boxes * sides, False
        elif is_other:
            factors = sides / torch.tensor(described_size * 2)
            if abs(factors[0] / factors[1] - 1) > 0.02:
                raise ValueError(
                    f"{sample.path} has {size[0]} × {size[1]} pixels, but its boxes are for "
                    f"{described_size[0]} × {described_size[1]}: replace it"
                )
            boxes = boxes * factors
        boxes = boxes.clamp(min=0).minimum(sides)
        return boxes, ((boxes[:, 2:] - boxes[:, :2]) >= 1).all(1), is_other

    def reaches_beyond(self, sample: Sample) -> bool:
        """Whether a box fits only into the picture that EXIF turns, and not into the stored one.

        Label Studio states the stored size beside boxes that were drawn on the turned picture.
        """
        width, height = sample.size or (0, 0)
        right = max((box[2] for box in sample.boxes), default=0)
        bottom = max((box[3] for box in sample.boxes), default=0)
        is_beyond = right > width + 1 or bottom > height + 1
        if not (is_beyond and right <= height + 1 and bottom <= width + 1):
            return False
        return picture_size(os.path.join(self.folder, sample.path)) == (height, width)

    def is_usable(self, sample: Sample) -> bool:
        """Whether a picture can be read, and its boxes fit to it."""
        size = picture_size(os.path.join(self.folder, sample.path))
        if size is None or not is_readable(self.folder, sample.path):
            return False
        with contextlib.suppress(ValueError):
            return self.fit_boxes(sample, size) is not None
        return False

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        sample = self.samples[index]
        try:
            image = self.open(os.path.join(self.folder, sample.path), sample.size)
        except ValueError as error:
            raise ValueError(f"{error}, or set bad_pictures to “skip”") from error
        boxes, keep, _ = self.fit_boxes(sample, image.size)
        labels = torch.tensor([self.classes.index(name) for name in sample.names])
        picture, scale = self.fit_picture(image)
        boxes, labels = boxes[keep] * scale, labels.long()[keep]
        if self.flips and torch.rand(1) < 0.5:
            picture = picture.flip(2)
            boxes = torch.stack(
                [self.side - boxes[:, 2], boxes[:, 1], self.side - boxes[:, 0], boxes[:, 3]], 1
            )
        target = {"boxes": boxes, "labels": labels}
        if sample.difficult is not None:
            target["difficult"] = torch.tensor(sample.difficult, dtype=torch.bool)[keep]
        return picture, target

    def open(self, path: str, size: tuple[int, int] | None) -> Image.Image:
        """Open a picture, turned as its EXIF says unless its boxes are for how it is stored."""
        image = open_picture(path, self.channels, white=self.white)
        is_unturned = size is not None and image.size != size and image.size == size[::-1]
        if is_unturned and not self.are_upright:
            image = open_picture(path, self.channels, turn=False, white=self.white)
        return image

    def fit_picture(self, image: Image.Image) -> tuple[torch.Tensor, float]:
        """Scale the longer side to the side; what is left on the right or below is black."""
        scale = self.side / max(image.size)
        width, height = (max(1, round(length * scale)) for length in image.size)
        canvas = Image.new(image.mode, (self.side, self.side))
        canvas.paste(image.resize((width, height)))
        return tensor_of(canvas, self.channels), scale

    def read(self, path: str) -> torch.Tensor:
        """The picture in a file: for "Try it"."""
        return self.fit_picture(self.open(path, None))[0]

    @staticmethod
    def collate(items: list[tuple[torch.Tensor, dict[str, torch.Tensor]]]) -> tuple:
        """A batch: pictures in one tensor, and a list of targets, for pictures differ in boxes."""
        return torch.stack([picture for picture, _ in items]), [target for _, target in items]


def are_shares(samples: list[Sample]) -> bool:
    """Whether all boxes are from 0 to 1: in pixels each of them would be empty."""
    edges = [edge for sample in samples for box in sample.boxes for edge in box]
    is_stated = all(sample.size == (1, 1) for sample in samples)
    return is_stated or (bool(edges) and max(edges) <= 1.001)
