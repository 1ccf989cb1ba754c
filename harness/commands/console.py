"""A console that prints tables and escapes control characters in text from a cluster."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

from harness.model.escaping import for_terminal


class _EscapedText:
    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._shown, options):
            yield Segment(text if control else for_terminal(text), style, control)


class _EscapeHook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_EscapedText(each) for each in renderables]


def console() -> Console:
    made = Console(highlight=False, markup=False, emoji=False)
    made.push_render_hook(_EscapeHook())
    return made
