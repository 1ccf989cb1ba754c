"""`python -m trafficdist` is the command `trafficdist`."""

from __future__ import annotations

from harness.commands.main import main

if __name__ == "__main__":
    main(prog_name="trafficdist")
