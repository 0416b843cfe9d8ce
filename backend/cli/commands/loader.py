"""Import, list, show and remove loaders."""

from backend.cli.commands._library import for_kind

for_kind("loader")
