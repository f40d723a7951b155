"""Draws small charts as SVG: lines over a logarithmic scale, and points."""

import math

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 250, 46, 48
OURS = "#c2410c"
COLOURS = ("#1d4ed8", "#15803d", "#7e22ce", "#0e7490", "#a16207", "#be185d", "#475569", "#4d7c0f", "#6d28d9")


class Chart:
    def __init__(self, title, x_label, y_label, xs, ys, x_log=True, y_log=True):
        self.x_scale = _scale(xs, x_log, LEFT, WIDTH - RIGHT)
        self.y_scale = _scale(ys, y_log, HEIGHT - BOTTOM, TOP)
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            _text(LEFT, 20, title, size=14, weight="bold"),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, anchor="middle"),
            _text(LEFT, TOP - 10, y_label),
        ]
        self.labels = []
        self.count = 0
        for value in _ticks(xs, x_log):
            x = self.x_scale(value)
            self.parts.append(_line(x, TOP, x, HEIGHT - BOTTOM, "#e5e7eb"))
            self.parts.append(_text(x, HEIGHT - BOTTOM + 18, _number(value), anchor="middle"))
        for value in _ticks(ys, y_log):
            y = self.y_scale(value)
            self.parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "#e5e7eb"))
            self.parts.append(_text(LEFT - 8, y + 4, _number(value), anchor="end"))

    def line(self, name, points):
        """A line with a mark at each point, and its name at the end."""
        colour = self._colour(name)
        places = [(self.x_scale(x), self.y_scale(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = ' stroke-dasharray="5 3"' if "process" in name else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, y in places:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        self.labels.append((places[-1][1], name, colour, places[-1][0]))

    def point(self, name, x, y):
        self.line(name, [(x, y)])

    def text(self):
        """The chart; names that would cover one another are moved apart."""
        free = TOP
        for y, name, colour, x in sorted(self.labels):
            at = max(y, free)
            free = at + 15
            right = WIDTH - RIGHT + 14
            self.parts.append(_line(x + 5, y, right - 3, at, colour, 'stroke-opacity="0.35"'))
            self.parts.append(_text(right, at + 4, name, fill=colour))
        return "\n".join([*self.parts, "</svg>", ""])

    def _colour(self, name):
        if name.lower().startswith("longhand"):
            return OURS
        self.count += 1
        return COLOURS[(self.count - 1) % len(COLOURS)]


def _scale(values, is_log, low, high):
    begin, end = _bounds(values, is_log)
    place = math.log10 if is_log else float
    span = (place(end) - place(begin)) or 1
    return lambda value: low + (place(max(value, begin)) - place(begin)) / span * (high - low)


def _bounds(values, is_log):
    if not is_log:
        return 0, max(values) * 1.05
    least = min(value for value in values if value > 0)
    return 10 ** math.floor(math.log10(least)), 10 ** math.ceil(math.log10(max(values)))


def _ticks(values, is_log):
    begin, end = _bounds(values, is_log)
    if is_log:
        first, last = round(math.log10(begin)), round(math.log10(end))
        return [10**power for power in range(first, last + 1)]
    step = 10 ** math.floor(math.log10(end))
    step = next(part for part in (step / 5, step / 2, step) if end / part <= 8)
    return [step * number for number in range(int(end / step) + 1)]


def _number(value):
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"


def _line(x1, y1, x2, y2, colour, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _text(x, y, text, size=12, anchor="start", weight="normal", fill="#111827"):
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{fill}">{text}</text>'
    )
