"""Figures of notebook 12: microseconds a step, by variant, by group of the last one, and as the model grows."""

from .style import FORWARD, HIGHLIGHT, MUTED, MUTED_INK, figure, picture  # noqa: F401 (notebook 12 asks for them)


def bars(times, colours, limit):
    """A bar for each variant, the shortest of its rounds, which are dots; times: name -> microseconds of each."""
    fig = figure(8.5, 0.42 * len(times) + 1.2)
    ax = fig.subplots()
    for y, (name, rounds) in enumerate(times.items()):
        ax.barh(y, min(rounds), 0.7, color=colours[name])
        ax.plot(rounds, [y] * len(rounds), ".", color="black", markersize=3, alpha=0.5)
        ax.text(max(rounds) + 0.01 * ax.get_xlim()[1], y, f"  {min(rounds):.0f}", va="center", fontsize=9)
    ax.axvline(limit, color="black", linestyle="--", linewidth=1.5, label="the six products alone")
    ax.set_yticks(range(len(times)), list(times))
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set(xlabel="microseconds a step (bar and number: the shortest round, dots: every round)")
    ax.legend(fontsize=9, loc="lower right")
    said = ", ".join(f"{name}: {min(rounds):.0f}" for name, rounds in times.items())
    alt = f"Horizontal bars, microseconds a step, of one run on one machine. {said}. A dashed line at {limit:.0f} marks "
    return picture(fig, alt + "the six products alone.")


def groups(spent, products):
    """A bar for each group of a step, and how much of it its products take when they run alone."""
    fig = figure(8.5, 3.2)
    ax = fig.subplots()
    ys = range(len(spent))
    ax.barh(ys, list(spent.values()), 0.7, color=MUTED, alpha=0.6, label="the whole group")
    ax.barh(ys, [products[name] for name in spent], 0.35, color=FORWARD, label="its products alone")
    ax.set_yticks(ys, list(spent))
    ax.invert_yaxis()
    ax.set(xlabel="microseconds a step")
    ax.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    said = ", ".join(f"{name} {t:.0f}, products {products[name]:.0f}" for name, t in spent.items())
    return picture(
        fig, f"For each group of the last variant two bars, microseconds of one run on one machine: {said}."
    )


# as the bars above
LOOKS = {"backward": (MUTED, "o"), "hand": (MUTED_INK, "s"), "NumPy": (FORWARD, "^")}


def growth(panels, overhead):
    """Time over size; panels: axis label -> (sizes, name -> microseconds a step). overhead: of PyTorch's steps."""
    fig = figure(9, 3.9)
    axes = fig.subplots(1, len(panels), sharey=True)
    least, most = zip(*((min(c), max(c)) for _, curves in panels.values() for c in curves.values()))
    for ax, (label, (sizes, curves)) in zip(axes, panels.items()):
        for name, values in curves.items():
            colour, marker = LOOKS[name]
            ax.plot(sizes, values, marker=marker, color=colour, markersize=5, label=name)
        ax.axhline(
            overhead, color="black", linestyle="--", linewidth=1.5, label="backward(), as good as no work"
        )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.set_yticks(*zip(*((t, f"{t:,}") for t in (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000))))
        ax.set_ylim(min(least) * 0.8, max(most) * 1.25)
        ax.minorticks_off()
        ax.grid(axis="y", which="major", color="#E5E5E5")
        ax.set_xlabel(label)
    axes[0].set_ylabel("microseconds a step")
    axes[0].legend(fontsize=9)
    alt = f"Two charts on logarithmic axes, microseconds a step over {' and over '.join(panels)}, for backward(), by "
    alt += f"hand and NumPy. All end higher than they begin. A dashed line at {overhead:.0f} is PyTorch's step with backward() at next to no "
    alt += "size. From the smallest size to the largest: "
    said = (
        f"{label}, {name}: {values[0]:.0f} to {values[-1]:.0f}"
        for label, (_, curves) in panels.items()
        for name, values in curves.items()
    )
    return picture(fig, alt + "; ".join(said) + ".")
