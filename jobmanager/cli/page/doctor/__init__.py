"""Diagnoses a job: its faults, since when, their causes and remedies. Pure."""

from jobmanager.cli.page.doctor.case import Case, Finding
from jobmanager.cli.page.doctor.examination import findings

__all__ = ["Case", "Finding", "findings"]
