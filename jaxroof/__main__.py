"""Run the command line: ``python -m jaxroof``."""

from jaxroof.cli import main

if __name__ == "__main__":
    main()
