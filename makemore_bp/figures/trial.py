"""Figures of notebook 11: where wrong gradients point, how soon a pair parts, and where the runs end."""

import math

from .style import BATCH_SUM, FORWARD, GRADIENT, HIGHLIGHT, MUTED, SEQUENTIAL, figure, minus, picture


def cosines(table):
    """A square for each derivation (row) and parameter (column); table: name -> (parameter -> cosine, or nan)."""
    fig = figure(7.5, 0.42 * len(table) + 1.1)
    ax = fig.subplots()
    names = list(next(iter(table.values())))
    values = [[row[name] for name in names] for row in table.values()]
    ax.imshow(values, cmap=SEQUENTIAL, vmin=-0.3, vmax=1, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "–" if math.isnan(value) else minus(f"{value:.2f}".replace("-0.00", "0.00"))
            ax.text(
                x, y, text, ha="center", va="center", fontsize=9, color="white" if value < 0.4 else "black"
            )
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(table)), map(minus, table))
    ax.set_title("cosine between the wrong gradient and the true one")
    ax.axvline(len(names) - 1.5, color="white", linewidth=4)
    ax.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    low = {
        f"{name}, {p}: {c:.2f}".replace("-0.00", "0.00")
        for name, row in table.items()
        for p, c in row.items()
        if c < 0.5
    }
    alt = "A table of cosines: derivations down, parameters across, and all parameters together in the last column. "
    return picture(fig, alt + f"Below one half are: {'; '.join(sorted(low))}.")


MARKS = "osD^v<>P"  # one for each wrong derivation, since the colours alone are not told apart in grey


def parting(pairs, control, limit):
    """How far a run's minibatch loss has come from its twin's, the largest so far; name -> one value per step."""
    fig = figure(8.5, 4)
    ax = fig.subplots()
    highest = 0
    for k, (name, values) in enumerate(pairs.items()):
        steps = range(1, len(values))
        line = ("-", "--", ":")[k // 3]
        colour = (GRADIENT, HIGHLIGHT, BATCH_SUM)[k % 3]
        look = {"marker": MARKS[k], "markersize": 5, "markevery": (0.01 * k, 0.1), "linewidth": 1.6}
        ax.plot(steps, values[1:], line, color=colour, label=minus(name), **look)
        highest = max(highest, *values)
    for name, values in control.items():
        ax.plot(range(1, len(values)), values[1:], color=FORWARD, linewidth=2.5, label=name)
    ax.axhline(limit, color=MUTED, linewidth=1)
    ax.text(1.05, limit / 2.2, "alarm", color="#555555", fontsize=9)
    ax.set(
        xscale="log", yscale="log", ylim=(1e-8, 3 * highest), xlabel="steps taken", ylabel="loss difference"
    )
    ax.set_title("The largest difference between a pair's losses so far")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    ends = "; ".join(f"{name} {values[-1]:.0e}" for name, values in pairs.items())
    alt = f"Curves over the steps, both axes logarithmic. After {len(values)} losses: {ends}. The two right runs stay below "
    return picture(fig, alt + f"the alarm at {limit:.0e} all the time.")


def ends(paired, right, published):
    """Final losses as differences. paired: name -> one value a seed; right and published: losses from any seed."""
    fig = figure(8.5, 0.36 * len(paired) + 2.2)
    ax = fig.subplots()
    rows = [*paired, "right, other seeds", "published"]
    right_of, published_of = (
        [x - sum(values) / len(values) for x in values] for values in (right, published)
    )
    ax.axvspan(min(right_of), max(right_of), color=FORWARD, alpha=0.12, linewidth=0)
    ax.axvline(0, color=MUTED, linewidth=1)
    for y, (name, values) in enumerate(paired.items()):
        ax.plot(values, [y] * len(values), "o", color=GRADIENT, markersize=6, alpha=0.75)
    ax.plot(right_of, [len(rows) - 2] * len(right_of), "D", color=FORWARD, markersize=6, alpha=0.75)
    ax.plot(published_of, [len(rows) - 1] * len(published_of), "s", color=MUTED, markersize=6)
    ax.set_yticks(range(len(rows)), map(minus, rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xscale("symlog", linthresh=0.01, linscale=1.5)
    ax.set_xlim(-0.015, 1.3)
    ax.set_title("What hides in the band, an unpaired loss cannot see")
    ticks = (-0.01, -0.005, 0, 0.005, 0.01, 0.03, 0.1, 0.3, 1)
    ax.set_xticks(ticks, [minus(f"{x:+g}") if x else "0" for x in ticks])
    ax.minorticks_off()
    ax.grid(axis="y", color="#EEEEEE")
    ax.set(xlabel="val loss: wrong − right of the same seed (orange); from their own mean (blue, grey)")
    means = "; ".join(f"{name} {min(v):+.4f} to {max(v):+.4f}" for name, v in paired.items())
    alt = f"Dots, one a seed: the paired difference of the final val loss. {means}. Below them the right runs over seeds, "
    return picture(
        fig,
        alt + f"which span {max(right) - min(right):.4f}, and the published results, which span "
        f"{max(published) - min(published):.4f}.",
    )


def curves(runs, block=2000):
    """The loss over the steps as its mean over blocks; runs: name -> one minibatch loss per step, "right" first."""
    fig = figure(9, 4.2)
    ax = fig.subplots()
    looks = [(colour, line) for line in ("-", "--", ":") for colour in (GRADIENT, HIGHLIGHT, BATCH_SUM)]
    last = {}
    for k, (name, losses) in enumerate(runs.items()):
        starts = range(0, len(losses), block)
        means = [sum(losses[s : s + block]) / len(losses[s : s + block]) for s in starts]
        colour, line = (FORWARD, "-") if k == 0 else looks[k - 1]
        look = {"linewidth": 6, "alpha": 0.4} if k == 0 else {"linewidth": 1.6}
        if k:
            look |= {"marker": MARKS[k - 1], "markersize": 5, "markevery": (2 * k, 20)}
        ax.plot([s + block / 2 for s in starts], means, line, color=colour, label=minus(name), **look)
        last[name] = means[-1]
    ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    ax.set(xlabel="step", ylabel=f"loss, mean over {block} steps")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    alt = "Loss curves of the right run and the eight wrong ones. At the end: "
    return picture(fig, alt + ", ".join(f"{name} {value:.2f}" for name, value in last.items()) + ".")
