"""The page of `preaction report`, from the counts of a trail. Every value is escaped, whatever stands in the trail."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from preaction.audit.summary import Summary
from preaction.cli.failing import fail
from preaction.cli.screen import readable
from preaction.cli.verdict_words import WHAT_TO_DO

MOST_ROWS: Final = 100
_HEIGHT: Final = 120
_WIDTH: Final = 720


def page(found: Summary, names: Sequence[str]) -> str:
    """The page as HTML. `names` are those of the files that were read."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        fail("preaction: this command needs one more package: pip install 'preaction[cli]'")
    pages = Environment(
        loader=PackageLoader("preaction.cli", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.finalize = _shown
    pages.filters["time"] = _time
    return pages.get_template("report.html").render(
        names=names,
        found=found,
        denials=found.denials.most_common(MOST_ROWS),
        tools=_by_tool(found),
        escalations=found.escalations.most_common(MOST_ROWS),
        rules=sorted(found.rules.items(), key=lambda pair: pair[1].first)[-MOST_ROWS:],
        what_to_do=WHAT_TO_DO,
        most_rows=MOST_ROWS,
        **_timeline(found),
    )


def _shown(value: Any) -> Any:
    """A text on one line, without what turns the direction of others or can't be seen."""
    return readable(value) if type(value) is str else value


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _by_tool(found: Summary) -> list[tuple[str, int, int]]:
    """Tools with what was allowed and denied, the one with the most denials first."""
    calls: Counter[str] = Counter()
    for (tool, allow), count in found.tools.items():
        calls[tool] += 0 if allow else count
    return [(tool, found.tools[tool, True], denied) for tool, denied in calls.most_common(MOST_ROWS)]


def _timeline(found: Summary) -> dict[str, Any]:
    """The bars of the timeline, with their places in a drawing of `_WIDTH` by `_HEIGHT`."""
    step, bars = found.timeline()
    most = max(bar.allowed + bar.denied for bar in bars)
    width = _WIDTH / len(bars)
    drawn = []
    for number, bar in enumerate(bars):
        allowed, denied = (_HEIGHT * count / most for count in (bar.allowed, bar.denied))
        drawn.append(
            {
                "bar": bar,
                "x": round(number * width, 2),
                "width": round(max(width - 1, width * 0.8), 2),
                "allowed": {"y": round(_HEIGHT - allowed, 2), "height": round(allowed, 2)},
                "denied": {"y": round(_HEIGHT - allowed - denied, 2), "height": round(denied, 2)},
            }
        )
    return {"bars": drawn, "most": most, "step": _length(step), "width": _WIDTH, "height": _HEIGHT}


def _length(step: timedelta) -> str:
    hours, minutes = divmod(step.total_seconds() / 60, 60)
    if step >= timedelta(days=1):
        return f"{step / timedelta(days=1):g} d"
    return f"{hours:g} h" if hours else f"{minutes:g} min"
