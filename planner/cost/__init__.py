"""Estimates the cost of a plan: rows, bytes, state and core seconds."""
