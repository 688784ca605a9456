"""Named bytes in a folder: on a disk, in memory, in an object store; and how files are named."""
