"""``python -m jobmanager``."""

from jobmanager.cli.main import main

if __name__ == "__main__":
    main()
