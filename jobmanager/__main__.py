"""``python -m jobmanager``."""

from jobmanager.cli import main

if __name__ == "__main__":
    main()
