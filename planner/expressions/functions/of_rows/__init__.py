"""Functions over several rows or elements: lists, lambdas, frames, row patterns."""
