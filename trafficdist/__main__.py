"""The command `trafficdist`, and `python -m trafficdist`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command. If it is interrupted or runs out of memory while it loads, print one line."""
    try:
        from trafficdist.own_packages import find_first  # noqa: PLC0415  may be interrupted

        find_first()
        from harness.commands.main import main as command  # noqa: PLC0415  imports find our packages from here on

        command(prog_name="trafficdist")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except (ImportError, MemoryError) as error:
        if isinstance(error, ImportError) and "failed to map" not in str(error):  # not a lack of memory
            raise
        print("error: out of memory: raise `ulimit -v`", file=sys.stderr)  # noqa: T201
        sys.exit(12)


if __name__ == "__main__":
    main()
