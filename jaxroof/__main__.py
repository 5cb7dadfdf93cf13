"""Run the command line: ``jaxroof``, or ``python -m jaxroof``."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command line is there, without a word

from jaxroof.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
