"""The systems, one file each, which is imported only by the process that runs the system.

A system is a class with ``__init__(folder)``, the start-up, which is reported separately;
``NAMES``, the queries it can run; ``VARIANTS``, settings that are tried in turn, of which the best
counts; and ``run(name, out, variant)``, which writes the answer below ``out`` and returns the
seconds it took.
"""
