"""Draws pictures that look like scanned receipts, with a box around each piece of text.

Source: BK.Synapse (2019), section 4.2, has 532 receipts to train on, 47 for validation and 47 for
the test. These are drawn from the seed and the number of the picture, the same in any process, so
the dataset needs no files.
"""

import numpy
import torch
from PIL import Image, ImageDraw, ImageFont

SIDE = 512
TRAIN = 532
VALIDATION = 47
TEST = 47
SEED = 1
SPLIT = "validation"
LINES = 18

SHOPS = (
    "CORNER MARKET",
    "GREEN GROCER",
    "CITY BOOKS",
    "NIGHT PHARMACY",
    "HARBOUR CAFE",
    "MINI MART",
)
STREETS = ("Mill Lane", "High Street", "Station Road", "Park Avenue", "Bridge Street")
GOODS = ("Milk", "Bread", "Apples", "Tea", "Rice", "Butter", "Eggs", "Soap", "Notebook", "Pencils",
         "Tomatoes", "Coffee", "Cheese", "Orange juice", "Batteries", "Honey")  # fmt: skip
CLOSING_LINES = ("Thank you", "See you again", "Have a nice day", "Keep this receipt")
SETS = ("training", "validation", "test")


class UserDataset(torch.utils.data.Dataset):
    """A picture of 3 × SIDE × SIDE from 0 to 1, and a dict with its boxes and labels."""

    sets = ("training",)
    classes = ("text",)

    def __init__(self, folder: str) -> None:
        counts = dict(zip(SETS, (TRAIN, VALIDATION, TEST), strict=True))
        # The sets differ in the picture's seed, so they share no picture whatever their sizes.
        self.pictures = [(name, number) for name in self.sets for number in range(counts[name])]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, object]]:
        name, number = self.pictures[index]
        picture, boxes = draw_receipt(numpy.random.default_rng((SEED, SETS.index(name), number)))
        target = {"boxes": boxes, "labels": torch.zeros(len(boxes), dtype=torch.int64)}
        if len(self.sets) > 1:
            target["set"] = name
        return picture, target

    def collate(self, items: list) -> tuple[torch.Tensor, list]:
        return torch.stack([picture for picture, _ in items]), [target for _, target in items]

    def read(self, path: str) -> torch.Tensor:
        """Return the data of a scan: as large as fits into the square, on grey."""
        scan = Image.open(path).convert("RGB")
        scan.thumbnail((SIDE, SIDE))
        square = Image.new("RGB", (SIDE, SIDE), (128, 128, 128))
        square.paste(scan, ((SIDE - scan.width) // 2, (SIDE - scan.height) // 2))
        return as_tensor(numpy.asarray(square, numpy.float32) / 255)


class UserValDataset(UserDataset):
    """The pictures that training does not see; with SPLIT "all", all three sets, each measured."""

    sets = SETS if SPLIT == "all" else (SPLIT,)


def draw_receipt(random: numpy.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one receipt; return its picture and the boxes of its text."""
    desk = random.integers(40, 110, 3)
    image = Image.new("RGB", (SIDE, SIDE), tuple(map(int, desk)))
    draw = ImageDraw.Draw(image)
    width = int(SIDE * random.uniform(0.6, 0.85))
    left = int(random.integers(0, SIDE - width + 1))
    top, bottom = (int(SIDE * share) for share in random.uniform((0.0, 0.93), (0.07, 1.0)))
    paper = int(random.integers(215, 250))
    draw.rectangle((left, top, left + width, bottom), (paper, paper, paper - 8))
    text_height = (bottom - top) * 0.94
    count = max(4, int(LINES * text_height / SIDE / random.uniform(0.9, 1.1)))
    height = text_height / count
    ink = (int(random.integers(20, 90)),) * 3
    boxes = []
    y = top + (bottom - top) * 0.03
    margin = width * 0.06
    for line in receipt_lines(random, count):
        texts = {alignment: text for alignment, text in line.items() if alignment != "size"}
        size = height * line.get("size", 0.72)
        # What is too long for the paper is printed smaller.
        needed_width = ImageFont.load_default(size).getlength("  ".join(texts.values()))
        font = ImageFont.load_default(size * min(1, (width - 2 * margin) / needed_width))
        for alignment, text in texts.items():
            length = font.getlength(text)
            starts = {
                "start": left + margin,
                "middle": left + (width - length) / 2,
                "end": left + width - margin - length,
            }
            draw.text((starts[alignment], y), text, ink, font)
            boxes.append(draw.textbbox((starts[alignment], y), text, font))
        y += height
    pixels = numpy.asarray(image, numpy.float32) / 255
    # A lamp that shines from one side, and the noise of a scanner.
    light = numpy.linspace(*random.uniform(0.8, 1.05, 2), SIDE, dtype=numpy.float32)
    pixels = pixels * light[:, None] + random.normal(0, 0.03, (SIDE, SIDE, 1))
    box_tensor = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4).clamp(0, SIDE)
    return as_tensor(pixels.clip(0, 1)), box_tensor


def receipt_lines(random: numpy.random.Generator, count: int) -> list[dict[str, object]]:
    """Return what stands on each line, at its start, in its middle and at its end, and its size."""
    head = [{"middle": str(random.choice(SHOPS)), "size": 0.9}]
    if count > 6:
        number = int(random.integers(1, 200))
        head.append({"middle": f"{number} {random.choice(STREETS)}"})
    date = f"{random.integers(1, 29):02}/{random.integers(1, 13):02}/{random.integers(2015, 2020)}"
    time = f"{random.integers(8, 21):02}:{random.integers(0, 60):02}"
    head.append({"start": date, "end": time})
    end = [{"middle": str(random.choice(CLOSING_LINES))}] if count > 4 else []
    goods = []
    total = 0.0
    for _ in range(count - len(head) - 1 - len(end)):
        price = float(random.integers(50, 2500)) / 100
        total += price
        goods.append({"start": str(random.choice(GOODS)), "end": f"{price:.2f}"})
    return [*head, *goods, {"start": "TOTAL", "end": f"{total:.2f}", "size": 0.9}, *end]


def as_tensor(pixels: numpy.ndarray) -> torch.Tensor:
    return torch.from_numpy(numpy.ascontiguousarray(pixels.transpose(2, 0, 1), numpy.float32))
