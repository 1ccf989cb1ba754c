"""The command `trafficdist`, and `python -m trafficdist`."""

from __future__ import annotations

from trafficdist.own_packages import find_first


def main() -> None:
    """Run the command."""
    find_first()
    from harness.commands.main import main as command  # noqa: PLC0415  found first from here on

    command(prog_name="trafficdist")


if __name__ == "__main__":
    main()
