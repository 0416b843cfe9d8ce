"""Import, list, show and remove scripts: training programs of your own."""

from backend.cli.commands._library import for_kind

for_kind("script")
