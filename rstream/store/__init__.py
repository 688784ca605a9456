"""Blob stores: named bytes on a disk, in memory or in an object store; names of files."""
