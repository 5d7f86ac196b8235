"""Plots as SVG, with nothing but Python: lines over a scale, and bars. Light background, few lines.

A picture is a list of panels beside each other with one legend. Texts are real text, and every mark
has a <title>, so that a browser shows its figure.
"""
import html
import math

INK, FAINT, GRID = "#222222", "#666666", "#e4e4e4"
FONT = "font-family='Helvetica, Arial, sans-serif'"


class Scale:
    """From values to pixels; `log` or linear. Ticks are round numbers."""

    def __init__(self, values, start, end, log=False, zero=False, ticks=None):
        self.log, self.start, self.end = log, start, end
        low, high = min(values), max(values)
        if ticks:
            low, high = min(low, ticks[0]), max(high, ticks[-1])
        elif log:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
            high = high if high > low else 10 * low
        else:
            low = 0 if zero else low
            step = round_step((high - low) or abs(high) or 1)
            low, high = step * math.floor(low / step), step * math.ceil(high / step - 1e-9)
        self.low, self.high = low, high
        self.ticks = ticks or self.round_ticks()

    def round_ticks(self):
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0 ** e for e in range(first, last + 1)]
        step = round_step(self.high - self.low)
        count = round((self.high - self.low) / step)
        return [self.low + step * i for i in range(count + 1)]

    def __call__(self, value):
        a, b, v = self.low, self.high, value
        if self.log:
            a, b, v = math.log(a), math.log(b), math.log(max(v, a))
        return self.start + (v - a) / ((b - a) or 1) * (self.end - self.start)


def round_step(span):
    """1, 2 or 5 times a power of ten: four to eight steps to the span."""
    power = 10 ** math.floor(math.log10(span / 4))
    return next(f * power for f in (1, 2, 5, 10) if span / (f * power) <= 8)


def figure(value):
    """A number as an axis shows it."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def text(x, y, words, anchor="start", size=12, color=INK, turn=None, weight="normal"):
    move = f" transform='rotate({turn} {x:.1f} {y:.1f})'" if turn else ""
    return (f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' fill='{color}' "
            f"font-weight='{weight}' {FONT}{move}>{html.escape(words)}</text>")


def stroke(x1, y1, x2, y2, color=GRID, width=1.0, dash=""):
    return (f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{color}' "
            f"stroke-width='{width}' stroke-dasharray='{dash}'/>")


def picture(width, height, title, parts):
    head = (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
            f"height='{height}' role='img'><title>{html.escape(title)}</title>"
            f"<rect width='{width}' height='{height}' fill='white'/>")
    return "\n".join([head, text(16, 26, title, size=16, weight="bold"), *parts, "</svg>\n"])


def legend(x, y, styles):
    """styles: (name, colour, dash)."""
    parts = []
    for i, (name, color, dash) in enumerate(styles):
        line = y + 20 * i
        parts += [stroke(x, line, x + 26, line, color, 2.2, dash), text(x + 34, line + 4, name)]
    return parts


def axes(box, title, labels, scales, shown=figure):
    (left, top, right, bottom), (across, up) = box, scales
    parts = [text((left + right) / 2, top - 10, title, "middle", 13, weight="bold")]
    for tick in up.ticks:
        parts += [stroke(left, up(tick), right, up(tick)),
                  text(left - 7, up(tick) + 4, figure(tick), "end", 11, FAINT)]
    for tick in across.ticks:
        parts += [stroke(across(tick), bottom, across(tick), bottom + 4, FAINT),
                  text(across(tick), bottom + 17, shown(tick), "middle", 11, FAINT)]
    parts += [stroke(left, bottom, right, bottom, FAINT),
              text((left + right) / 2, bottom + 35, labels[0], "middle"),
              text(left - 46, (top + bottom) / 2, labels[1], "middle", turn=-90)]
    return parts


def lines(box, title, labels, series, xticks, log_y=False, reference=None):
    """series: (name, colour, dash, [(x, y)]); x is on a logarithmic scale. `reference`: a height that
    gets a line of its own."""
    left, top, right, bottom = box
    values = [y for s in series for _, y in s[3]] + ([reference] if reference else [])
    if not values:
        return [text((left + right) / 2, (top + bottom) / 2, "nothing was measured", "middle")]
    across = Scale([x for s in series for x, _ in s[3]], left + 8, right - 8, log=True, ticks=xticks)
    up = Scale(values, bottom, top, log=log_y, zero=True)
    parts = axes(box, title, labels, (across, up))
    if reference:
        parts.append(stroke(left, up(reference), right, up(reference), FAINT, 1, "2 3"))
    for name, color, dash, points in series:
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='2' "
                     f"stroke-dasharray='{dash}' stroke-linejoin='round'/>")
        for x, y in points:
            parts.append(f"<circle cx='{across(x):.1f}' cy='{up(y):.1f}' r='3' fill='{color}'>"
                         f"<title>{html.escape(name)}: {y:.4g} at {x:g}</title></circle>")
    return parts


def bars(box, label, groups, styles, unit):
    """Horizontal bars on a logarithmic scale. groups: (name, [value or None for each style]); styles:
    (name, colour)."""
    left, top, right, bottom = box
    values = [v for _, row in groups for v in row if v]
    if not values:
        return [text((left + right) / 2, (top + bottom) / 2, "nothing was measured", "middle")]
    across = Scale(values, left, right, log=True)
    parts = []
    for tick in across.ticks:
        parts += [stroke(across(tick), top, across(tick), bottom),
                  text(across(tick), bottom + 17, unit(tick), "middle", 11, FAINT)]
    height = (bottom - top) / len(groups)
    thick = 0.72 * height / len(styles)
    for i, (name, row) in enumerate(groups):
        start = top + height * i + 0.14 * height
        parts.append(text(left - 8, top + height * (i + 0.5) + 4, name, "end"))
        for k, value in enumerate(row):
            if value is None:
                continue
            end = max(across(value), left + 1) if value else left + 1
            parts += [f"<rect x='{left}' y='{start + thick * k:.1f}' width='{end - left:.1f}' "
                      f"height='{thick - 1:.1f}' fill='{styles[k][1]}'/>",
                      text(end + 5, start + thick * (k + 0.5) + 3.5, unit(value), size=11)]
    return parts + [stroke(left, top, left, bottom, FAINT),
                    text((left + right) / 2, bottom + 36, label, "middle")]
